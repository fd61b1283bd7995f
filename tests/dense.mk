check_PROGRAMS += tests/test_dense tests/test_ddp
