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
  tests/support/batches.sh tests/support/common.sh tests/support/ids.sh tests/support/deck_text.h \
  tests/support/optim_config.h tests/support/comm_rig.h tests/support/folder.h tests/support/walk.h \
  tests/support/sparse_util.h tests/support/lane_tasks.h

check_LIBRARIES = tests/support/libharness.a
tests_support_libharness_a_SOURCES = tests/support/harness.c \
  tests/support/harness.h tests/support/main.c tests/support/contract.c tests/support/contract_run.c \
  tests/support/contract_impl.h \
  tests/support/contract.h tests/support/fake_device.c \
  tests/support/fake_memory.c tests/support/fake_kernels.c \
  tests/support/fake_lines.c tests/support/fake_device.h \
  tests/support/optim_oracle.c
tests_support_libharness_a_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
if HAVE_CXX
tests_support_libharness_a_CFLAGS += -DHAVE_EMULATED
endif
check_DATA =
include tests/support/emulated/local.mk

# All tests load the program's objects from one library: 150 programs that each
# hold them, with the code for GPUs, would take 8 GB of disk.
check_library = tests/support/libtessera-check.so
$(check_library): libtessera.a
	@$(MKDIR_P) $(@D)
	$(AM_V_CCLD)$(CC) -shared -o $@ $(AM_CFLAGS) $(CFLAGS) $(LDFLAGS) \
	  -Wl,-soname,$(@F) -Wl,-Bsymbolic -Wl,--whole-archive libtessera.a \
	  -Wl,--no-whole-archive $(CUDA_LIBS) $(LIBS)
MOSTLYCLEANFILES += $(check_library)
LDADD = tests/support/libharness.a $(check_library) $(CHECK_RPATH) $(CHECK_LIBS) $(CUDA_LIBS)

include tests/base/local.mk
include tests/runtime/local.mk
include tests/kernels/local.mk
include tests/sparse/local.mk
include tests/shard/local.mk
include tests/dense/local.mk
include tests/model/local.mk
include tests/train/local.mk
include tests/serve/local.mk
include tests/io/local.mk
include tests/run/local.mk
include tests/fuzz/local.mk

# A process that loads cuBLASLt writes 25,000 of its pages to say where they are,
# two fifths of the time of a short training.  Nobody calls it where no GPU is:
# there tests/support/launch has a library of its names without their code.  The program
# starts with the real one first.
if HAVE_CUDA
check_DATA += tests/standin/made
tests/standin/made: tessera $(check_library)
	./tessera version > /dev/null
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)so=$$(readelf -d tessera | sed -n 's/.*NEEDED.*\[\(libcublasLt[^]]*\)\].*/\1/p'); \
	nm -D --undefined-only tessera $(check_library) | sed -n 's/.* U \(cublasLt[A-Za-z0-9]*\).*/\1/p' | sort -u | \
	  sed -e 's/.*String$$/const char *&(void) { return "no cuBLASLt is here"; }/' \
	  -e '/^const/!s/.*/int &(void) { return 1; }/' > $@.c && \
	{ [ -z "$$so" ] || $(CC) -w -shared -fPIC -Wl,-soname,$$so -Wl,--default-symver -o $(@D)/$$so $@.c; } && \
	echo "$$so" > $@
endif
MOSTLYCLEANFILES += tests/standin/*

TESTS = $(check_PROGRAMS) $(dist_check_SCRIPTS)

# Where configure did not find Check, no test program links.
if !HAVE_CHECK
need_check = check-am check-pairs check-TESTS
$(need_check): says-what-check-needs
says-what-check-needs:
	@echo "The tests need Check, which configure did not find.  On Debian, as root:" >&2
	@echo "    apt-get install check hdf5-tools python3-h5py python3-numpy procps texinfo" >&2
	@echo "then configure again, here:  ./config.status --recheck && ./config.status" >&2
	@echo "and:  make check" >&2
	@exit 1
.PHONY: says-what-check-needs
endif

# The longest of `make check-pairs` first, so that none of them is left alone at
# the end; those that nearly always sleep, as they look at deadlines, beside
# each other; and one by one those that look at how long work takes.
tests_longest = tests/train/test_pipelines tests/run/disk_full.sh tests/run/faults.sh \
  tests/run/fully_sharded.sh tests/run/pipelines.sh tests/run/real_data.sh tests/run/reshard.sh tests/run/weights.sh
tests_asleep = tests/dense/test_fully_sharded_timing tests/dense/test_fully_sharded_traces tests/run/watchdog.sh
tests_alone = tests/run/trace_overlap.sh
MOSTLYCLEANFILES += tests/clocks.log
include tests/pairs.mk
