# tests/ has the folders of src/ and io/; support/: what tests share; kernels/:
# the contract of each family of kernels; run/: scripts; fuzz/.  Every test
# program is a Check suite (tests/support/harness.h), run by
# tests/support/launch at the numbers of ranks that its head comment names;
# scripts run once.
AM_TESTS_ENVIRONMENT = TESSERA=$(abs_top_builddir)/tessera; \
  srcdir=$(abs_srcdir); export TESSERA srcdir; \
  MPIRUN='$(MPIRUN)'; export MPIRUN;
TEST_EXTENSIONS = .sh
LOG_COMPILER = $(SHELL) $(srcdir)/tests/support/launch
SH_LOG_COMPILER = $(SHELL) $(srcdir)/tests/support/launch
EXTRA_DIST += tests/mutants.txt tests/support/mutants.py tests/support/launch tests/support/lsan.supp \
  tests/support/common.sh tests/support/deck_text.h \
  tests/support/optim_config.h tests/support/comm_rig.h \
  tests/support/sparse_util.h tests/support/lane_tasks.h

check_LIBRARIES = tests/support/libharness.a
tests_support_libharness_a_SOURCES = tests/support/harness.c \
  tests/support/harness.h tests/support/fake_device.c \
  tests/support/fake_memory.c tests/support/fake_kernels.c \
  tests/support/fake_lines.c tests/support/fake_device.h
tests_support_libharness_a_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
if HAVE_CXX
tests_support_libharness_a_CFLAGS += -DHAVE_EMULATED
endif
include tests/support/emulated/local.mk
LDADD = tests/support/libharness.a libtessera.a $(CHECK_LIBS) $(CUDA_LIBS)

include tests/base/local.mk
include tests/runtime/local.mk
include tests/kernels/local.mk
include tests/sparse/local.mk
include tests/shard/local.mk
include tests/dense/local.mk
include tests/model/local.mk
include tests/train/local.mk
include tests/io/local.mk
include tests/run/local.mk
include tests/fuzz/local.mk

TESTS = $(check_PROGRAMS) $(dist_check_SCRIPTS)

# `make check` in half of the time: three tests at once, as most of them wait
# for each other's ranks, the longest first, so that none of these is left alone
# at the end; then those that nearly always sleep, as they look at deadlines,
# beside each other; and one by one those that look at how long work takes.
tests_at_once = 3
tests_longest = tests/train/test_pipelines tests/run/disk_full.sh tests/run/faults.sh \
  tests/run/fully_sharded.sh tests/run/pipelines.sh tests/run/reshard.sh
tests_asleep = tests/dense/test_fully_sharded_timing tests/dense/test_fully_sharded_traces tests/run/watchdog.sh
tests_alone = tests/run/trace_overlap.sh tests/run/bench_pipeline.sh
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
