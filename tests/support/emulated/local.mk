# Backend "emulated": every .cu of cuda/ compiled by g++ against the headers of
# include/, over a CUDA runtime without a GPU.  One object, in which all names
# but those of emulated.h are local, so that a build with CUDA has both.
emulated_c = tests/support/emulated/streams.c tests/support/emulated/memory.c \
  tests/support/emulated/ranges.c \
  tests/support/emulated/launches.c tests/support/emulated/graphs.c \
  tests/support/emulated/gpu.c tests/support/emulated/names.c \
  tests/support/emulated/cublas.c tests/support/emulated/cublas_product.c \
  tests/support/emulated/nccl.c tests/support/emulated/nccl_group.c \
  tests/support/emulated/nccl_box.c
emulated_cc = tests/support/emulated/simt.cc \
  tests/support/emulated/simt_wait.cc tests/support/emulated/backend.cc
emulated_include = tests/support/emulated/include
EXTRA_DIST += tests/runtime/test_cuda_emulate.c tests/runtime/test_cuda_fake.c \
  tests/runtime/test_cuda_graph.c tests/runtime/test_cuda_replay.c \
  tests/runtime/test_cuda_nccl.c \
  tests/runtime/emulate_cases.cu tests/runtime/emulate_cases.h \
  tests/runtime/cuda_graph_cases.c tests/runtime/graph_rig.h

EXTRA_DIST += $(emulated_c) $(emulated_cc) tests/support/emulated/emulated.h \
  tests/support/emulated/runtime.h tests/support/emulated/simt.h \
  tests/support/emulated/simt_engine.h \
  tests/support/emulated/nccl_box.h tests/support/emulated/nccl_group.h \
  tests/support/emulated/cublas.h tests/support/emulated/cublas_impl.h \
  $(emulated_include)/cuda.h \
  $(emulated_include)/cuda_runtime_api.h $(emulated_include)/cuda_runtime.h \
  $(emulated_include)/cuda_math.h \
  $(emulated_include)/cuda_fp16.h $(emulated_include)/cuda_bf16.h \
  $(emulated_include)/cublasLt.h $(emulated_include)/nccl.h \
  $(emulated_include)/nvtx3/nvToolsExt.h \
  $(emulated_include)/nvtx3/nvToolsExtCudaRt.h \
  $(emulated_include)/cub/device/device_radix_sort.cuh \
  $(emulated_include)/cub/device/device_select.cuh \
  $(emulated_include)/thrust/iterator/counting_iterator.h \
  $(emulated_include)/thrust/iterator/transform_iterator.h

if HAVE_CXX
emulated_obj = tests/support/emulated/obj
emulated_cuda = $(cuda_sources:%.cu=$(emulated_obj)/%.o) \
  $(cuda_nccl_sources:%.cu=$(emulated_obj)/%.o)
emulated_objects = $(emulated_cuda) $(emulated_c:%.c=$(emulated_obj)/%.o) \
  $(emulated_cc:%.cc=$(emulated_obj)/%.o)
# Tests that call CUDA or have kernels of their own are compiled in the same way
# and become one object with all of it.
emulated_tests = tests/runtime/test_cuda_emulate tests/runtime/test_cuda_fake \
  tests/runtime/test_cuda_graph tests/runtime/test_cuda_replay \
  tests/runtime/test_cuda_nccl
emulated_test_c = $(emulated_tests:%=%.c)
emulated_test_cu = tests/runtime/cuda_kernels.cu tests/runtime/emulate_cases.cu
emulated_test_objects = $(emulated_test_c:%.c=$(emulated_obj)/%.o) \
  $(emulated_test_cu:%.cu=$(emulated_obj)/%.o)
emulated_cppflags = -I$(srcdir)/$(emulated_include) $(DEFS) -I. $(AM_CPPFLAGS) $(CPPFLAGS) \
  -DTS_EMULATED_RESOURCES='"$(abs_builddir)/$(emulated_resources)"'
# Optimized also where the program isn't, as trainings run on it; less where
# sanitizers' code would make that take the compiler twice as long.  Automatic
# variables begin with a pattern that is no address, so that what lies in the
# parameters of a launch can be looked at.  Alignment is always looked at, by
# simt.cc.  A product and a sum are two
# roundings, as for nvcc with -fmad=false.
emulated_cxxflags = $(AM_CXXFLAGS) $(CXXFLAGS) $(if $(findstring sanitize=address,$(AM_CXXFLAGS)),-O1,-O2) -g1 -std=gnu++17 -ffp-contract=off \
  -ftrivial-auto-var-init=pattern -fno-gnu-unique -fsanitize=alignment -fsanitize-recover=alignment -Wno-unknown-pragmas -Wno-class-memaccess \
  -Wno-missing-field-initializers -Wno-format-truncation -include cuda_runtime.h
if !HAVE_CUDA
emulated_archs = -DTS_CUDA_ARCHS='"80 90"'
endif
# What runs the threads is no kernel, and half of a kernel's time.  The thread
# sanitizer is told of the fibers, not shown how they are switched.
emulated_simt = -fno-sanitize=alignment $(if $(findstring sanitize=thread,$(AM_CXXFLAGS) $(CXXFLAGS)),-fno-sanitize=thread -DTS_SIMT_RACES)
emulated_keep = --keep-global-symbol='ts_emulated_*' \
  --keep-global-symbol='ts_backend_emulated*' --keep-global-symbol=ts_cublas
emulated_deps = -MD -MP -MF $(@:.o=.d)

