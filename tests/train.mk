EXTRA_DIST += tests/common.sh tests/golden_losses.txt
dist_check_SCRIPTS += tests/golden.sh tests/train_errors.sh tests/train_positions.sh tests/train_predict.sh tests/train_restart.sh tests/train_stop.sh tests/watchdog.sh tests/one_message.sh tests/pipelines.sh
# Pipelines: trainings inside the test's process.
check_PROGRAMS += tests/test_pipelines
pipe_run = tests/pipe_run.c tests/pipe_run.h
tests_test_pipelines_SOURCES = tests/test_pipelines.c $(pipe_run)
check_PROGRAMS += tests/test_semi_sync
tests_test_semi_sync_SOURCES = tests/test_semi_sync.c $(pipe_run)
check_PROGRAMS += tests/test_prefetch
tests_test_prefetch_SOURCES = tests/test_prefetch.c $(pipe_run)
# Jobs under a Slurm that the script starts: minutes of waiting for its clock,
# so not in `make check`.
EXTRA_DIST += tests/slurm.sh tests/slurm_cluster.sh
check-slurm: tessera
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS=tests/slurm.sh
.PHONY: check-slurm
