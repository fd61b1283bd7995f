# CUDA kernels on the CPU, where a C++ compiler is there.
EXTRA_DIST += tests/cuda_emulate.h
if HAVE_CXX
check_LIBRARIES += tests/libemulate.a
tests_libemulate_a_SOURCES = tests/cuda_emulate.cc tests/cuda_emulate.h
cuda_test_libs = tests/libemulate.a $(LDADD)
# The C compiler links: mpicc knows the libraries, none is of C++.
cuda_test_link = $(LINK)

check_PROGRAMS += tests/test_cuda_emulate
tests_test_cuda_emulate_SOURCES = tests/test_cuda_emulate.c \
  tests/emulate_cases.cc tests/emulate_cases.h
tests_test_cuda_emulate_LDADD = $(cuda_test_libs)
tests_test_cuda_emulate_LINK = $(cuda_test_link)

# The lookup: one suite, its kernels emulated or, with a GPU, launched.
check_PROGRAMS += tests/test_cuda_lookup
tests_test_cuda_lookup_SOURCES = tests/test_cuda_lookup.c \
  tests/cuda_lookup_cases.c tests/cuda_lookup_cases.h \
  tests/lookup_emulated.cc tests/lookup_emulated.h
tests_test_cuda_lookup_LDADD = $(cuda_test_libs)
tests_test_cuda_lookup_LINK = $(cuda_test_link)
endif

if HAVE_CUDA
check_PROGRAMS += tests/test_gpu_lookup
tests_test_gpu_lookup_SOURCES = tests/test_gpu_lookup.c \
  tests/cuda_lookup_cases.c tests/cuda_lookup_cases.h
endif
