#!/bin/sh
# check_totals.sh - jobs/check can't be green by mistake: tests/pairs.mk,
# tests/support/launch and jobs/totals.sh over a project of a few tests, that is
# broken in one way after the other.  seconds: 300
for tool in autoreconf automake; do
  command -v $tool > /dev/null || { echo "$tool is not here"; exit 77; }
done
unset MAKEFLAGS MFLAGS MAKELEVEL clocks TESSERA_SANITIZED TESSERA_BACKEND TESSERA_RANKS
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
top=$srcdir; export top
mkdir -p "$work/tests/a" "$work/tests/run" && cd "$work" || exit 1
cat > configure.ac <<'END'
AC_INIT([few],[1])
AM_INIT_AUTOMAKE([foreign subdir-objects -Wno-portability])
AC_PROG_CC
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
END
cat > Makefile.am <<END
check_LIBRARIES =
check_PROGRAMS = tests/a/test_one tests/a/test_two
dist_check_SCRIPTS = tests/run/three.sh
TESTS = \$(check_PROGRAMS) \$(dist_check_SCRIPTS)
TEST_EXTENSIONS = .sh
AM_TESTS_ENVIRONMENT = srcdir=\$(abs_srcdir); export srcdir;
LOG_COMPILER = \$(SHELL) $top/tests/support/launch
SH_LOG_COMPILER = \$(LOG_COMPILER)
tests_asleep = tests/a/test_two
END
cat "$top/tests/pairs.mk" >> Makefile.am
program() { # name, body of main
  printf '/* %s.c - ranks: 1 1 */\n#include <stdio.h>\nint main(void) { %s }\n' "$1" "$2" > "tests/a/$1.c"
}
says() { echo "puts(\"100%: Checks: $1, Failures: $2, Errors: 0\"); return $3;"; }
mend() {
  program test_one "$(says 3 0 0)"; program test_two "$(says 2 0 0)"
  echo 'echo "100%: Checks: 4, Failures: 0, Errors: 0"' > tests/run/three.sh
}
mend; chmod +x tests/run/three.sh
autoreconf -i > log 2>&1 && ./configure -q > log 2>&1 || { cat log; echo "FAILED: the project"; exit 1; }

# What jobs/check does, in a shell of its own; the argument may replace make.
cat > total <<'END'
. "$top/jobs/totals.sh"
eval "${1:-}"
forget_results .
make -s -j 2 check-pairs; count . $?
count_unbuilt . .
totals
END
n_checks=0
total() { # what, last line, another line, definition of make
  sh ./total "${4:-}" > log 2>&1; code=$?
  n_checks=$((n_checks + 1))
  case $2 in *" 0 failed"*) wanted=0 ;; *) wanted=1 ;; esac
  if [ "$(tail -n 1 log)" != "$2" ] || [ $code != $wanted ] || ! grep -qe "$3" log; then
    cat log; echo "FAILED: $1: not code $wanted, \"$2\" and \"$3\" but $code"; exit 1
  fi
  mend
}
# The programs run twice.
total "all is well" "14 passed, 0 failed, 0 skipped" '^14'
# From here on results of an earlier run are there.
total "tests with clocks in a call of their own" "14 passed, 0 failed, 0 skipped" '^14' \
  'make() { command make "$@" clocks=later && command make -s check-clocks; }'
total "tests with clocks in no call" "10 passed, 1 failed, 0 skipped" 'FAILED: tests/a/test_two: left no result' \
  'make() { command make "$@" clocks=later; }'
echo 'int main(void) {' > tests/a/test_one.c
total "a syntax error" "8 passed, 1 failed, 0 skipped" 'FAILED: tests/a/test_one: left no result'
rm tests/a/test_one.c
total "a source that is gone" "8 passed, 1 failed, 0 skipped" 'FAILED: tests/a/test_one: left no result'
program test_two 'return *(volatile int *)0;'
total "a crash" "10 passed, 1 failed, 0 skipped" 'FAILED: tests/a/test_two$'
program test_two "$(says 5 2 1)"
total "failures" "13 passed, 2 failed, 0 skipped" 'FAILED: tests/a/test_two$'
program test_two 'return 0;'
total "a program that checks nothing" "10 passed, 1 failed, 0 skipped" 'passed, but 0 checks held'
program test_two "if (fopen(\"ran\", \"r\")) return 0; fopen(\"ran\", \"w\"); $(says 2 0 0)"
total "a run that checks nothing" "12 passed, 1 failed, 0 skipped" 'in 1 of 2 runs'
program test_two 'puts("no GPU"); return 77;'
total "a skip" "10 passed, 0 failed, 1 skipped" 'skipped: tests/a/test_two: .*no GPU'
program test_two "if (fopen(\"left\", \"r\")) return 77; fopen(\"left\", \"w\"); $(says 2 0 0)"
total "a run left out" "12 passed, 0 failed, 1 skipped" 'left out: test_two on 1 ranks'
echo 'exit 3' > tests/run/three.sh
total "a script that fails" "10 passed, 1 failed, 0 skipped" 'FAILED: tests/run/three.sh$'
total "a suite that make leaves out" "10 passed, 0 failed, 1 skipped" 'skipped: tests/a/test_two: not in this build' \
  'make() { command make "$@" check_PROGRAMS=tests/a/test_one; }'
total "a status of make alone" "14 passed, 1 failed, 0 skipped" 'make ended with code 2' \
  'make() { command make "$@"; return 2; }'
total "results of an earlier run alone" "0 passed, 2 failed, 0 skipped" 'test_two: left no result' \
  'make() { printf "%s\n" tests/a/test_one tests/a/test_two > tests/expected; }'
total "no make at all" "0 passed, 1 failed, 2 skipped" 'make wrote no list' 'make() { return 2; }'
total "a result without its log" "8 passed, 1 failed, 0 skipped" 'FAILED: tests/a/test_one: left no result' \
  'make() { command make "$@"; rm tests/a/test_one.log; }'
echo "100%: Checks: $n_checks, Failures: 0, Errors: 0"
