# The CUDA backend.  nvcc compiles, the C compiler links.  What needs no CUDA
# is plain C, and is built and tested everywhere.
tessera_sources += cuda/runtime/choose.c cuda/runtime/choose.h cuda/runtime/event_ring.c \
  cuda/runtime/event_ring.h cuda/dense/product_choices.c cuda/dense/product_choices.h

# A family of kernels is one file, here and nowhere else.
cuda_sources = \
  cuda/runtime/backend.cu cuda/runtime/copies.cu cuda/runtime/device.cu \
  cuda/runtime/enqueue.cu cuda/runtime/events.cu cuda/runtime/gpu.cu \
  cuda/runtime/graph.cu cuda/runtime/graph_lanes.cu \
  cuda/runtime/graph_memory.cu cuda/runtime/memory.cu cuda/runtime/range.cu cuda/runtime/notes.cu \
  cuda/runtime/reach.cu cuda/runtime/reduce_ranks.cu cuda/runtime/span.cu \
  cuda/sparse/cache.cu cuda/sparse/entries.cu cuda/sparse/lookup.cu \
  cuda/sparse/mirror.cu \
  cuda/sparse/row_average.cu cuda/sparse/row_place.cu cuda/sparse/row_plain.cu cuda/sparse/row_stage.cu \
  cuda/sparse/row_update.cu \
  cuda/sparse/sort.cu cuda/sparse/weight_grad.cu \
  cuda/shard/code_rows.cu cuda/shard/distinct.cu cuda/shard/pack.cu \
  cuda/shard/positions.cu cuda/shard/unpack.cu cuda/shard/view_rows.cu \
  cuda/dense/cross.cu cuda/dense/dense_update.cu cuda/dense/flat.cu \
  cuda/dense/fm.cu cuda/dense/interact.cu cuda/dense/interact_f32.cu \
  cuda/dense/interact_half.cu cuda/dense/join.cu cuda/dense/loss.cu \
  cuda/dense/mask.cu cuda/dense/product.cu cuda/dense/products.cu \
  cuda/dense/products_shapes.cu \
  cuda/model/act.cu cuda/model/attention.cu cuda/model/attention_grad.cu \
  cuda/model/attention_half.cu cuda/model/attention_half_grad.cu \
  cuda/model/candidates.cu cuda/model/columns.cu cuda/model/contract.cu \
  cuda/model/full_softmax.cu cuda/model/map.cu \
  cuda/model/norm.cu cuda/model/tokens.cu
cuda_nccl_sources = cuda/runtime/comm_nccl.cu

# What they include.
cuda_headers = \
  cuda/runtime/cuda_impl.h cuda/runtime/each.cuh cuda/runtime/enqueue.h cuda/runtime/graph.h \
  cuda/runtime/grid.h cuda/runtime/lane.h \
  cuda/runtime/notes.h cuda/runtime/scan.cuh cuda/runtime/store.cuh \
  cuda/sparse/cache_hold.cuh cuda/sparse/cache_kernels.cuh \
  cuda/sparse/cache_sets.cuh cuda/sparse/exact.cuh cuda/sparse/features.cuh cuda/sparse/lookup.cuh \
  cuda/sparse/lookup_plan.h cuda/sparse/rounding.cuh cuda/sparse/row_optim.cuh \
  cuda/sparse/row_few_bits.cuh cuda/sparse/row_quads.cuh cuda/sparse/row_score.cuh cuda/sparse/row_sum.cuh cuda/sparse/row_update.cuh cuda/sparse/row_work.cuh cuda/sparse/rows.cuh \
  cuda/shard/pack.cuh cuda/shard/view.cuh \
  cuda/dense/codes.cuh cuda/dense/cross.cuh cuda/dense/flat.cuh \
  cuda/dense/half.cuh cuda/dense/interact.cuh cuda/dense/mask.h \
  cuda/dense/product.h cuda/dense/products.h \
  cuda/model/attention.cuh cuda/model/attention_grad.cuh cuda/model/attention_half.cuh \
  cuda/model/columns.cuh cuda/model/elements.cuh \
  cuda/model/lanes.cuh cuda/model/starts.cuh
EXTRA_DIST += $(cuda_sources) $(cuda_nccl_sources) $(cuda_headers)

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
