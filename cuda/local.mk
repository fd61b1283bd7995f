# The CUDA backend.  nvcc compiles, the C compiler links.  What needs no CUDA
# is plain C, and is built and tested everywhere.
tessera_sources += cuda/choose.c cuda/choose.h cuda/event_ring.c \
  cuda/event_ring.h
cuda_sources = cuda/backend.cu cuda/device.cu cuda/gpu.cu cuda/memory.cu \
  cuda/span.cu cuda/copies.cu cuda/lookup.cu cuda/reduce_ranks.cu
cuda_sources += cuda/clock.cu cuda/words.cu
# Work of streams, graphs.
cuda_sources += cuda/enqueue.cu cuda/events.cu cuda/graph.cu \
  cuda/graph_lanes.cu cuda/graph_memory.cu cuda/notes.cu
EXTRA_DIST += cuda/enqueue.h cuda/graph.h cuda/graph_impl.h cuda/notes.h
cuda_nccl_sources = cuda/comm_nccl.cu
EXTRA_DIST += $(cuda_sources) $(cuda_nccl_sources) cuda/cuda_impl.h \
  cuda/grid.h cuda/lane.h cuda/words.h cuda/lookup_plan.h cuda/rows.cuh \
  cuda/lookup_kernels.cuh cuda/lookup_launch.cuh cuda/comm_cuda.h
# Views, wires, positions.
cuda_sources += cuda/views.cu
EXTRA_DIST += cuda/view_rows.cuh cuda/code_rows.cuh cuda/positions.cuh \
  cuda/views_launch.cuh cuda/put.cuh
# Kernels of row updates.
cuda_sources += cuda/sort.cu cuda/row_update.cu cuda/row_stage.cu
EXTRA_DIST += cuda/update.h cuda/exact.cuh cuda/rounding.cuh \
  cuda/row_optim.cuh cuda/row_update.cuh cuda/row_update_kernels.cuh \
  cuda/row_update_run.cuh cuda/row_work.cuh cuda/lane_run.cuh \
  cuda/stream_run.cuh
# The cache of rows in slow memory.
cuda_sources += cuda/cache.cu cuda/reach.cu
EXTRA_DIST += cuda/cache.h cuda/cache_sets.cuh cuda/cache_hold.cuh \
  cuda/cache_kernels.cuh cuda/cache_run.cuh
# The sending side of input dist.
cuda_sources += cuda/pack.cu
EXTRA_DIST += cuda/pack.h cuda/scan.cuh cuda/pack_kernels.cuh \
  cuda/distinct_kernels.cuh cuda/pack_run.cuh
# Kernels around them.
cuda_sources += cuda/entries.cu
EXTRA_DIST += cuda/entries_kernels.cuh cuda/entries_launch.cuh
# Kernels of input dist's receiving side.
cuda_sources += cuda/unpack.cu
EXTRA_DIST += cuda/unpack_kernels.cuh cuda/unpack_launch.cuh
# Matrix products.
tessera_sources += cuda/product_choices.c cuda/product_choices.h
cuda_sources += cuda/product.cu cuda/products.cu cuda/products_shapes.cu \
  cuda/mask.cu
EXTRA_DIST += cuda/product.h cuda/products.h cuda/mask.h cuda/mask_kernels.cuh \
  cuda/mask_launch.cuh
# Loss and metrics.
cuda_sources += cuda/loss.cu
EXTRA_DIST += cuda/loss_kernels.cuh cuda/loss_run.cuh
# The dot interaction; cross layers, factorisation machines.
cuda_sources += cuda/interact.cu cuda/cross.cu
EXTRA_DIST += cuda/half.cuh cuda/interact_rows.cuh cuda/interact_kernels.cuh \
  cuda/interact_half.cuh cuda/interact_launch.cuh cuda/cross_kernels.cuh \
  cuda/cross_launch.cuh
# Flat arrays and the dense optimizers.
cuda_sources += cuda/flat.cu
EXTRA_DIST += cuda/codes.cuh cuda/flat_kernels.cuh cuda/flat_run.cuh \
  cuda/dense_update_kernels.cuh cuda/dense_update_run.cuh
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
MOSTLYCLEANFILES += cuda/*.o cuda/*.d
