tessera_sources += \
  src/backends.c \
  src/runtime/clock.c src/runtime/clock.h \
  src/runtime/backends.h \
  src/runtime/comm.c \
  src/runtime/comm.h \
  src/runtime/comm_choose.c \
  src/runtime/comm_impl.h \
  src/runtime/comm_mpi.c \
  src/runtime/comm_mpi_agree.c \
  src/runtime/comm_mpi_ops.c \
  src/runtime/comm_mpi_rooms.c \
  src/runtime/comm_mpi_spare.c \
  src/runtime/comm_mpi_watch.c \
  src/runtime/comm_mpi_world.c \
  src/runtime/comm_plan.c \
  src/runtime/comm_plan.h \
  src/runtime/comm_reduce.c \
  src/runtime/comm_staged.c \
  src/runtime/comm_wire.c \
  src/runtime/comm_wire.h \
  src/runtime/comm_wire_ops.c \
  src/runtime/device.c \
  src/runtime/device.h \
  src/runtime/device_host.c src/runtime/kernels_memory.c \
  src/runtime/device_impl.h \
  src/runtime/graph.c \
  src/runtime/graph.h \
  src/runtime/overlap.c \
  src/runtime/overlap.h \
  src/runtime/arrays.c \
  src/runtime/arrays.h \
  src/runtime/row_pieces.h \
  src/runtime/staging.c \
  src/runtime/staging.h \
  src/runtime/store.c \
  src/runtime/store.h \
  src/runtime/store_file.c \
  src/runtime/topology.c \
  src/runtime/topology.h \
  src/runtime/trace.c \
  src/runtime/trace.h \
  src/runtime/trace_file.c \
  src/runtime/trace_file.h \
  src/runtime/watchdog.c \
  src/runtime/watchdog.h \
  src/runtime/watchdog_impl.h \
  src/runtime/watchdog_report.c
