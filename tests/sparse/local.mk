# Groups of embedding tables.
check_PROGRAMS += tests/sparse/test_tbe tests/sparse/test_tbe_parts
EXTRA_DIST += tests/support/sparse_util.h tests/sparse/tbe_group.h
# Tables in slow memory.
check_PROGRAMS += tests/sparse/test_cache tests/sparse/test_cache_lines tests/sparse/test_store
tests_sparse_test_cache_SOURCES = tests/sparse/test_cache.c tests/sparse/cache_group.h \
  tests/sparse/cache_model.h
tests_sparse_test_cache_lines_SOURCES = tests/sparse/test_cache_lines.c tests/sparse/cache_group.h \
  tests/sparse/cache_model.h
# The benchmark of a group on devices: its core.
check_PROGRAMS += tests/sparse/test_bench_tbe
EXTRA_DIST += jobs/bench_embeddings
