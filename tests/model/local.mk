# Models against an oracle; what the benchmark of a model counts.
check_PROGRAMS += tests/model/test_models tests/model/test_bench_model
tests_model_test_models_SOURCES = tests/model/test_models.c \
  tests/model/model_oracle.c tests/model/model_oracle.h \
  tests/model/model_probe.c tests/model/model_probe.h

# Kinds of a graph's layers against oracles in double: a program for a few
# kinds each, with the rig.
check_PROGRAMS += \
  tests/model/test_layers \
  tests/model/test_layers_basic \
  tests/model/test_layers_interaction \
  tests/model/test_layers_mlp \
  tests/model/test_layers_numbers \
  tests/model/test_layers_tasks \
  tests/model/test_layers_tokens \
  tests/model/test_rows
tests_model_test_layers_SOURCES = tests/model/test_layers.c \
  tests/model/layer_rig.c tests/model/layer_rig.h
tests_model_test_layers_basic_SOURCES = tests/model/test_layers_basic.c \
  tests/model/layer_rig.c tests/model/layer_rig.h
tests_model_test_layers_interaction_SOURCES = tests/model/test_layers_interaction.c \
  tests/model/layer_rig.c tests/model/layer_rig.h
tests_model_test_layers_mlp_SOURCES = tests/model/test_layers_mlp.c \
  tests/model/layer_rig.c tests/model/layer_rig.h
tests_model_test_layers_numbers_SOURCES = tests/model/test_layers_numbers.c \
  tests/model/layer_rig.c tests/model/layer_rig.h
tests_model_test_layers_tasks_SOURCES = tests/model/test_layers_tasks.c \
  tests/model/layer_rig.c tests/model/layer_rig.h
tests_model_test_layers_tokens_SOURCES = tests/model/test_layers_tokens.c \
  tests/model/layer_rig.c tests/model/layer_rig.h
tests_model_test_rows_SOURCES = tests/model/test_rows.c \
  tests/model/layer_rig.c tests/model/layer_rig.h
