check_PROGRAMS += tests/test_dense tests/test_dense_optim tests/test_ddp tests/test_linear
