# Traces: what overlaps, whose data each span is, the commands that read them.
check_PROGRAMS += tests/trace_check
dist_check_SCRIPTS += tests/trace_overlap.sh
