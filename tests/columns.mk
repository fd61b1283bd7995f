# The two forms of a batch's ids.
check_PROGRAMS += tests/test_columns
dist_check_SCRIPTS += tests/columns.sh
