check_PROGRAMS += tests/runtime/test_runtime tests/runtime/test_watch
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
