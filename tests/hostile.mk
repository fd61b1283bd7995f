# Files of strangers; how the program is built.
check_PROGRAMS += tests/test_hostile
tests_test_hostile_SOURCES = tests/test_hostile.c tests/hostile_files.c \
  tests/hostile_files.h
dist_check_SCRIPTS += tests/hostile.sh tests/hardening.sh
