# Every test program is a Check suite (tests/harness.h), run by tests/launch
# at the numbers of ranks that its head comment names; scripts run once.
AM_TESTS_ENVIRONMENT = TESSERA=$(abs_top_builddir)/tessera; \
  srcdir=$(abs_srcdir); export TESSERA srcdir; \
  MPIRUN='$(MPIRUN)'; export MPIRUN;
TEST_EXTENSIONS = .sh
LOG_COMPILER = $(SHELL) $(srcdir)/tests/launch
SH_LOG_COMPILER = $(SHELL) $(srcdir)/tests/launch
EXTRA_DIST += tests/launch tests/lsan.supp tests/parity.py
dist_check_SCRIPTS += tests/lint.sh tests/parity.sh tests/real_data.sh

check_LIBRARIES = tests/libharness.a
tests_libharness_a_SOURCES = tests/harness.c tests/harness.h \
  tests/fake_device.c tests/fake_memory.c tests/fake_kernels.c \
  tests/fake_lines.c \
  tests/fake_device.h
tests_libharness_a_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
LDADD = tests/libharness.a libtessera.a $(CHECK_LIBS) $(CUDA_LIBS)

include tests/runtime.mk
include tests/cuda.mk
include tests/sparse.mk
include tests/shard.mk
include tests/dense.mk
include tests/deck.mk
include tests/data.mk
include tests/columns.mk
include tests/checkpoint.mk
include tests/metrics.mk
include tests/planner.mk
include tests/train.mk
include tests/trace.mk
include tests/cli.mk
include tests/hostile.mk
include tests/fuzz.mk

TESTS = $(check_PROGRAMS) $(dist_check_SCRIPTS)

# `make check` in half of the time: three tests at once, as most of them wait
# for each other's ranks, the longest first, so that none of these is left alone
# at the end; then those that nearly always sleep, as they look at deadlines,
# beside each other; and one by one those that look at how long work takes.
tests_at_once = 3
tests_longest = tests/test_pipelines tests/disk_full.sh tests/faults.sh \
  tests/fully_sharded.sh tests/pipelines.sh tests/reshard.sh
tests_asleep = tests/test_fs_timing tests/test_fs_traces tests/watchdog.sh
tests_alone = tests/trace_overlap.sh tests/bench_pipeline.sh
check-pairs: $(check_LIBRARIES) $(check_PROGRAMS) all-am
	rc=0; \
	$(MAKE) $(AM_MAKEFLAGS) -j$(tests_at_once) check-TESTS \
	  TESTS="$(filter $(tests_longest),$(TESTS)) $(filter-out \
	  $(tests_longest) $(tests_asleep) $(tests_alone),$(TESTS))" || rc=1; \
	$(MAKE) $(AM_MAKEFLAGS) -j2 check-TESTS \
	  TESTS="$(filter $(tests_asleep),$(TESTS))" || rc=1; \
	$(MAKE) $(AM_MAKEFLAGS) -j1 check-TESTS \
	  TESTS="$(filter $(tests_alone),$(TESTS))" || rc=1; \
	exit $$rc
.PHONY: check-pairs
