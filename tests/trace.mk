# Traces: what overlaps, whose data each span is, the commands that read them.
check_PROGRAMS += tests/trace_check
tests_trace_check_SOURCES = tests/trace_check.c tests/trace_reader.c \
  tests/trace_reader.h
dist_check_SCRIPTS += tests/trace_overlap.sh
