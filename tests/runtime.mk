check_PROGRAMS += tests/test_base tests/test_runtime tests/test_watch
# Collectives on memory that the host may not touch.
check_PROGRAMS += tests/test_comm_plan tests/test_comm_device \
  tests/test_comm_faults
EXTRA_DIST += tests/comm_rig.h
if HAVE_CUDA
check_PROGRAMS += tests/test_comm_cuda
endif
EXTRA_DIST += tests/test_comm_cuda.c
