# Files of strangers; how the program is built.
check_PROGRAMS += tests/test_hostile
dist_check_SCRIPTS += tests/hostile.sh tests/hardening.sh
