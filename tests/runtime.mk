check_PROGRAMS += tests/test_base tests/test_runtime
# Collectives on memory that the host may not touch.
check_PROGRAMS += tests/test_comm_plan tests/test_comm_device
tests_test_comm_device_SOURCES = tests/test_comm_device.c \
  tests/fake_device.c tests/fake_device.h
if HAVE_CUDA
check_PROGRAMS += tests/test_comm_cuda
tests_test_comm_cuda_SOURCES = tests/test_comm_cuda.c \
  tests/fake_device.c tests/fake_device.h
endif
EXTRA_DIST += tests/test_comm_cuda.c
