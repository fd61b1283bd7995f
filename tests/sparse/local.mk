# Groups of embedding tables.
check_PROGRAMS += tests/sparse/test_tbe tests/sparse/test_tbe_parts tests/sparse/test_tbe_dynamic
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
# Rows of ids; `make tests/sparse/bench_index` is the benchmark, beside the hash
# table of Abseil (Debian: libabsl-dev).
check_PROGRAMS += tests/sparse/test_index tests/sparse/test_admit
EXTRA_DIST += tests/sparse/bench_index.cc
tests/sparse/bench_index: $(srcdir)/tests/sparse/bench_index.cc libtessera.a
	@$(MKDIR_P) $(@D)
	$(AM_V_CXXLD)$(CXX) -O3 -std=c++17 -pthread $(AM_CPPFLAGS) -o $@ $< \
	  -Wl,-u,ts_index_create libtessera.a $(CUDA_LIBS) $(LIBS) \
	  -labsl_hash -labsl_city -labsl_low_level_hash -labsl_raw_hash_set \
	  -labsl_base -labsl_raw_logging_internal -labsl_hashtablez_sampler -lgomp
MOSTLYCLEANFILES += tests/sparse/bench_index
