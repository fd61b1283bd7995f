# Decks: schema, values, errors, --set, the deck in force.
check_PROGRAMS += tests/io/test_deck tests/io/test_deck_faults
# Columns of the input.
check_PROGRAMS += tests/io/test_columns tests/io/test_columns_formats
tests_io_test_columns_SOURCES = tests/io/test_columns.c tests/io/columns_rig.h
tests_io_test_columns_formats_SOURCES = tests/io/test_columns_formats.c tests/io/columns_rig.h \
  tests/support/hostile_files.c tests/support/hostile_files.h
# Numbers on their way into the model.
check_PROGRAMS += tests/io/test_scales
tests_io_test_scales_SOURCES = tests/io/test_scales.c tests/io/columns_rig.h \
  tests/support/hostile_files.c tests/support/hostile_files.h
# Rows that data need of the tables.
check_PROGRAMS += tests/io/test_rows
tests_io_test_rows_SOURCES = tests/io/test_rows.c tests/support/hostile_files.c \
  tests/support/hostile_files.h
# Files of rows: predictions and embeddings.
check_PROGRAMS += tests/io/test_sheet
# Synthetic data, and batches of it that come again.
check_PROGRAMS += tests/io/test_synthetic
# The order of an epoch's samples.
check_PROGRAMS += tests/io/test_shuffle
# The part of the samples that is trained on, and that for validation.
check_PROGRAMS += tests/io/test_split
tests_io_test_split_SOURCES = tests/io/test_split.c tests/support/hostile_files.c \
  tests/support/hostile_files.h
# Draws as often as items are targets.
check_PROGRAMS += tests/io/test_target_law
check_PROGRAMS += tests/io/test_checkpoint_device tests/io/test_checkpoint_gathered
check_PROGRAMS += tests/io/test_checkpoint_dense
tests_io_test_checkpoint_dense_SOURCES = tests/io/test_checkpoint_dense.c \
  tests/dense/fully_sharded_toy.c tests/dense/fully_sharded_toy.h
check_PROGRAMS += tests/io/test_checkpoint tests/io/test_async tests/io/test_damage \
  tests/io/test_delta tests/io/test_delta_ids tests/io/test_faults
# Files of strangers; how the program is built.
check_PROGRAMS += tests/io/test_hostile
tests_io_test_hostile_SOURCES = tests/io/test_hostile.c tests/support/hostile_files.c \
  tests/support/hostile_files.h
# metrics.jsonl in several files.
check_PROGRAMS += tests/io/test_metrics_log
# Weights of other programs.
check_PROGRAMS += tests/io/test_tensors
