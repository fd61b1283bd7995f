# Hostile input: `make check-fuzz` runs a fuzzer for each format over its seeds
# and then what it thinks up in a minute (tests/fuzz/run.sh); jobs/fuzz runs
# them longer.  clang compiles them, and once more what they use of the program,
# with the address and undefined-behaviour sanitizers: whatever the program
# itself is built with.  None of it is in `make` or `make check`.
fuzz_names = deck csv criteo npy plan dataset checkpoint delta tensors serve
if HAVE_ARROW
fuzz_names += parquet
endif
fuzz_programs = $(fuzz_names:%=fuzz/fuzz_%)
# Readers and what is under them; what they only name is the program's own.
fuzz_sources = $(filter %.c,$(filter src/base/% src/runtime/% io/% src/serve/% \
  src/sparse/kjt% src/shard/plan_text.c src/shard/plan.c \
  src/shard/plan_check.c src/shard/topology.c,$(tessera_sources)))
fuzz_common = fuzz/tests/fuzz/fuzz.o fuzz/tests/fuzz/hdf5_edit.o
EXTRA_DIST += tests/fuzz tests/support/tsan.supp
FUZZ_COMPILE = OMPI_CC="$(FUZZ_CC)" MPICH_CC="$(FUZZ_CC)" $(CC) $(DEFS) -I. \
  -I$(srcdir)/tests/fuzz/single $(AM_CPPFLAGS) $(CPPFLAGS) \
  -std=gnu11 -D_GNU_SOURCE -g1 -O1 -fno-omit-frame-pointer \
  -fsanitize=address,undefined -fno-sanitize-recover=undefined \
  -fno-sanitize=nonnull-attribute -Wno-unknown-pragmas

fuzz/%.o: %.c
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(FUZZ_COMPILE) -fsanitize=fuzzer-no-link -MD -MP -MF $(@:.o=.d) -c -o $@ $<
fuzz/libfuzz.a: $(fuzz_sources:%.c=fuzz/%.o)
	$(AM_V_AR)rm -f $@ && $(AR) cr $@ $^
fuzz/fuzz_%: fuzz/tests/fuzz/fuzz_%.o $(fuzz_common) fuzz/libfuzz.a libtessera.a
	$(AM_V_CCLD)$(FUZZ_COMPILE) -fsanitize=fuzzer -o $@ $(filter-out %.so,$^) $(CUDA_LIBS) $(LIBS) -lgomp
# Arrow's side, by the same compiler; the library itself is as it came.
fuzz/io/parquet.so: io/parquet.cc
	@$(MKDIR_P) $(@D)
	$(AM_V_CXX)$(subst clang,clang++,$(FUZZ_CC)) -I. $(AM_CPPFLAGS) $(ARROW_CXXFLAGS) \
	  -g1 -O1 -fPIC -fsanitize=address,undefined -fno-sanitize=vptr,function -fno-sanitize-recover=undefined \
	  -fsanitize=fuzzer-no-link -MD -MP -MF fuzz/io/parquet.d -shared -o $@ $(srcdir)/io/parquet.cc $(ARROW_LIBS)
fuzz/fuzz_parquet: fuzz/io/parquet.so
-include fuzz/io/parquet.d
-include $(fuzz_sources:%.c=fuzz/%.d) $(fuzz_names:%=fuzz/tests/fuzz/fuzz_%.d) $(fuzz_common:.o=.d)
.PRECIOUS: fuzz/%.o

check-fuzz:
	@test -n "$(FUZZ_CC)" || { echo "$@ needs clang with libFuzzer; see configure"; exit 1; }
	$(MAKE) $(AM_MAKEFLAGS) $(fuzz_programs)
	srcdir=$(abs_srcdir) $(SHELL) $(srcdir)/tests/fuzz/run.sh $(fuzz_names)
clean-local: clean-fuzz
clean-fuzz:
	rm -rf fuzz
.PHONY: check-fuzz clean-fuzz
