EXTRA_DIST += tests/common.sh tests/golden_losses.txt
dist_check_SCRIPTS += tests/nan.sh tests/fully_sharded.sh tests/golden.sh tests/train_bf16.sh tests/train_dense_rows.sh tests/train_errors.sh tests/train_models.sh tests/train_positions.sh tests/train_predict.sh tests/cached.sh tests/larger.sh tests/train_restart.sh tests/train_stop.sh tests/train_tasks.sh tests/watchdog.sh tests/one_message.sh tests/pipelines.sh tests/report.sh
# Pipelines: trainings inside the test's process.
check_PROGRAMS += tests/test_pipelines
pipe_run = tests/pipe_run.c tests/pipe_run.h
tests_test_pipelines_SOURCES = tests/test_pipelines.c $(pipe_run)
check_PROGRAMS += tests/test_memory
tests_test_memory_SOURCES = tests/test_memory.c $(pipe_run)
check_PROGRAMS += tests/test_wire
tests_test_wire_SOURCES = tests/test_wire.c $(pipe_run)
check_PROGRAMS += tests/test_semi_sync
tests_test_semi_sync_SOURCES = tests/test_semi_sync.c $(pipe_run)
check_PROGRAMS += tests/test_prefetch
tests_test_prefetch_SOURCES = tests/test_prefetch.c tests/prefetch_stub.c \
  tests/prefetch_stub.h $(pipe_run)
check_PROGRAMS += tests/test_cached
tests_test_cached_SOURCES = tests/test_cached.c $(pipe_run)
check_PROGRAMS += tests/test_accumulate
tests_test_accumulate_SOURCES = tests/test_accumulate.c $(pipe_run)
check_PROGRAMS += tests/test_train_device
tests_test_train_device_SOURCES = tests/test_train_device.c $(pipe_run)
check_PROGRAMS += tests/test_step_graph
tests_test_step_graph_SOURCES = tests/test_step_graph.c $(pipe_run)
check_PROGRAMS += tests/test_ahead
tests_test_ahead_SOURCES = tests/test_ahead.c $(pipe_run)
check_PROGRAMS += tests/test_dense_rows
tests_test_dense_rows_SOURCES = tests/test_dense_rows.c $(pipe_run)
# Jobs under a Slurm that the script starts: minutes of waiting for its clock,
# so not in `make check`.
EXTRA_DIST += tests/slurm.sh tests/slurm_cluster.sh
check-slurm: tessera
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS=tests/slurm.sh
.PHONY: check-slurm
# A batch's way to a device apart.
check_PROGRAMS += tests/test_upload
upload_source = tests/upload_source.c tests/upload_source.h
tests_test_upload_SOURCES = tests/test_upload.c $(upload_source)
check_PROGRAMS += tests/test_upload_input
tests_test_upload_input_SOURCES = tests/test_upload_input.c $(upload_source)
check_PROGRAMS += tests/test_upload_train
tests_test_upload_train_SOURCES = tests/test_upload_train.c $(pipe_run)
