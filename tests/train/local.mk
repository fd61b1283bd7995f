# Pipelines: trainings inside the test's process.
check_PROGRAMS += tests/train/test_pipelines
pipe_run = tests/train/pipe_run.c tests/train/pipe_run.h
tests_train_test_pipelines_SOURCES = tests/train/test_pipelines.c $(pipe_run)
check_PROGRAMS += tests/train/test_semi_sync
tests_train_test_semi_sync_SOURCES = tests/train/test_semi_sync.c $(pipe_run)
check_PROGRAMS += tests/train/test_prefetch
tests_train_test_prefetch_SOURCES = tests/train/test_prefetch.c tests/train/prefetch_stub.c \
  tests/train/prefetch_stub.h $(pipe_run)
check_PROGRAMS += tests/train/test_cached
tests_train_test_cached_SOURCES = tests/train/test_cached.c tests/sparse/cache_model.h $(pipe_run)
check_PROGRAMS += tests/train/test_accumulate
tests_train_test_accumulate_SOURCES = tests/train/test_accumulate.c $(pipe_run)
check_PROGRAMS += tests/train/test_train_device
tests_train_test_train_device_SOURCES = tests/train/test_train_device.c $(pipe_run)
check_PROGRAMS += tests/train/test_step_graph
tests_train_test_step_graph_SOURCES = tests/train/test_step_graph.c $(pipe_run)
check_PROGRAMS += tests/train/test_ahead
tests_train_test_ahead_SOURCES = tests/train/test_ahead.c $(pipe_run)
check_PROGRAMS += tests/train/test_dense_rows
tests_train_test_dense_rows_SOURCES = tests/train/test_dense_rows.c $(pipe_run)
# A batch's way to a device apart.
check_PROGRAMS += tests/train/test_upload
upload_source = tests/train/upload_source.c tests/train/upload_source.h
tests_train_test_upload_SOURCES = tests/train/test_upload.c $(upload_source)
check_PROGRAMS += tests/train/test_upload_input
tests_train_test_upload_input_SOURCES = tests/train/test_upload_input.c $(upload_source)
check_PROGRAMS += tests/train/test_upload_train
tests_train_test_upload_train_SOURCES = tests/train/test_upload_train.c $(pipe_run)
check_PROGRAMS += tests/train/test_metrics tests/train/test_metrics_groups
check_PROGRAMS += tests/train/test_plot
check_PROGRAMS += tests/train/test_best
check_PROGRAMS += tests/train/test_commands
check_PROGRAMS += tests/train/test_bench
check_PROGRAMS += tests/train/test_bootstrap
