# Rows in few bits.
check_PROGRAMS += tests/serve/test_rows
