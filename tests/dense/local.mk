check_PROGRAMS += tests/dense/test_dense tests/dense/test_ddp tests/dense/test_ddp_rows tests/dense/test_ddp_gaps tests/dense/test_linear tests/dense/test_mlp \
  tests/dense/test_cross
tests_dense_test_linear_SOURCES = tests/dense/test_linear.c tests/dense/linear_probe.c \
  tests/dense/linear_probe.h
# Fully sharded: layers that sleep.
fully_sharded_toy = tests/dense/fully_sharded_toy.c tests/dense/fully_sharded_toy.h
check_PROGRAMS += tests/dense/test_fully_sharded tests/dense/test_fully_sharded_numbers \
  tests/dense/test_fully_sharded_refused
tests_dense_test_fully_sharded_SOURCES = tests/dense/test_fully_sharded.c $(fully_sharded_toy)
tests_dense_test_fully_sharded_numbers_SOURCES = tests/dense/test_fully_sharded_numbers.c $(fully_sharded_toy)
tests_dense_test_fully_sharded_refused_SOURCES = tests/dense/test_fully_sharded_refused.c $(fully_sharded_toy)
check_PROGRAMS += tests/dense/test_param_optim
tests_dense_test_param_optim_SOURCES = tests/dense/test_param_optim.c $(fully_sharded_toy)
check_PROGRAMS += tests/dense/test_fully_sharded_timing tests/dense/test_fully_sharded_traces
tests_dense_test_fully_sharded_timing_SOURCES = tests/dense/test_fully_sharded_timing.c tests/dense/fully_sharded_sleep.h \
  $(fully_sharded_toy)
tests_dense_test_fully_sharded_traces_SOURCES = tests/dense/test_fully_sharded_traces.c tests/dense/fully_sharded_sleep.h \
  $(fully_sharded_toy)
# Products on a GPU.
if HAVE_CUDA
check_PROGRAMS += tests/dense/test_cuda_products_gpu
endif
EXTRA_DIST += tests/dense/ddp_rig.h
