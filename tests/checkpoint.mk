check_PROGRAMS += tests/test_checkpoint tests/test_async
dist_check_SCRIPTS += tests/async.sh tests/disk_full.sh tests/reshard.sh
