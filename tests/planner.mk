# Plans: estimates, search, texts.
check_PROGRAMS += tests/test_planner tests/test_planner_memory
tests_test_planner_SOURCES = tests/test_planner.c tests/planner_setting.h
tests_test_planner_memory_SOURCES = tests/test_planner_memory.c \
  tests/planner_setting.h
EXTRA_DIST += jobs/plan_check input/topology_example
