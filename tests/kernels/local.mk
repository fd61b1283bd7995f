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

# CUDA kernels on the CPU, where a C++ compiler is there.
cuda_pack = tests/kernels/cuda_pack.c tests/kernels/cuda_pack.h tests/kernels/cuda_pack_distinct.c \
  tests/kernels/cuda_pack_block.h
cuda_update = tests/kernels/cuda_update.c tests/kernels/cuda_update.h \
  tests/kernels/cuda_update_case.c tests/kernels/cuda_update_case.h
cuda_cache = tests/kernels/cuda_cache.c tests/kernels/cuda_cache.h \
  tests/kernels/cuda_cache_sides.c tests/kernels/cuda_cache_sides.h
cuda_numbers = tests/kernels/cuda_numbers.c tests/kernels/cuda_numbers.h
cuda_block = tests/kernels/cuda_block.c tests/kernels/cuda_block.h $(cuda_numbers)
cuda_flat = tests/kernels/cuda_flat.c tests/kernels/cuda_flat.h $(cuda_block)
cuda_views = tests/kernels/cuda_views.c tests/kernels/cuda_views.h tests/kernels/cuda_views_codes.c \
  tests/kernels/cuda_views_case.h $(cuda_block)
cuda_loss = tests/kernels/cuda_loss.c tests/kernels/cuda_loss.h $(cuda_numbers)
cuda_dense = tests/kernels/cuda_dense.c tests/kernels/cuda_dense.h tests/kernels/cuda_dense_rows.c \
  $(cuda_numbers)
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

# The lookup: one suite, its kernels emulated or, with a GPU, launched.
check_PROGRAMS += tests/kernels/test_cuda_lookup
tests_kernels_test_cuda_lookup_SOURCES = tests/kernels/test_cuda_lookup.c \
  tests/kernels/cuda_lookup_cases.c tests/kernels/cuda_lookup_cases.h \
  tests/kernels/cuda_lookup_emulated.cc tests/kernels/cuda_lookup_emulated.h
tests_kernels_test_cuda_lookup_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_lookup_LINK = $(cuda_test_link)

# Row updates, in the same way.
check_PROGRAMS += tests/kernels/test_cuda_update
tests_kernels_test_cuda_update_SOURCES = tests/kernels/test_cuda_update.c \
  $(cuda_update) tests/kernels/update_emulated.cc
tests_kernels_test_cuda_update_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_update_LINK = $(cuda_test_link)

# The cache of rows in slow memory, in the same way.
check_PROGRAMS += tests/kernels/test_cuda_cache
tests_kernels_test_cuda_cache_SOURCES = tests/kernels/test_cuda_cache.c \
  $(cuda_cache) tests/kernels/cache_emulated.cc
tests_kernels_test_cuda_cache_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_cache_LINK = $(cuda_test_link)

# The sending side of input dist, too.
check_PROGRAMS += tests/kernels/test_cuda_pack
tests_kernels_test_cuda_pack_SOURCES = tests/kernels/test_cuda_pack.c \
  $(cuda_pack) tests/kernels/pack_emulated.cc
tests_kernels_test_cuda_pack_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_pack_LINK = $(cuda_test_link)

# Views, wires and positions, too.
check_PROGRAMS += tests/kernels/test_cuda_views
tests_kernels_test_cuda_views_SOURCES = tests/kernels/test_cuda_views.c $(cuda_views) \
  tests/kernels/views_emulated.cc
tests_kernels_test_cuda_views_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_views_LINK = $(cuda_test_link)

# What is around them, in the same way.
check_PROGRAMS += tests/kernels/test_cuda_entries
tests_kernels_test_cuda_entries_SOURCES = tests/kernels/test_cuda_entries.c \
  tests/kernels/cuda_entries_cases.c tests/kernels/cuda_entries_cases.h \
  tests/kernels/cuda_entries_emulated.cc tests/kernels/cuda_entries_emulated.h
tests_kernels_test_cuda_entries_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_entries_LINK = $(cuda_test_link)

# Input dist's receiving side, in the same way.
check_PROGRAMS += tests/kernels/test_cuda_unpack
tests_kernels_test_cuda_unpack_SOURCES = tests/kernels/test_cuda_unpack.c \
  tests/kernels/cuda_unpack.c tests/kernels/cuda_unpack.h tests/kernels/unpack_emulated.cc
