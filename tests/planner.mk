# Plans: estimates, search, texts.
planner_tests = tests/test_plan_text tests/test_planner \
  tests/test_planner_cached tests/test_planner_memory
check_PROGRAMS += $(planner_tests)
EXTRA_DIST += tests/planner_setting.h
EXTRA_DIST += jobs/plan_check input/topology_example
