check_PROGRAMS += tests/test_dense tests/test_dense_optim tests/test_ddp tests/test_ddp_rows tests/test_linear
