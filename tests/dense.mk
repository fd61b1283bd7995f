check_PROGRAMS += tests/test_dense tests/test_dense_optim tests/test_ddp tests/test_ddp_rows tests/test_ddp_gaps tests/test_linear tests/test_mlp tests/test_models
tests_test_linear_SOURCES = tests/test_linear.c tests/linear_probe.c \
  tests/linear_probe.h
tests_test_models_SOURCES = tests/test_models.c tests/model_oracle.c tests/model_oracle.h
# Fully sharded: layers that sleep.
fs_toy = tests/fs_toy.c tests/fs_toy.h
EXTRA_DIST += tests/optim_config.h
check_PROGRAMS += tests/test_fully_sharded tests/test_fs_numbers \
  tests/test_fs_refused
tests_test_fully_sharded_SOURCES = tests/test_fully_sharded.c $(fs_toy)
tests_test_fs_numbers_SOURCES = tests/test_fs_numbers.c $(fs_toy)
tests_test_fs_refused_SOURCES = tests/test_fs_refused.c $(fs_toy)
check_PROGRAMS += tests/test_fs_timing tests/test_fs_traces
tests_test_fs_timing_SOURCES = tests/test_fs_timing.c tests/fs_sleep.h \
  $(fs_toy)
tests_test_fs_traces_SOURCES = tests/test_fs_traces.c tests/fs_sleep.h \
  $(fs_toy)
