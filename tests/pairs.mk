# `make check` in half of the time: six tests at once, as most of them wait for
# each other's ranks or for a run to end, then check-clocks: $(tests_asleep), then
# $(tests_alone); clocks=later leaves that to whoever calls it beside what can
# wait.  A test that does not compile keeps no other from running.
# tests/expected lists all that has to leave a result: jobs/totals.sh counts by it.
tests_at_once = 6
all_tested = all-am
run_tests = run() { \
	  jobs=$$1; shift; [ -z "$$*" ] || $(MAKE) $(AM_MAKEFLAGS) -k -j$$jobs \
	    check-TESTS check_PROGRAMS= TESTS="$$*" $$suite || rc=1; \
	}
check-pairs:
	mkdir -p tests && printf '%s\n' $(TESTS) > tests/expected
	rc=0; suite=; \
	$(MAKE) $(AM_MAKEFLAGS) -k $(all_tested) $(check_LIBRARIES) $(check_PROGRAMS) || rc=1; \
	$(run_tests); \
	run $(tests_at_once) $(filter $(tests_longest),$(TESTS)) $(filter-out \
	  $(tests_longest) $(tests_asleep) $(tests_alone),$(TESTS)); \
	[ -n "$(clocks)" ] || $(MAKE) $(AM_MAKEFLAGS) check-clocks TESTS="$(TESTS)" || rc=1; \
	exit $$rc
# With a summary of its own, as make may run other tests beside it.
check-clocks:
	rc=0; suite=TEST_SUITE_LOG=tests/clocks.log; $(run_tests); \
	run 2 $(filter $(tests_asleep),$(TESTS)); \
	run 1 $(filter $(tests_alone),$(TESTS)); \
	exit $$rc
# What another engine of matrix products can change, on one rank.
check-engine:
	TESSERA_RANKS=1; export TESSERA_RANKS; $(MAKE) $(AM_MAKEFLAGS) check-pairs \
	  check_PROGRAMS="$(filter-out %_gpu tests/dense/test_cuda_% tests/dense/test_fully_sharded_t%,$(filter tests/dense/% tests/model/%,$(check_PROGRAMS)))" \
	  dist_check_SCRIPTS= all_tested=tessera
.PHONY: check-pairs check-clocks check-engine
