check_PROGRAMS += tests/test_base tests/test_runtime
# Collectives on memory that the host may not touch.
check_PROGRAMS += tests/test_comm_plan tests/test_comm_device
tests_test_comm_device_SOURCES = tests/test_comm_device.c \
  tests/fake_device.c tests/fake_device.h
