#!/bin/sh
# sweep_kill.sh - kill -9 at random moments of training, saving and starting,
# of all ranks and of one: no checkpoint is ever damaged, the same line goes on
# from the newest, nothing is left over, and in the end the run has the bits of
# one that was left alone.  6 kills; TESSERA_KILLS=N others, 200 with
# TESSERA_SWEEP=long.  TESSERA_SEED chooses the moments.  seconds: 600
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
command -v pgrep > /dev/null || { echo "pgrep (procps) is not here"; exit 77; }
n=6
[ "${TESSERA_SWEEP-}" = long ] && n=200
n=${TESSERA_KILLS:-$n}
seed=${TESSERA_SEED:-$$}
echo "$n kills, seed $seed"
line="--set run.log_every=2 --set checkpoint.every=2 --set checkpoint.keep=2 --set data.synthetic.eval_samples=1"
log=$work/run/log
mkdir -p "$work/run"
step_of() { s=${1##*step-}; expr "${s%.h5}" + 0; }

# Moments: after the launch, or after the first step (1) with a new line; of
# one rank, or of all.
awk -v seed="$seed" -v n="$n" 'BEGIN { srand(seed)
  for (i = 0; i < n; i++) print (rand() < 0.75), rand() * 0.5, int(rand() * 3) }' > "$work/moments"
tally() { echo "$round kills (one rank alone in $n_alone, $n_early before a step, $n_saving while a file was being written): 0 damaged checkpoints, $n_resumed starts that went on"; }
n_saving=0; n_alone=0; n_resumed=0; n_early=0; round=0
while read -r trained delay victims <&3; do
  round=$((round + 1))
  before=$(newest run)
  : > "$log"
  ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/run" --set run.steps=1000000 $line > "$work/out" 2> "$work/err" 3<&- & pid=$!
  if [ "$trained" = 1 ]; then
    until_holds $pid grep -q '^step' "$log"
  else
    delay=$(echo "$delay" | awk '{ print 4 * $1 }')
  fi
  sleep "$delay"
  has_ranks() { ranks=$(pgrep -P $pid); [ "$(echo "$ranks" | wc -w)" = 2 ]; }
  until_holds $pid has_ranks
  [ "$victims" = 0 ] && ranks=$(echo "$ranks" | sed -n "$((round % 2 + 1))p") && n_alone=$((n_alone + 1))
  kill -9 $ranks 2> /dev/null
  wait $pid 2> /dev/null; code=$?
  check "round $round: killed, not $code" test "$code" = 137
  for file in "$work"/run/checkpoints/step-*.h5; do
    [ -f "$file" ] || continue
    check "round $round: $file is whole" sh -c "'$TESSERA' inspect '$file' --verify > '$work/inspected'"
  done
  ls "$work"/run/checkpoints/.step*.part > /dev/null 2>&1 && n_saving=$((n_saving + 1))
  if grep -q '^step' "$log"; then
    resumed=$(sed -n 's/^resumed at step \([0-9]*\) .*/\1/p' "$log")
    [ -z "$before" ] || check "round $round: resumed at $before, not $resumed" test "$resumed" = "$(step_of "$before")"
    n_resumed=$((n_resumed + 1))
  else
    n_early=$((n_early + 1))
  fi
  [ $((round % 20)) != 0 ] || tally
done 3< "$work/moments"
check "all rounds" test $round = "$n"
steps=$(($(step_of "$(newest run)") + 10))
check "the run ends" train 2 run --set run.steps=$steps $line
check "straight run" train 2 straight --set run.steps=$steps --set run.log_every=1000 --set data.synthetic.eval_samples=1
check "straight = killed and resumed" same_bits "$(newest straight)" "$(newest run)"
check "no temporary file stays" test -z "$(ls "$work"/run/checkpoints/.step* 2> /dev/null)"
check "no step is logged twice" test "$(losses run | wc -l)" = $((steps / 2))
tally
echo "$steps steps in all"
passed
