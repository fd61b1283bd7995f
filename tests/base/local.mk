check_PROGRAMS += tests/base/test_base tests/base/test_report
# Permutations that are computed.
check_PROGRAMS += tests/base/test_permute
# Runs of a batch that cost the same.
check_PROGRAMS += tests/base/test_balance