# Registers and shared memory of kernels (names.c).  Without cuobjdump the file
# is empty, and launches are not checked against it.
emulated_resources = tests/support/emulated/resources
emulated_tools = $(dir $(NVCC)):$$(echo $(abs_top_srcdir)/build-tools/lib/python3*/site-packages/nvidia/cu*/bin)
$(emulated_resources): $(cuda_objects)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)PATH=$$PATH:$(emulated_tools); for o in $(cuda_objects); do \
	  cuobjdump -arch sm_$(lastword $(CUDA_ARCHS)) --dump-resource-usage $$o; \
	done > $@ 2> /dev/null || : > $@

V_EMU = $(V_EMU_@AM_V@)
V_EMU_ = $(V_EMU_@AM_DEFAULT_V@)
V_EMU_0 = @echo "  EMULATE " $@;
$(emulated_cuda) $(emulated_test_cu:%.cu=$(emulated_obj)/%.o): $(emulated_obj)/%.o: %.cu
	@$(MKDIR_P) $(@D)
	$(V_EMU)$(CXX) -x c++ $(emulated_cppflags) $(emulated_archs) \
	  $(emulated_cxxflags) $(emulated_deps) -c -o $@ $<
$(emulated_cc:%.cc=$(emulated_obj)/%.o): $(emulated_obj)/%.o: %.cc
	@$(MKDIR_P) $(@D)
	$(V_EMU)$(CXX) $(emulated_cppflags) $(emulated_cxxflags) $(emulated_simt) \
	  $(emulated_deps) -c -o $@ $<
$(emulated_c:%.c=$(emulated_obj)/%.o): $(emulated_obj)/%.o: %.c
	@$(MKDIR_P) $(@D)
	$(V_EMU)$(CC) $(emulated_cppflags) $(AM_CFLAGS) $(CFLAGS) -O2 \
	  $(emulated_deps) -c -o $@ $<
tests/support/emulated/emulated.o: $(emulated_objects)
	$(V_EMU)$(LD) -r --force-group-allocation -o $@.tmp $(emulated_objects) && \
	  $(OBJCOPY) -w $(emulated_keep) $@.tmp $@ && rm -f $@.tmp
tests_support_libharness_a_LIBADD = tests/support/emulated/emulated.o

$(emulated_test_c:%.c=$(emulated_obj)/%.o): $(emulated_obj)/%.o: %.c
	@$(MKDIR_P) $(@D)
	$(V_EMU)$(CC) $(emulated_cppflags) $(AM_CFLAGS) $(CHECK_CFLAGS) $(CFLAGS) \
	  $(emulated_deps) -c -o $@ $<
$(emulated_tests:%=%-image.o): %-image.o: $(emulated_obj)/%.o \
  $(emulated_test_objects) $(emulated_objects)
	$(V_EMU)$(LD) -r --force-group-allocation -o $@.tmp $< \
	  $(filter-out $(emulated_test_c:%.c=$(emulated_obj)/%.o),$(emulated_test_objects)) \
	  $(emulated_objects) && \
	  $(OBJCOPY) -w $(emulated_keep) --keep-global-symbol=main \
	    --keep-global-symbol='*__tsan*' $@.tmp $@ && rm -f $@.tmp
-include $(emulated_objects:.o=.d) $(emulated_test_objects:.o=.d)
check_PROGRAMS += $(emulated_tests)
tests_runtime_test_cuda_emulate_SOURCES =
tests_runtime_test_cuda_emulate_LDADD = tests/runtime/test_cuda_emulate-image.o $(LDADD)
tests_runtime_test_cuda_fake_SOURCES =
tests_runtime_test_cuda_fake_LDADD = tests/runtime/test_cuda_fake-image.o $(LDADD)
tests_runtime_test_cuda_graph_SOURCES =
tests_runtime_test_cuda_graph_LDADD = tests/runtime/test_cuda_graph-image.o $(LDADD)
tests_runtime_test_cuda_replay_SOURCES =
tests_runtime_test_cuda_replay_LDADD = tests/runtime/test_cuda_replay-image.o $(LDADD)
tests_runtime_test_cuda_nccl_SOURCES =
tests_runtime_test_cuda_nccl_LDADD = tests/runtime/test_cuda_nccl-image.o $(LDADD)

# These ask for the backend by name.
check_PROGRAMS += tests/dense/test_cuda_products tests/dense/test_cuda_linear \
  tests/train/test_cuda_train tests/train/test_cuda_wire
tests_dense_test_cuda_products_CPPFLAGS = -I$(srcdir)/$(emulated_include) $(AM_CPPFLAGS)
tests_train_test_cuda_train_SOURCES = tests/train/test_cuda_train.c $(pipe_run)
tests_train_test_cuda_wire_SOURCES = tests/train/test_cuda_wire.c $(pipe_run)

# The program with the backend: run.backend = "emulated".
EXTRA_PROGRAMS += tests/tessera-emulated
check_DATA += tests/tessera-emulated $(emulated_resources)
tests_tessera_emulated_SOURCES = src/commands/main.c tests/support/emulated/register.c
tests_tessera_emulated_LDADD = tests/support/emulated/emulated.o libtessera.a $(CUDA_LIBS)
endif
MOSTLYCLEANFILES += $(emulated_resources) tests/support/emulated/obj/*/*/*.o \
  tests/support/emulated/obj/*/*/*/*.o tests/support/emulated/emulated.o \
  tests/runtime/*-image.o tests/support/emulated/obj/*/*/*.d tests/support/emulated/obj/*/*/*/*.d
