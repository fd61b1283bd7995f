# The CUDA backend.  nvcc compiles, the C compiler links.  What needs no CUDA
# is plain C, and is built and tested everywhere.
tessera_sources += cuda/runtime/choose.c cuda/runtime/choose.h cuda/runtime/event_ring.c \
  cuda/runtime/event_ring.h
cuda_sources = cuda/runtime/backend.cu cuda/runtime/device.cu cuda/runtime/gpu.cu cuda/runtime/memory.cu \
  cuda/runtime/span.cu cuda/runtime/copies.cu cuda/sparse/lookup.cu cuda/runtime/reduce_ranks.cu
cuda_sources += cuda/runtime/clock.cu cuda/runtime/words.cu
# Work of streams, graphs.
cuda_sources += cuda/runtime/enqueue.cu cuda/runtime/events.cu cuda/runtime/graph.cu \
  cuda/runtime/graph_lanes.cu cuda/runtime/graph_memory.cu cuda/runtime/notes.cu
EXTRA_DIST += cuda/runtime/enqueue.h cuda/runtime/graph.h cuda/runtime/graph_impl.h cuda/runtime/notes.h
cuda_nccl_sources = cuda/runtime/comm_nccl.cu
EXTRA_DIST += $(cuda_sources) $(cuda_nccl_sources) cuda/runtime/cuda_impl.h \
  cuda/runtime/grid.h cuda/runtime/lane.h cuda/runtime/words.h cuda/sparse/lookup_plan.h cuda/sparse/rows.cuh \
  cuda/sparse/lookup_kernels.cuh cuda/sparse/lookup_launch.cuh cuda/runtime/comm_cuda.h
# Views, wires, positions.
cuda_sources += cuda/shard/views.cu
EXTRA_DIST += cuda/shard/view_rows.cuh cuda/shard/code_rows.cuh cuda/shard/positions.cuh \
  cuda/shard/views_launch.cuh cuda/runtime/put.cuh
# Kernels of row updates.
cuda_sources += cuda/sparse/sort.cu cuda/sparse/row_update.cu cuda/sparse/row_stage.cu
EXTRA_DIST += cuda/sparse/update.h cuda/sparse/exact.cuh cuda/sparse/rounding.cuh \
  cuda/sparse/row_optim.cuh cuda/sparse/row_update.cuh cuda/sparse/row_update_kernels.cuh \
  cuda/sparse/row_update_run.cuh cuda/sparse/row_work.cuh cuda/sparse/lane_run.cuh \
  cuda/runtime/stream_run.cuh
# The cache of rows in slow memory.
cuda_sources += cuda/sparse/cache.cu cuda/runtime/reach.cu
EXTRA_DIST += cuda/sparse/cache.h cuda/sparse/cache_sets.cuh cuda/sparse/cache_hold.cuh \
  cuda/sparse/cache_kernels.cuh cuda/sparse/cache_run.cuh
# The sending side of input dist.
cuda_sources += cuda/shard/pack.cu
EXTRA_DIST += cuda/shard/pack.h cuda/runtime/scan.cuh cuda/shard/pack_kernels.cuh \
  cuda/shard/distinct_kernels.cuh cuda/shard/pack_run.cuh
# Kernels around them.
cuda_sources += cuda/sparse/entries.cu
EXTRA_DIST += cuda/sparse/entries_kernels.cuh cuda/sparse/entries_launch.cuh
# Kernels of input dist's receiving side.
cuda_sources += cuda/shard/unpack.cu
EXTRA_DIST += cuda/shard/unpack_kernels.cuh cuda/shard/unpack_launch.cuh
# Matrix products.
tessera_sources += cuda/dense/product_choices.c cuda/dense/product_choices.h
cuda_sources += cuda/dense/product.cu cuda/dense/products.cu cuda/dense/products_shapes.cu \
  cuda/dense/mask.cu
EXTRA_DIST += cuda/dense/product.h cuda/dense/products.h cuda/dense/mask.h cuda/dense/mask_kernels.cuh \
  cuda/dense/mask_launch.cuh
# Loss and metrics.
cuda_sources += cuda/dense/loss.cu
EXTRA_DIST += cuda/dense/loss_kernels.cuh cuda/dense/loss_run.cuh
# The dot interaction; cross layers, factorisation machines.
cuda_sources += cuda/dense/interact.cu cuda/dense/cross.cu
EXTRA_DIST += cuda/dense/half.cuh cuda/dense/interact_rows.cuh cuda/dense/interact_kernels.cuh \
  cuda/dense/interact_half.cuh cuda/dense/interact_launch.cuh cuda/dense/cross_kernels.cuh \
  cuda/dense/cross_launch.cuh
# Flat arrays and the dense optimizers.
cuda_sources += cuda/dense/flat.cu
EXTRA_DIST += cuda/dense/codes.cuh cuda/dense/flat_kernels.cuh cuda/dense/flat_run.cuh \
  cuda/dense/dense_update_kernels.cuh cuda/dense/dense_update_run.cuh
cuda_objects =
if HAVE_CUDA
cuda_objects += $(cuda_sources:.cu=.o)
if HAVE_NCCL
cuda_objects += $(cuda_nccl_sources:.cu=.o)
endif
endif

SUFFIXES += .cu
V_NVCC = $(V_NVCC_@AM_V@)
V_NVCC_ = $(V_NVCC_@AM_DEFAULT_V@)
V_NVCC_0 = @echo "  NVCC    " $@;
.cu.o:
	@$(MKDIR_P) $(@D)
	$(V_NVCC)$(NVCC) $(CUDA_FLAGS) $(DEFS) -I. $(AM_CPPFLAGS) \
	  $(CUDA_CPPFLAGS) -MD -MP -MF $(@:.o=.d) -c -o $@ $<
# What each object was made from, as of its last compilation.
-include $(cuda_objects:.o=.d)
MOSTLYCLEANFILES += cuda/*/*.o cuda/*/*.d
