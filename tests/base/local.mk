check_PROGRAMS += tests/base/test_base tests/base/test_report
