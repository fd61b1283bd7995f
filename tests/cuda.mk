# The device's contract and what of cuda/ can be tested without a GPU; with one,
# the same contract and more.
check_PROGRAMS += tests/test_device tests/test_cuda_parts
if HAVE_CUDA
# The backend's own code over a CUDA runtime of threads, which comes first.
check_PROGRAMS += tests/test_cuda_fake
cuda_fake_runtime = tests/cuda_fake.c tests/cuda_fake_graph.c \
  tests/cuda_fake.h tests/cuda_fake_impl.h
cuda_fake = tests/cuda_fake_kernels.c $(cuda_fake_runtime)
tests_test_cuda_fake_SOURCES = tests/test_cuda_fake.c $(cuda_fake)
tests_test_cuda_fake_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)

# Graphs over that runtime, and on a GPU.
check_PROGRAMS += tests/test_cuda_graph tests/test_cuda_graph_gpu
tests_test_cuda_graph_SOURCES = tests/test_cuda_graph.c \
  tests/cuda_graph_cases.c tests/cuda_graph_cases.h $(cuda_fake)
tests_test_cuda_graph_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_test_cuda_graph_LDADD = tests/cuda_kernels.o $(LDADD)
tests_test_cuda_graph_DEPENDENCIES = tests/cuda_kernels.o \
  tests/libharness.a libtessera.a
check_PROGRAMS += tests/test_cuda_replay
tests_test_cuda_replay_SOURCES = tests/test_cuda_replay.c \
  tests/cuda_graph_cases.c tests/cuda_graph_cases.h $(cuda_fake)
tests_test_cuda_replay_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_test_cuda_replay_LDADD = tests/cuda_kernels.o $(LDADD)
tests_test_cuda_replay_DEPENDENCIES = tests/cuda_kernels.o \
  tests/libharness.a libtessera.a
tests_test_cuda_graph_gpu_SOURCES = tests/test_cuda_graph_gpu.c \
  tests/cuda_graph_cases.c tests/cuda_graph_cases.h tests/cuda_gpu.c \
  tests/cuda_gpu.h
tests_test_cuda_graph_gpu_LDADD = tests/cuda_kernels.o $(LDADD)
tests_test_cuda_graph_gpu_DEPENDENCIES = tests/cuda_kernels.o \
  tests/libharness.a libtessera.a

# These need a GPU, and are skipped where there is none.
check_PROGRAMS += tests/test_cuda_streams
tests_test_cuda_streams_SOURCES = tests/test_cuda_streams.c \
  tests/cuda_kernels.h
tests_test_cuda_streams_LDADD = tests/cuda_kernels.o $(LDADD)
tests_test_cuda_streams_DEPENDENCIES = tests/cuda_kernels.o \
  tests/libharness.a libtessera.a
