# totals.sh - sourced by check: adds up tests into $passed, $failed and $skipped.
# It goes by the list of what should have run, which make writes to
# tests/expected: a test that did not compile or left no result is a failure,
# and so is a program that passes without saying as many times as it should have
# run how many checks it made.
passed=0; failed=0; skipped=0; failed_logs=
bad() { failed=$((failed + 1)); echo "FAILED: $*"; }
left_out() { skipped=$((skipped + 1)); echo "skipped: $*"; }

# Before a build's tests run: results of an earlier time can't be counted then.
forget_results() { # build folder
  [ -d "$1/tests" ] || return 0
  rm -f "$1/tests/expected"
  find "$1/tests" '(' -name '*.log' -o -name '*.trs' ')' -exec rm -f {} +
}

# Check's lines of a log: checks that held, those that did not, lines.
checks() {
  sed -n 's/.*Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1 \2 \3/p' "$1" |
    awk '{ c += $1; f += $2 + $3 } END { printf "%d %d %d", c - f, f, NR }'
}

count_test() { # name, path without suffix
  log=$2.log
  result=$(sed -n 's/^:test-result: *//p' "$2.trs" 2> /dev/null)
  if [ -z "$result" ] || [ ! -f "$log" ]; then
    bad "$1: left no result: it was not built, or not run"; return
  fi
  runs=$(sed -n 's/^runs: //p' "$log" | head -n 1)
  left=$(grep -c '^left out: ' "$log")
  set -- "$1" $(checks "$log")
  passed=$((passed + $2))
  case $result in
  PASS)
    if [ "$3" != 0 ] || [ "$2" = 0 ] || [ "$4" -lt $((${runs:-1} - left)) ]; then
      bad "$1: passed, but $2 checks held and $3 did not, in $4 of ${runs:-1} runs"
      tail -n 30 "$log"
    fi
    skipped=$((skipped + left)); grep '^left out: ' "$log" ;;
  SKIP) left_out "$1: $(grep -Ev '^(SKIP tests|==|runs: )' "$log" | head -n 1)" ;;
  *)
    failed=$((failed + ($3 > 1 ? $3 - 1 : 0)))
    failed_logs="$failed_logs $log"
    bad "$1"; tail -n 30 "$log" ;;
  esac
}

# What `make check-pairs` in FOLDER leaves, when it ended with CODE.
count() { # build folder, code
  failed_before=$failed
  [ -s "$1/tests/expected" ] || bad "$1: make wrote no list of tests"
  for test in $(cat "$1/tests/expected" 2> /dev/null); do
    count_test "$test" "$1/${test%.sh}"
  done
  ended "the tests in $1" "$2" "$failed_before"
}

# A code that no failure explains is one.
ended() { # what, code, failures counted before it
  [ "$2" = 0 ] || [ "$failed" != "$3" ] || bad "$1: make ended with code $2"
}

# The fuzzers' last line.
count_fuzzers() { # log, code
  failed_before=$failed
  set -- "$1" "$2" $(checks "$1")
  passed=$((passed + $3)); failed=$((failed + $4))
  [ "$5" = 1 ] && [ "$3" -gt 0 ] || bad "fuzzers: no total"
  ended fuzzers "$2" "$failed_before"
  if [ "$failed" = "$failed_before" ]; then grep '^== ' "$1"; else tail -n 30 "$1"; fi
}

# Sources of tests that this build left out, of GPUs mostly.
count_unbuilt() { # build folder, source folder
  for source in $(cd "$2" && { ls tests/*/test_*.c; grep -l '^ \* ranks: ' tests/*/*.c; } | sort -u); do
    grep -qxs "${source%.c}" "$1/tests/expected" || left_out "${source%.c}: not in this build"
  done
}

# So that whoever adds a test sees what all of them take.
took() { # what a line of the log begins with, build folder
  for test in $(cat "$2/tests/expected"); do
    sed -n "s|^$1 \([0-9]*\) s\$|\1 $(basename "$test")|p" "$2/${test%.sh}.log"
  done | sort -rn
}
slowest() { # build folder
  took CPU "$1" | awk '{ sum += $1 } NR <= 16 { text = text (NR > 1 ? ", " : "") $1 " s " $2 } END { print "CPU time of the tests: " sum " s, the most: " text }'
}

# Where only the end of all this is kept, it says why a test has failed.
totals() {
  for log in $(echo $failed_logs | cut -d ' ' -f -5); do echo "== the end of $log"; tail -n 30 "$log"; done
  [ "$passed" -gt 0 ] || [ "$failed" -gt 0 ] || bad "nothing has run"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ]
}
