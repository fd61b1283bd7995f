#!/bin/sh
# run.sh - runs fuzzers in the build's folder fuzz/, each in turn over the
# seeds of tests/fuzz/corpus/NAME, then TESSERA_FUZZ_SECONDS (60) on.
#
# A finding is kept as fuzz/findings/NAME-crash-...; what has been found once
# goes to the corpus.  New inputs that reach new places go to fuzz/found/NAME,
# so a later run goes on from there.
set -u
seconds=${TESSERA_FUZZ_SECONDS:-60}
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
export LSAN_OPTIONS="suppressions=$srcdir/tests/lsan.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1"
export HDF5_USE_FILE_LOCKING=FALSE
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
mkdir -p fuzz/findings
passed=0; failed=0
for name in "$@"; do
  seeds=$srcdir/tests/fuzz/corpus/$name
  [ -d "$seeds" ] || seeds=
  words=$srcdir/tests/fuzz/$name.dict
  [ -f "$words" ] && words=-dict=$words || words=
  mkdir -p "fuzz/found/$name"
  case $name in
  deck) cp "$srcdir"/input/*.deck fuzz/found/deck ;;
  plan) cp "$srcdir/input/topology_example" fuzz/found/plan ;;
  esac
  echo "== $name, $seconds s"
  if "fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=100 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
    -max_len="${TESSERA_FUZZ_BYTES:-4096}" -print_final_stats=1 -artifact_prefix="fuzz/findings/$name-" $words \
    "fuzz/found/$name" $seeds > "fuzz/$name.log" 2>&1; then
    passed=$((passed + 1)); grep -hE 'number_of_executed|peak_rss' "fuzz/$name.log"
  else
    failed=$((failed + 1)); echo "FAILED: $name: fuzz/$name.log"; grep -hE '^(SUMMARY|==.*ERROR)|not so:' "fuzz/$name.log" | head -n 4
  fi
done
echo "100%: Checks: $passed, Failures: $failed, Errors: 0"
[ $failed = 0 ]
