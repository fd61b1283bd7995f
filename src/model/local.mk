tessera_sources += \
  src/model/act_body.h \
  src/model/activation.c \
  src/model/activation.h \
  src/model/attention.h \
  src/model/attention_body.h \
  src/model/attention_grad_body.h \
  src/model/attention_product_body.h \
  src/model/attention_ref.c \
  src/model/batch_norm.c \
  src/model/batch_norm.h \
  src/model/candidates.h \
  src/model/contract_body.h \
  src/model/elements_body.h \
  src/model/graph.c \
  src/model/graph.h \
  src/model/graph_half.c \
  src/model/graph_items.c \
  src/model/graph_memory.c \
  src/model/graph_names.c \
  src/model/graph_outputs.c \
  src/model/graph_plan.c \
  src/model/graph_print.c \
  src/model/graph_tokens.c \
  src/model/graph_rows.c \
  src/model/kernels.h \
  src/model/kernels_avx2.c \
  src/model/kernels_avx512.c \
  src/model/kernels_ref.c \
  src/model/kernels_candidates.c \
  src/model/kernels_tokens.c \
  src/model/kernels_version.h \
  src/model/layer.c \
  src/model/layer.h \
  src/model/layer_ops.c \
  src/model/layer_ops.h \
  src/model/layers/activation.c \
  src/model/layers/add.c \
  src/model/layers/attention.c \
  src/model/layers/batch_norm.c \
  src/model/layers/bilinear.c \
  src/model/layers/bilinear.h \
  src/model/layers/cin.c \
  src/model/layers/concat.c \
  src/model/layers/cross.c \
  src/model/layers/cross_forms.c \
  src/model/layers/cross_forms.h \
  src/model/layers/dot.c \
  src/model/layers/dropout.c \
  src/model/layers/experts.c \
  src/model/layers/field_attention.c \
  src/model/layers/fm.c \
  src/model/layers/gate.c \
  src/model/layers/gate.h \
  src/model/layers/gate_mask.c \
  src/model/layers/hstu.c \
  src/model/layers/items.c \
  src/model/layers/linear.c \
  src/model/layers/mlp.c \
  src/model/layers/multiply.c \
  src/model/layers/outer_product.c \
  src/model/layers/periodic.c \
  src/model/layers/pool.c \
  src/model/layers/position.c \
  src/model/layers/project.c \
  src/model/layers/reduce.c \
  src/model/layers/row_norm.c \
  src/model/layers/scale.c \
  src/model/layers/senet.c \
  src/model/layers/similarity.c \
  src/model/layers/slice.c \
  src/model/layers/target_attention.c \
  src/model/layers/task_product.c \
  src/model/layers/two_stream.c \
  src/model/layers/wide.c \
  src/model/mlp_options.c \
  src/model/mlp_options.h \
  src/model/model.h \
  src/model/named.c \
  src/model/named.h \
  src/model/norm_body.h \
  src/model/row_norm.c \
  src/model/row_norm.h \
  src/model/zoo.c \
  src/model/zoo.h

# The graphs that come with the program, as texts.
zoo_decks = \
  input/models/autoint.deck \
  input/models/bst.deck \
  input/models/dcnv2_moe.deck \
  input/models/deepfm_wide.deck \
  input/models/din.deck \
  input/models/esmm.deck \
  input/models/fibinet.deck \
  input/models/finalmlp.deck \
  input/models/fm.deck \
  input/models/gdcn.deck \
  input/models/hstu.deck \
  input/models/lr.deck \
  input/models/masknet.deck \
  input/models/mf_ccl.deck \
  input/models/mmoe.deck \
  input/models/nfm.deck \
  input/models/ple.deck \
  input/models/pnn.deck \
  input/models/sasrec.deck \
  input/models/simplex.deck \
  input/models/two_tower.deck \
  input/models/wide_deep.deck \
  input/models/xdeepfm.deck
EXTRA_DIST += $(zoo_decks) src/model/zoo_decks.sh
src/model/zoo.$(OBJEXT): src/model/zoo_decks.h
CLEANFILES += src/model/zoo_decks.h
src/model/zoo_decks.h: $(zoo_decks) $(srcdir)/src/model/zoo_decks.sh
	@$(MKDIR_P) src/model; $(SHELL) $(srcdir)/src/model/zoo_decks.sh \
	  $(filter %.deck,$^) > $@.new && mv $@.new $@
