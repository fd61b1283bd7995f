# Kernels of the embedding tables, row optimizers, groups.
check_PROGRAMS += tests/test_lookup tests/test_row_update \
  tests/test_cache tests/test_row_optim tests/test_tbe tests/test_weight_grad
EXTRA_DIST += tests/sparse_util.h
# The benchmark of a group on devices: its core.
check_PROGRAMS += tests/test_bench_tbe
EXTRA_DIST += jobs/bench_embeddings
