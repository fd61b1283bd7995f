#!/bin/sh
# train_stop.sh - signals and time limits: nothing is lost.
# seconds: 400
. "$srcdir/tests/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
long="--set run.steps=300 --set run.log_every=100 --set checkpoint.every=10"
# Waits instead of work make a step last: they change no bits.
slow="--set comm.delay.latency_us=2000"
check "straight run" train 2 straight $long

# stop SIGNAL: starts a run, waits for its first checkpoint, sends, waits.
stop() {
  train 2 "$2" $long $slow > "$work/out" 2>&1 & pid=$!
  for i in $(seq 1 200); do [ -n "$(newest "$2")" ] && break; sleep 0.1; done
  pkill "-$1" -f "^$TESSERA train $work/small.deck --quiet --set run.output=$work/$2 "
  wait $pid; code=$?
}
for signal in USR1 TERM; do
  stop $signal s$signal
  check "$signal ends with 75, not $code" test $code = 75
  check "going on after $signal" train 2 s$signal $long
  check "$signal: straight = stop + resume" same_bits "$(newest straight)" "$(newest s$signal)"
done
# A second signal while a step of some seconds is under way.
train 2 twice $long --set run.log_every=1 --set comm.delay.latency_us=150000 > "$work/out" 2> "$work/err" & pid=$!
for i in $(seq 1 600); do grep -q '^step' "$work/twice/log" 2> /dev/null && break; sleep 0.1; done
for i in 1 2; do pkill -TERM -f "^$TESSERA train $work/small.deck --quiet --set run.output=$work/twice "; sleep 0.2; done
wait $pid; code=$?
check "a second signal ends at once with 75, not $code" test $code = 75
check "it says so" grep -q 'stopped at once by a second signal' "$work/err"
check "no checkpoint was made for it" test -z "$(newest twice)"
train 2 timed $long --set run.steps=10000000 --set run.max_time=00:00:02 > "$work/out" 2>&1; code=$?
check "max_time ends with 75, not $code" test $code = 75
passed
