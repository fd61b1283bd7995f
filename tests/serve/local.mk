# Rows in few bits, and the library that scores by them.
check_PROGRAMS += tests/serve/test_rows tests/serve/test_serve \
  tests/serve/test_serve_ids
EXTRA_DIST += tests/serve/dynamic.py tests/serve/serve.py \
  tests/serve/small_model.h
# `make tests/serve/bench_keys`: finds of ids that are served.
EXTRA_DIST += tests/serve/bench_keys.c
tests/serve/bench_keys: $(srcdir)/tests/serve/bench_keys.c libtessera.a
	@$(MKDIR_P) $(@D)
	$(AM_V_CCLD)$(CC) $(AM_CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -o $@ $< \
	  -Wl,-u,ts_serve_keys_create libtessera.a $(CUDA_LIBS) $(LIBS)
MOSTLYCLEANFILES += tests/serve/bench_keys
