check_PROGRAMS += tests/test_checkpoint
