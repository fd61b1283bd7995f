check_PROGRAMS += tests/base/test_base
