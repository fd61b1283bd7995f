# The device's contract and what of cuda/ can be tested without a GPU; with one,
# the same contract and more.
check_PROGRAMS += tests/test_device tests/test_cuda_parts
