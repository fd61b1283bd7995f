# Decks: schema, values, errors, --set, the deck in force.
check_PROGRAMS += tests/test_deck
