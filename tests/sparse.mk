# Kernels of the embedding tables, row optimizers, groups.
check_PROGRAMS += tests/test_lookup tests/test_sort tests/test_row_update \
  tests/test_row_optim tests/test_tbe tests/test_tbe_parts \
  tests/test_weight_grad
EXTRA_DIST += tests/sparse_util.h tests/tbe_group.h
# Tables in slow memory.
check_PROGRAMS += tests/test_cache tests/test_cache_lines tests/test_store
tests_test_cache_SOURCES = tests/test_cache.c tests/cache_group.h
tests_test_cache_lines_SOURCES = tests/test_cache_lines.c tests/cache_group.h
# The benchmark of a group on devices: its core.
check_PROGRAMS += tests/test_bench_tbe
EXTRA_DIST += jobs/bench_embeddings
