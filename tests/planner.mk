# Plans: estimates, search, texts.
check_PROGRAMS += tests/test_planner
EXTRA_DIST += jobs/plan_check input/topology_example
