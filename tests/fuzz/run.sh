#!/bin/sh
# run.sh - runs fuzzers in the build's folder fuzz/, three at once, over the
# seeds of tests/fuzz/corpus/NAME, then what it thinks up; TESSERA_FUZZ_SEED
# picks that.  With TESSERA_FUZZ_SECONDS for as long; else a number of thoughts,
# from nothing, which a busy machine has no less of.
#
# A finding is kept as fuzz/findings/NAME-crash-...; what has been found once
# goes to the corpus.  New inputs that reach new places go to fuzz/found/NAME,
# and a later run of so many seconds goes on from there.
set -u
seconds=${TESSERA_FUZZ_SECONDS:-}
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
export LSAN_OPTIONS="suppressions=$srcdir/tests/support/lsan.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1"
export HDF5_USE_FILE_LOCKING=FALSE
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
mkdir -p fuzz/findings

# What is thought up in some 20 s of a core.
thoughts_of() {
  case $1 in
  deck) echo 2000 ;;
  csv) echo 75000 ;;
  criteo) echo 10000 ;;
  npy) echo 20000 ;;
  plan) echo 1000000 ;;
  dataset) echo 5000 ;;
  tensors) echo 75000 ;;
  serve) echo 1000 ;;
  parquet) echo 12500 ;;
  *) echo 1750 ;;
  esac
}

# One fuzzer; its log tells how it ended.
fuzz() { # name
  # What a file makes Arrow's library ask for is refused, as memory that is not there.
  [ "$1" != parquet ] || ASAN_OPTIONS=$ASAN_OPTIONS:max_allocation_size_mb=256
  seeds=$srcdir/tests/fuzz/corpus/$1
  [ -d "$seeds" ] || seeds=
  words=$srcdir/tests/fuzz/$1.dict
  [ -f "$words" ] && words=-dict=$words || words=
  found=fuzz/found/$1 limit=-max_total_time=$seconds
  [ -n "$seconds" ] || { found=fuzz/first/$1 limit=-runs=$(thoughts_of "$1"); rm -rf "$found"; }
  mkdir -p "$found"
  case $1 in
  deck) cp "$srcdir"/input/*.deck "$found" ;;
  plan) cp "$srcdir/input/topology_example" "$found" ;;
  esac
  "fuzz/fuzz_$1" -seed="${TESSERA_FUZZ_SEED:-0}" "$limit" -timeout=100 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
    -max_len="${TESSERA_FUZZ_BYTES:-4096}" -print_final_stats=1 -artifact_prefix="fuzz/findings/$1-" $words \
    "$found" $seeds > "fuzz/$1.log" 2>&1
}

tell() { # name, exit code
  if [ "$2" = 0 ]; then
    passed=$((passed + 1)); echo "== $1${seconds:+, $seconds s}"; grep -hE 'number_of_executed|peak_rss' "fuzz/$1.log"
  else
    failed=$((failed + 1)); echo "FAILED: $1: fuzz/$1.log"
    grep -hE '^(SUMMARY|==.*ERROR|AddressSanitizer: CHECK)|not so:' "fuzz/$1.log" | head -n 4
  fi
}

# Three at once.
passed=0; failed=0
while [ $# -gt 0 ]; do
  now="$1 ${2-} ${3-}"
  for name in $now; do
    (fuzz "$name"; echo $? > "fuzz/$name.code") &
    shift
  done
  wait
  for name in $now; do tell "$name" "$(cat "fuzz/$name.code")"; done
done
echo "100%: Checks: $passed, Failures: $failed, Errors: 0"
[ $failed = 0 ]
