# The contract of each family of kernels (tests/support/contract.h): host, fake
# device and emulated GPUs by themselves, a GPU by
#   TESSERA_BACKEND=cuda sh tests/support/launch tests/kernels/lookup
check_PROGRAMS += tests/kernels/lookup tests/kernels/sort tests/kernels/update \
  tests/kernels/cache tests/kernels/entries tests/kernels/pack \
  tests/kernels/distinct tests/kernels/unpack tests/kernels/views \
  tests/kernels/codes tests/kernels/loss tests/kernels/loss_classes \
  tests/kernels/flat \
  tests/kernels/dense_update tests/kernels/interact tests/kernels/rows \
  tests/kernels/layers tests/kernels/layers_rows tests/kernels/tokens \
  tests/kernels/mirror \
  tests/kernels/attention tests/kernels/candidates tests/kernels/full_softmax
tests_kernels_update_SOURCES = tests/kernels/update.c \
  tests/kernels/update_case.c tests/kernels/update_double.c \
  tests/kernels/update_score.c \
  tests/kernels/update.h
tests_kernels_layers_SOURCES = tests/kernels/layers.c \
  tests/kernels/layers_expect.c tests/kernels/layers.h
tests_kernels_layers_rows_SOURCES = tests/kernels/layers_rows.c \
  tests/kernels/layers_expect.c tests/kernels/layers.h
tests_kernels_tokens_SOURCES = tests/kernels/tokens.c \
  tests/kernels/layers_expect.c tests/kernels/layers.h
tests_kernels_candidates_SOURCES = tests/kernels/candidates.c \
  tests/kernels/layers_expect.c tests/kernels/layers.h
tests_kernels_full_softmax_SOURCES = tests/kernels/full_softmax.c \
  tests/kernels/layers_expect.c tests/kernels/layers.h
tests_kernels_attention_SOURCES = tests/kernels/attention.c \
  tests/kernels/layers_expect.c tests/kernels/layers.h
