# The CUDA backend.  nvcc compiles; the C compiler links.
cuda_sources = cuda/backend.cu
EXTRA_DIST += $(cuda_sources) cuda/cuda_impl.h cuda/grid.h
cuda_objects =
if HAVE_CUDA
cuda_objects += cuda/backend.o
endif

SUFFIXES += .cu
V_NVCC = $(V_NVCC_@AM_V@)
V_NVCC_ = $(V_NVCC_@AM_DEFAULT_V@)
V_NVCC_0 = @echo "  NVCC    " $@;
.cu.o:
	@$(MKDIR_P) $(@D)
	$(V_NVCC)$(NVCC) $(CUDA_FLAGS) -O3 -std=c++17 -Werror all-warnings \
	  $(DEFS) -I. $(AM_CPPFLAGS) -MD -MP -MF $(@:.o=.d) -c -o $@ $<
-include cuda/backend.d
MOSTLYCLEANFILES += cuda/*.o cuda/*.d
