check_PROGRAMS += tests/test_base tests/test_runtime
