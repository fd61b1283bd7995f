# The device's contract and what of cuda/ can be tested without a GPU; with one,
# the same contract and more.
check_PROGRAMS += tests/test_device tests/test_cuda_parts
if HAVE_CUDA
# The backend's own code over a CUDA runtime of threads, which comes first.
check_PROGRAMS += tests/test_cuda_fake
tests_test_cuda_fake_SOURCES = tests/test_cuda_fake.c tests/cuda_fake.c \
  tests/cuda_fake.h
tests_test_cuda_fake_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)

# These need a GPU, and are skipped where there is none.
check_PROGRAMS += tests/test_cuda_streams
tests_test_cuda_streams_SOURCES = tests/test_cuda_streams.c \
  tests/cuda_kernels.h
tests_test_cuda_streams_LDADD = tests/cuda_kernels.o $(LDADD)
tests_test_cuda_streams_DEPENDENCIES = tests/cuda_kernels.o \
  tests/libharness.a libtessera.a
-include tests/cuda_kernels.d
endif
EXTRA_DIST += tests/cuda_kernels.cu
MOSTLYCLEANFILES += tests/*.d