-include tests/cuda_kernels.d
endif
EXTRA_DIST += tests/cuda_kernels.cu
MOSTLYCLEANFILES += tests/*.d

# CUDA kernels on the CPU, where a C++ compiler is there.
cuda_pack = tests/cuda_pack.c tests/cuda_pack.h tests/cuda_pack_distinct.c \
  tests/cuda_pack_block.h
cuda_update = tests/cuda_update.c tests/cuda_update.h \
  tests/cuda_update_case.c tests/cuda_update_case.h
cuda_cache = tests/cuda_cache.c tests/cuda_cache.h \
  tests/cuda_cache_sides.c tests/cuda_cache_sides.h
cuda_numbers = tests/cuda_numbers.c tests/cuda_numbers.h
cuda_block = tests/cuda_block.c tests/cuda_block.h $(cuda_numbers)
cuda_flat = tests/cuda_flat.c tests/cuda_flat.h $(cuda_block)
cuda_views = tests/cuda_views.c tests/cuda_views.h tests/cuda_views_codes.c \
  tests/cuda_views_case.h $(cuda_block)
cuda_loss = tests/cuda_loss.c tests/cuda_loss.h $(cuda_numbers)
cuda_dense = tests/cuda_dense.c tests/cuda_dense.h tests/cuda_dense_rows.c \
  $(cuda_numbers)
EXTRA_DIST += tests/cuda_emulate.h tests/cuda_emulate_math.h \
  tests/cuda_emulate_run.h tests/lane_tasks.h
if HAVE_CXX
check_LIBRARIES += tests/libemulate.a
tests_libemulate_a_SOURCES = tests/cuda_emulate.cc tests/cuda_emulate.h \
  tests/cuda_emulate_math.h
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
  tests/cuda_lookup_emulated.cc tests/cuda_lookup_emulated.h
tests_test_cuda_lookup_LDADD = $(cuda_test_libs)
tests_test_cuda_lookup_LINK = $(cuda_test_link)

# Row updates, in the same way.
check_PROGRAMS += tests/test_cuda_update
tests_test_cuda_update_SOURCES = tests/test_cuda_update.c \
  $(cuda_update) tests/update_emulated.cc
tests_test_cuda_update_LDADD = $(cuda_test_libs)
tests_test_cuda_update_LINK = $(cuda_test_link)

# The cache of rows in slow memory, in the same way.
check_PROGRAMS += tests/test_cuda_cache
tests_test_cuda_cache_SOURCES = tests/test_cuda_cache.c \
  $(cuda_cache) tests/cache_emulated.cc
tests_test_cuda_cache_LDADD = $(cuda_test_libs)
tests_test_cuda_cache_LINK = $(cuda_test_link)

# The sending side of input dist, too.
check_PROGRAMS += tests/test_cuda_pack
tests_test_cuda_pack_SOURCES = tests/test_cuda_pack.c \
  $(cuda_pack) tests/pack_emulated.cc
tests_test_cuda_pack_LDADD = $(cuda_test_libs)
tests_test_cuda_pack_LINK = $(cuda_test_link)

# Views, wires and positions, too.
check_PROGRAMS += tests/test_cuda_views
tests_test_cuda_views_SOURCES = tests/test_cuda_views.c $(cuda_views) \
  tests/views_emulated.cc
tests_test_cuda_views_LDADD = $(cuda_test_libs)
tests_test_cuda_views_LINK = $(cuda_test_link)

# What is around them, in the same way.
check_PROGRAMS += tests/test_cuda_entries
tests_test_cuda_entries_SOURCES = tests/test_cuda_entries.c \
  tests/cuda_entries_cases.c tests/cuda_entries_cases.h \
  tests/cuda_entries_emulated.cc tests/cuda_entries_emulated.h
tests_test_cuda_entries_LDADD = $(cuda_test_libs)
tests_test_cuda_entries_LINK = $(cuda_test_link)

# Input dist's receiving side, in the same way.
check_PROGRAMS += tests/test_cuda_unpack
tests_test_cuda_unpack_SOURCES = tests/test_cuda_unpack.c \
  tests/cuda_unpack.c tests/cuda_unpack.h tests/unpack_emulated.cc
tests_test_cuda_unpack_LDADD = $(cuda_test_libs)
tests_test_cuda_unpack_LINK = $(cuda_test_link)

# Matrix products: the engine over a library that computes on the host.
if HAVE_CUDA
cuda_products = tests/cuda_products.h tests/cuda_products_emulated.cc \
  tests/cuda_cublas.c tests/cuda_cublas.h tests/cuda_cublas_impl.h \
  tests/cuda_cublas_product.c $(cuda_fake)
check_PROGRAMS += tests/test_cuda_products tests/test_cuda_linear
tests_test_cuda_products_SOURCES = tests/test_cuda_products.c $(cuda_products)
tests_test_cuda_products_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_test_cuda_products_LDADD = $(cuda_test_libs)
tests_test_cuda_products_LINK = $(cuda_test_link)
tests_test_cuda_linear_SOURCES = tests/test_cuda_linear.c $(cuda_products)
tests_test_cuda_linear_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_test_cuda_linear_LDADD = $(cuda_test_libs)
tests_test_cuda_linear_LINK = $(cuda_test_link)

# Whole trainings over both, with cuda/'s kernels emulated.
check_PROGRAMS += tests/test_cuda_train
tests_test_cuda_train_SOURCES = tests/test_cuda_train.c tests/pipe_run.c \
  tests/pipe_run.h tests/cuda_fake_launch.c tests/cuda_fake_launch.h \
  tests/cuda_fake_image.c tests/cuda_fake_look.c tests/cuda_fake_params.cc \
  tests/cuda_fake_params.h tests/cuda_fake_emulated.h tests/cuda_fake_body.h \
  tests/cuda_fake_ids.cc tests/cuda_fake_rows.cc tests/cuda_fake_dense.cc \
  tests/cuda_fake_pack.cc tests/cuda_fake_cub.c tests/cuda_cublas.c \
  tests/cuda_cublas_product.c \
  tests/cuda_cublas.h $(cuda_fake_runtime)
tests_test_cuda_train_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
# Without the real runtime: a call that the fake one lacks doesn't link.
tests_test_cuda_train_LDADD = tests/libemulate.a tests/libharness.a \
  libtessera.a $(CHECK_LIBS) $(CUDA_LIBS:-lcudart=)
tests_test_cuda_train_LINK = $(cuda_test_link)
endif
# Loss and metrics, in the same way.
check_PROGRAMS += tests/test_cuda_loss
tests_test_cuda_loss_SOURCES = tests/test_cuda_loss.c $(cuda_loss) \
  tests/loss_emulated.cc
tests_test_cuda_loss_LDADD = $(cuda_test_libs)
tests_test_cuda_loss_LINK = $(cuda_test_link)

# The dot interaction, cross layers and what goes with them, in the same way.
check_PROGRAMS += tests/test_cuda_dense
tests_test_cuda_dense_SOURCES = tests/test_cuda_dense.c $(cuda_dense) \
  tests/dense_emulated.cc
tests_test_cuda_dense_LDADD = $(cuda_test_libs)
tests_test_cuda_dense_LINK = $(cuda_test_link)
# Flat arrays and the dense optimizers, in the same way.
check_PROGRAMS += tests/test_cuda_flat
tests_test_cuda_flat_SOURCES = tests/test_cuda_flat.c $(cuda_flat) \
  tests/flat_emulated.cc
tests_test_cuda_flat_LDADD = $(cuda_test_libs)
tests_test_cuda_flat_LINK = $(cuda_test_link)
endif

# The same suites on a GPU.
cuda_gpu = tests/cuda_gpu.c tests/cuda_gpu.h
if HAVE_CUDA
check_PROGRAMS += tests/test_cuda_loss_gpu
tests_test_cuda_loss_gpu_SOURCES = tests/test_cuda_loss_gpu.c $(cuda_loss) \
  $(cuda_gpu)

check_PROGRAMS += tests/test_cuda_unpack_gpu
tests_test_cuda_unpack_gpu_SOURCES = tests/test_cuda_unpack_gpu.c \
  tests/cuda_unpack.c tests/cuda_unpack.h $(cuda_gpu)

check_PROGRAMS += tests/test_cuda_dense_gpu
tests_test_cuda_dense_gpu_SOURCES = tests/test_cuda_dense_gpu.c \
  $(cuda_dense) $(cuda_gpu)

check_PROGRAMS += tests/test_cuda_lookup_gpu
tests_test_cuda_lookup_gpu_SOURCES = tests/test_cuda_lookup_gpu.c \
  tests/cuda_lookup_cases.c tests/cuda_lookup_cases.h

check_PROGRAMS += tests/test_cuda_cache_gpu
tests_test_cuda_cache_gpu_SOURCES = tests/test_cuda_cache_gpu.c \
  $(cuda_cache) $(cuda_gpu)

check_PROGRAMS += tests/test_cuda_update_gpu
tests_test_cuda_update_gpu_SOURCES = tests/test_cuda_update_gpu.c \
  $(cuda_update) $(cuda_gpu)

check_PROGRAMS += tests/test_cuda_pack_gpu
tests_test_cuda_pack_gpu_SOURCES = tests/test_cuda_pack_gpu.c \
  $(cuda_pack) $(cuda_gpu)

check_PROGRAMS += tests/test_cuda_views_gpu
tests_test_cuda_views_gpu_SOURCES = tests/test_cuda_views_gpu.c $(cuda_views) \
  $(cuda_gpu)

check_PROGRAMS += tests/test_cuda_flat_gpu
tests_test_cuda_flat_gpu_SOURCES = tests/test_cuda_flat_gpu.c $(cuda_flat) \
  $(cuda_gpu)

check_PROGRAMS += tests/test_cuda_entries_gpu
tests_test_cuda_entries_gpu_SOURCES = tests/test_cuda_entries_gpu.c \
  tests/cuda_entries_cases.c tests/cuda_entries_cases.h

check_PROGRAMS += tests/test_cuda_products_gpu
endif
