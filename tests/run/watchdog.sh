#!/bin/sh
# watchdog.sh - a run that hangs ends with code 5 and one message for the
# whole job, which names the rank to blame; one that is only slow or suspended
# goes on.  seconds: 400
. "$srcdir/tests/support/common.sh"
command -v pgrep > /dev/null || { echo "pgrep (procps) is not here"; exit 77; }
not_sanitized
long="--set run.steps=2000 --set run.log_every=1000 --set checkpoint.every=20 --set data.synthetic.eval_samples=1"
quick="--set run.deadlines.step_s=3 --set run.deadlines.save_s=4"

# hangs PATTERN: code 5 of the run, one message, what it says, and no more
# than one line per rank and lane in it.
hangs() {
  [ $code = 5 ] && [ "$(grep -c 'tessera: error' "$work/err")" = 1 ] || cat "$work/err"
  check "$1: code 5, not $code" test $code = 5
  check "one message" test "$(grep -c 'tessera: error' "$work/err")" = 1
  check "it says: $1" grep -Eq "$1" "$work/err"
  check "a line for each rank" test "$(grep -Ec '^  rank [0-3] on .*: ' "$work/err")" = 4
  [ "${2-}" = mute ] || check "collectives of each lane" grep -q 'control: [^ ]* [0-9].*input dist: exchange [0-9]' "$work/err"
}
begin() { # FOLDER options: in the background, until the first checkpoint
  folder=$1; shift
  ${MPIRUN:-mpirun} -q -n 4 "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/$folder" $long "$@" > "$work/out" 2> "$work/err" & pid=$!
  until_holds $pid saved "$folder" && return
  cat "$work/err"; check "$folder got under way" false
}
rank_pid() { pgrep -P $pid | sort -n | sed -n "$(($1 + 1))p"; } # of rank or another, any will do
finish() { wait $pid; code=$?; }

begin stopped $quick
kill -STOP "$(rank_pid 2)"
finish
# The steps' deadline or, in the middle of a save, the save's.
hangs 'no progress for [0-9]* s in (section (step|save) of|the checkpoint that rank [0-3] on [^ ]* writes beside) step [0-9]* .*: rank [0-3] on .* does not run'
grep -Eq ', not run for [0-9]+ s; last' "$work/err"; check "how long it did not run" test $? = 0

# Two nodes of two ranks: one asks the other.
begin nodes $quick --set sharding.ranks_per_node=2
kill -STOP "$(rank_pid 3)"
finish
hangs 'rank [0-3] on .* does not run'

begin overdue --set comm.timeout_s=15 --set run.deadline_s=300
kill -STOP "$(rank_pid 1)"
finish
hangs 'number [0-9]* of .* was not done within 15 s .comm.timeout_s'

# The whole job suspended for longer than the deadline, as queues do.
# Steps are slow enough that none ends before the watchdog looks.
begin suspended --set run.deadlines.step_s=3 --set run.deadlines.save_s=30 --set comm.delay.latency_us=60000 --set run.steps=6 --set checkpoint.every=2
all=$(pgrep -P $pid)
kill -STOP $all; sleep 6; kill -CONT $all
finish
cat "$work/err"
check "a suspended job goes on, code $code" test $code = 0

needs_faults
faulty() { # FAULT options
  fault=$1; shift
  TESSERA_FAULT=$fault train 4 "$(echo "$fault" | tr : -)" "$@" > "$work/out" 2> "$work/err"; code=$?
}
faulty leave:3:5 $quick
hangs 'rank 3 on .* has ended while others wait for it'
# Ids are what others wait for first where none travel ahead.
faulty pause:2:5 $quick --set pipeline.kind=base
hangs 'section step of step 5 .deadline 3 s, from the deck.: rank 2 on .* has not begun number [0-9]* of "input dist"'
faulty stall:1:9 $quick
hangs 'rank 1 on .* waits for its input data'
check "its section" grep -q 'rank 1 on .*: section input since' "$work/err"
# A disk that doesn't answer while the first batch is read, on all ranks.
faulty stall:0:1,stall:1:1,stall:2:1,stall:3:1 --set run.deadlines.input_s=3
hangs 'section input of step 1 .deadline 3 s' mute
passed
