# The device's contract and what of cuda/ can be tested without a GPU; with one,
# the same contract and more.
check_PROGRAMS += tests/runtime/test_device tests/runtime/test_cuda_parts
if HAVE_CUDA
# Graphs on a GPU.
check_PROGRAMS += tests/runtime/test_cuda_graph_gpu
tests_runtime_test_cuda_graph_gpu_SOURCES = tests/runtime/test_cuda_graph_gpu.c \
  tests/runtime/cuda_graph_cases.c tests/runtime/cuda_graph_cases.h tests/kernels/cuda_gpu.c \
  tests/kernels/cuda_gpu.h
tests_runtime_test_cuda_graph_gpu_LDADD = tests/runtime/cuda_kernels.o $(LDADD)
tests_runtime_test_cuda_graph_gpu_DEPENDENCIES = tests/runtime/cuda_kernels.o \
  tests/support/libharness.a libtessera.a

# These need a GPU, and are skipped where there is none.
check_PROGRAMS += tests/runtime/test_cuda_streams
tests_runtime_test_cuda_streams_SOURCES = tests/runtime/test_cuda_streams.c \
  tests/runtime/cuda_kernels.h
tests_runtime_test_cuda_streams_LDADD = tests/runtime/cuda_kernels.o $(LDADD)
tests_runtime_test_cuda_streams_DEPENDENCIES = tests/runtime/cuda_kernels.o \
  tests/support/libharness.a libtessera.a
-include tests/runtime/cuda_kernels.d
endif
EXTRA_DIST += tests/runtime/cuda_kernels.cu
MOSTLYCLEANFILES += tests/*/*.d

cuda_cache = tests/kernels/cuda_cache.c tests/kernels/cuda_cache.h \
  tests/kernels/cuda_cache_sides.c tests/kernels/cuda_cache_sides.h tests/sparse/cache_model.h
cuda_numbers = tests/kernels/cuda_numbers.c tests/kernels/cuda_numbers.h
EXTRA_DIST += tests/support/emulated/cuda_emulate.h tests/support/emulated/cuda_emulate_math.h \
  tests/support/emulated/cuda_emulate_run.h tests/support/lane_tasks.h
if HAVE_CXX
check_LIBRARIES += tests/support/emulated/libemulate.a
tests_support_emulated_libemulate_a_SOURCES = tests/support/emulated/cuda_emulate.cc tests/support/emulated/cuda_emulate.h \
  tests/support/emulated/cuda_emulate_math.h
cuda_test_libs = tests/support/emulated/libemulate.a $(LDADD)
# The C compiler links: mpicc knows the libraries, none is of C++.
cuda_test_link = $(LINK)

check_PROGRAMS += tests/runtime/test_cuda_emulate
tests_runtime_test_cuda_emulate_SOURCES = tests/runtime/test_cuda_emulate.c \
  tests/support/emulated/emulate_cases.cc tests/support/emulated/emulate_cases.h
tests_runtime_test_cuda_emulate_LDADD = $(cuda_test_libs)
tests_runtime_test_cuda_emulate_LINK = $(cuda_test_link)

# The cache of rows in slow memory, in the same way.
check_PROGRAMS += tests/kernels/test_cuda_cache
tests_kernels_test_cuda_cache_SOURCES = tests/kernels/test_cuda_cache.c \
  $(cuda_cache) tests/kernels/cache_emulated.cc
tests_kernels_test_cuda_cache_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_cache_LINK = $(cuda_test_link)

endif

# The same suites on a GPU.
cuda_gpu = tests/kernels/cuda_gpu.c tests/kernels/cuda_gpu.h
if HAVE_CUDA

check_PROGRAMS += tests/kernels/test_cuda_cache_gpu
tests_kernels_test_cuda_cache_gpu_SOURCES = tests/kernels/test_cuda_cache_gpu.c \
  $(cuda_cache) $(cuda_gpu)

check_PROGRAMS += tests/dense/test_cuda_products_gpu
endif

kernel_contracts = tests/kernels/loss tests/kernels/flat tests/kernels/lookup \
  tests/kernels/sort tests/kernels/views tests/kernels/codes \
  tests/kernels/entries tests/kernels/unpack \
  tests/kernels/pack tests/kernels/distinct \
  tests/kernels/interact tests/kernels/rows \
  tests/kernels/update
check_PROGRAMS += $(kernel_contracts)
tests_kernels_update_SOURCES = tests/kernels/update.c \
  tests/kernels/update_case.c tests/kernels/update.h
