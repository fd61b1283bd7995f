# Decks: schema, values, errors, --set, the deck in force.
check_PROGRAMS += tests/test_deck tests/test_deck_faults
EXTRA_DIST += tests/deck_text.h
