check_PROGRAMS += tests/runtime/test_runtime tests/runtime/test_watch \
  tests/runtime/test_by_node
# Collectives on memory that the host may not touch.
check_PROGRAMS += tests/runtime/test_comm_plan tests/runtime/test_comm_device \
  tests/runtime/test_comm_faults
if HAVE_CUDA
check_PROGRAMS += tests/runtime/test_comm_cuda
endif
EXTRA_DIST += tests/runtime/test_comm_cuda.c
# Traces: what overlaps, whose data each span is, the commands that read them.
check_PROGRAMS += tests/runtime/trace_check
tests_runtime_trace_check_SOURCES = tests/runtime/trace_check.c tests/runtime/trace_reader.c
check_PROGRAMS += tests/runtime/test_memory
tests_runtime_test_memory_SOURCES = tests/runtime/test_memory.c $(pipe_run)
# The device's contract and what of cuda/ can be tested without a GPU; with one,
# the same contract and more.
check_PROGRAMS += tests/runtime/test_device tests/runtime/test_cuda_parts
if HAVE_CUDA
# Graphs on a GPU.
check_PROGRAMS += tests/runtime/test_cuda_graph_gpu
tests_runtime_test_cuda_graph_gpu_LDADD = tests/runtime/cuda_kernels.o $(LDADD)
tests_runtime_test_cuda_graph_gpu_DEPENDENCIES = tests/runtime/cuda_kernels.o \
  tests/support/libharness.a $(check_library)

# These need a GPU, and are skipped where there is none.
check_PROGRAMS += tests/runtime/test_cuda_streams
tests_runtime_test_cuda_streams_SOURCES = tests/runtime/test_cuda_streams.c \
  tests/runtime/cuda_kernels.h
tests_runtime_test_cuda_streams_LDADD = tests/runtime/cuda_kernels.o $(LDADD)
tests_runtime_test_cuda_streams_DEPENDENCIES = tests/runtime/cuda_kernels.o \
  tests/support/libharness.a $(check_library)
-include tests/runtime/cuda_kernels.d
endif
EXTRA_DIST += tests/runtime/cuda_kernels.cu
MOSTLYCLEANFILES += tests/*/*.d
