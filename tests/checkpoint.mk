check_PROGRAMS += tests/test_checkpoint_device
check_PROGRAMS += tests/test_checkpoint_dense
tests_test_checkpoint_dense_SOURCES = tests/test_checkpoint_dense.c \
  tests/fs_toy.c tests/fs_toy.h
check_PROGRAMS += tests/test_checkpoint tests/test_async tests/test_damage tests/test_faults
dist_check_SCRIPTS += tests/async.sh tests/disk_full.sh tests/reshard.sh
dist_check_SCRIPTS += tests/faults.sh tests/folder.sh tests/sweep_kill.sh \
  tests/sweep_faults.sh
# The same in long (doc/reliability.md): about an hour.
check-reliability: tessera tests/test_damage tests/test_faults
	TESSERA_SWEEP=long $(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='tests/test_damage tests/test_faults \
	  tests/faults.sh tests/folder.sh tests/disk_full.sh tests/sweep_kill.sh tests/sweep_faults.sh'
.PHONY: check-reliability
