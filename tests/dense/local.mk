check_PROGRAMS += tests/dense/test_dense tests/dense/test_dense_optim tests/dense/test_ddp tests/dense/test_ddp_rows tests/dense/test_ddp_gaps tests/dense/test_linear tests/dense/test_mlp
tests_dense_test_linear_SOURCES = tests/dense/test_linear.c tests/dense/linear_probe.c \
  tests/dense/linear_probe.h
# Fully sharded: layers that sleep.
fs_toy = tests/dense/fs_toy.c tests/dense/fs_toy.h
check_PROGRAMS += tests/dense/test_fully_sharded tests/dense/test_fs_numbers \
  tests/dense/test_fs_refused
tests_dense_test_fully_sharded_SOURCES = tests/dense/test_fully_sharded.c $(fs_toy)
tests_dense_test_fs_numbers_SOURCES = tests/dense/test_fs_numbers.c $(fs_toy)
tests_dense_test_fs_refused_SOURCES = tests/dense/test_fs_refused.c $(fs_toy)
check_PROGRAMS += tests/dense/test_fs_timing tests/dense/test_fs_traces
tests_dense_test_fs_timing_SOURCES = tests/dense/test_fs_timing.c tests/dense/fs_sleep.h \
  $(fs_toy)
tests_dense_test_fs_traces_SOURCES = tests/dense/test_fs_traces.c tests/dense/fs_sleep.h \
  $(fs_toy)
