# The contract of each family of kernels (tests/support/contract.h): host, fake
# device and emulated GPUs by themselves, a GPU by
#   TESSERA_BACKEND=cuda sh tests/support/launch tests/kernels/lookup
check_PROGRAMS += tests/kernels/lookup tests/kernels/sort tests/kernels/update \
  tests/kernels/cache tests/kernels/entries tests/kernels/pack \
  tests/kernels/distinct tests/kernels/unpack tests/kernels/views \
  tests/kernels/codes tests/kernels/loss tests/kernels/flat \
  tests/kernels/interact tests/kernels/rows
tests_kernels_update_SOURCES = tests/kernels/update.c \
  tests/kernels/update_case.c tests/kernels/update.h

# The device's contract and what of cuda/ can be tested without a GPU; with one,
# the same contract and more.
check_PROGRAMS += tests/runtime/test_device tests/runtime/test_cuda_parts
if HAVE_CUDA
# Graphs on a GPU.
check_PROGRAMS += tests/runtime/test_cuda_graph_gpu
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

# The same suites on a GPU.
if HAVE_CUDA
check_PROGRAMS += tests/dense/test_cuda_products_gpu
endif

