check_PROGRAMS += tests/test_checkpoint
dist_check_SCRIPTS += tests/disk_full.sh tests/reshard.sh