tests_kernels_test_cuda_unpack_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_unpack_LINK = $(cuda_test_link)

# Loss and metrics, in the same way.
check_PROGRAMS += tests/kernels/test_cuda_loss
tests_kernels_test_cuda_loss_SOURCES = tests/kernels/test_cuda_loss.c $(cuda_loss) \
  tests/kernels/loss_emulated.cc
tests_kernels_test_cuda_loss_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_loss_LINK = $(cuda_test_link)

# The dot interaction, cross layers and what goes with them, in the same way.
check_PROGRAMS += tests/kernels/test_cuda_dense
tests_kernels_test_cuda_dense_SOURCES = tests/kernels/test_cuda_dense.c $(cuda_dense) \
  tests/kernels/dense_emulated.cc
tests_kernels_test_cuda_dense_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_dense_LINK = $(cuda_test_link)
# Flat arrays and the dense optimizers, in the same way.
check_PROGRAMS += tests/kernels/test_cuda_flat
tests_kernels_test_cuda_flat_SOURCES = tests/kernels/test_cuda_flat.c $(cuda_flat) \
  tests/kernels/flat_emulated.cc
tests_kernels_test_cuda_flat_LDADD = $(cuda_test_libs)
tests_kernels_test_cuda_flat_LINK = $(cuda_test_link)
endif

# The same suites on a GPU.
cuda_gpu = tests/kernels/cuda_gpu.c tests/kernels/cuda_gpu.h
if HAVE_CUDA
check_PROGRAMS += tests/kernels/test_cuda_loss_gpu
tests_kernels_test_cuda_loss_gpu_SOURCES = tests/kernels/test_cuda_loss_gpu.c $(cuda_loss) \
  $(cuda_gpu)

check_PROGRAMS += tests/kernels/test_cuda_unpack_gpu
tests_kernels_test_cuda_unpack_gpu_SOURCES = tests/kernels/test_cuda_unpack_gpu.c \
  tests/kernels/cuda_unpack.c tests/kernels/cuda_unpack.h $(cuda_gpu)

check_PROGRAMS += tests/kernels/test_cuda_dense_gpu
tests_kernels_test_cuda_dense_gpu_SOURCES = tests/kernels/test_cuda_dense_gpu.c \
  $(cuda_dense) $(cuda_gpu)

check_PROGRAMS += tests/kernels/test_cuda_lookup_gpu
tests_kernels_test_cuda_lookup_gpu_SOURCES = tests/kernels/test_cuda_lookup_gpu.c \
  tests/kernels/cuda_lookup_cases.c tests/kernels/cuda_lookup_cases.h

check_PROGRAMS += tests/kernels/test_cuda_cache_gpu
tests_kernels_test_cuda_cache_gpu_SOURCES = tests/kernels/test_cuda_cache_gpu.c \
  $(cuda_cache) $(cuda_gpu)

check_PROGRAMS += tests/kernels/test_cuda_update_gpu
tests_kernels_test_cuda_update_gpu_SOURCES = tests/kernels/test_cuda_update_gpu.c \
  $(cuda_update) $(cuda_gpu)

check_PROGRAMS += tests/kernels/test_cuda_pack_gpu
tests_kernels_test_cuda_pack_gpu_SOURCES = tests/kernels/test_cuda_pack_gpu.c \
  $(cuda_pack) $(cuda_gpu)

check_PROGRAMS += tests/kernels/test_cuda_views_gpu
tests_kernels_test_cuda_views_gpu_SOURCES = tests/kernels/test_cuda_views_gpu.c $(cuda_views) \
  $(cuda_gpu)

check_PROGRAMS += tests/kernels/test_cuda_flat_gpu
tests_kernels_test_cuda_flat_gpu_SOURCES = tests/kernels/test_cuda_flat_gpu.c $(cuda_flat) \
  $(cuda_gpu)

check_PROGRAMS += tests/kernels/test_cuda_entries_gpu
tests_kernels_test_cuda_entries_gpu_SOURCES = tests/kernels/test_cuda_entries_gpu.c \
  tests/kernels/cuda_entries_cases.c tests/kernels/cuda_entries_cases.h

check_PROGRAMS += tests/dense/test_cuda_products_gpu
endif
