#!/bin/sh
# validation.sh - validations while training: the best step is kept and gone
# back to, patience ends the run, the rates fall on a plateau; a run that was
# stopped in between decides as a straight one, on any ranks.  seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
# Rates at which the small data is soon known by heart.
f32="--set tables.c.dtype=f32 --set tables.d.dtype=f32"
valid="$f32 --set run.valid_every=4 --set run.steps=80 --set optimizer.lr=0.05 --set checkpoint.every=10"
stop="$valid --set run.stop.patience=3 --set run.stop.metric=logloss"
value() { sed -n "s/.*\"valid\":true.*\"$2\":\([^,}]*\).*/\1/p" "$work/$1/metrics.jsonl"; }
steps() { sed -n 's/.*"step":\([0-9]*\),"valid":true.*/\1/p' "$work/$1/metrics.jsonl"; }
# The step of the least value of column 2.
least() { steps "$1" > "$work/s"; value "$1" logloss > "$work/v"; paste "$work/s" "$work/v" | sort -g -k2 -s | head -n 1 | cut -f1; }
last() { steps "$1" | tail -n 1; }
number() { h5dump -a "/loader/$2" "$1" 2> /dev/null | grep '(0)' | sed 's/.*(0): //'; }

check "straight run" train 2 straight $stop
check "it ends early" test "$(last straight)" -lt 80
check "three validations after the best" test "$(($(least straight) + 12))" = "$(last straight)"
check "best.h5 is there" test -f "$work/straight/checkpoints/best.h5"
check "the last checkpoint is of the last step" test "$(newest straight)" = "$(printf '%s/straight/checkpoints/step-%08d.h5' "$work" "$(last straight)")"
check "and has the best one's weights" h5diff -q "$(newest straight)" "$work/straight/checkpoints/best.h5" /model /model
grep '"eval":true' "$work/straight/metrics.jsonl" > "$work/eval"
check "evaluated with them" "$TESSERA" eval "$work/small.deck" $stop --set run.output="$work/straight" --checkpoint "$work/straight/checkpoints/best.h5"
check "again: nothing to do" train 2 straight $stop
check "no validation is logged twice" test "$(steps straight | sort | uniq -d)" = ""
check "says why" grep -q "the run has ended, no validation was better than that of step $(least straight)" "$work/straight/log"

# Stopped at any step, also at one whose validation is yet to come.
for at in 4 9 12; do
  check "to step $at" train 2 half$at $stop --set run.steps=$at --set run.stop.restore=last
  check "and on" train 2 half$at $stop
  check "as the straight run, from $at" same_bits "$(newest straight)" "$(newest half$at)"
  check "the same best step from $at" same_bits "$work/straight/checkpoints/best.h5" "$work/half$at/checkpoints/best.h5"
done
check "on 1" train 1 one $stop
check "and on 4" train 4 one $stop
check "more ranks stop at the same step" test "$(last one)" = "$(last straight)"

check "weights of the last step stay" train 2 last $stop --set run.stop.restore=last
check "no best.h5 unasked" test ! -e "$work/last/checkpoints/best.h5"
check "others than the best" sh -c "! h5diff -q '$(newest last)' '$work/straight/checkpoints/best.h5' /model /model"
check "patience, more of it" train 2 straight $stop --set run.stop.patience=5
check "goes on" test "$(last straight)" -gt "$(last last)"

check "plateau" train 2 plateau $valid --set run.stop.metric=logloss --set optimizer.schedule.kind=plateau --set optimizer.schedule.power=0.5 --set optimizer.schedule.patience=2 --set optimizer.schedule.floor=0.2
rate() { sed -n 's/.*"lr_factor":\([^,}]*\).*/\1/p' "$work/plateau/metrics.jsonl" | sort -gr | uniq | tr '\n' ' '; }
check "the rates halve down to the floor" test "$(rate)" = "1 0.5 0.25 0.2 "
check "plateau, half" train 2 flat $valid --set run.stop.metric=logloss --set optimizer.schedule.kind=plateau --set optimizer.schedule.power=0.5 --set optimizer.schedule.patience=2 --set optimizer.schedule.floor=0.2 --set run.steps=33
check "plateau, on" train 2 flat $valid --set run.stop.metric=logloss --set optimizer.schedule.kind=plateau --set optimizer.schedule.power=0.5 --set optimizer.schedule.patience=2 --set optimizer.schedule.floor=0.2
check "restarts exactly" same_bits "$(newest plateau)" "$(newest flat)"

refused() { # TEXT OPTIONS...
  text=$1; shift
  if "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/bad" "$@" 2> "$work/err"; then return 1; fi
  grep -q "$text" "$work/err" || { cat "$work/err"; return 1; }
}
check "patience without validations" refused "run.stop.patience goes by validations: give run.valid_every" --set run.stop.patience=3
check "best without validations" refused "checkpoint.best goes by validations" --set checkpoint.best=true
check "nowhere to keep it" refused 'run.stop.restore = "best" needs checkpoint.dir' $stop --set checkpoint.dir=none
check "files that nothing looks at" refused "data.valid is never looked at" --set data.valid=x.csv
check "no such task" refused 'there is no task "clicks"' $stop --set run.stop.task=clicks
check "a plateau's factor" refused "under 1" $valid --set optimizer.schedule.kind=plateau

# Validation samples out of data.train, and a share of the negatives.
part="$f32 --set data.split.valid=0.2 --set run.valid_every=6 --set data.shuffle=full --set data.negatives=0.5"
check "a split" train 2 part $part --set run.steps=24
check "on 4 ranks" train 4 part4 $part --set run.steps=24
samples() { sed -n 's/.*"valid":true.*"samples":\([0-9]*\).*/\1/p' "$work/$1/metrics.jsonl" | sort -u; }
check "a fifth" test "$(samples part)" -gt 150 -a "$(samples part)" -lt 250
check "the same one" test "$(samples part4)" = "$(samples part)"
value part logloss > "$work/x"; value part4 logloss > "$work/y"
check "looked at four times, and alike" sh -c "paste '$work/x' '$work/y' | awk '{ d = \$1 / \$2 - 1; n++; if (d * d > 1e-8) exit 1 } END { exit n != 4 }'"
check "said" grep -q "data.split: $(samples part) more samples are for validation, by \"hash\"" "$work/part/log"
check "in halves" train 2 halves $part --set run.steps=11
check "goes on" train 1 halves $part --set run.steps=24
check "as in one" close_losses part halves 1e-5 24
other() { # TEXT OPTIONS...
  text=$1; shift
  train 2 halves $part --set run.steps=30 "$@" 2> "$work/err"
  [ $? = 4 ] && grep -q "$text" "$work/err" && grep -q "go on with that value, or start anew" "$work/err" || { cat "$work/err"; return 1; }
}
check "another share" other "data.split.valid was 0.2, the deck has 0.1: " --set data.split.valid=0.1
check "another way" other 'data.split.by was hash, the deck has tail: ' --set data.split.by=tail
check "another share of negatives" other "data.negatives was 0.5, the deck has 1: " --set data.negatives=1
check "another seed" other "run.seed was 11, the deck has 12: " --set run.seed=12
check "none" other "data.split.valid was 0.2, the deck has 0: " --set data.split.valid=0 --set run.valid_every=0

# The odds are five times too high for a model that sees a fifth of the negatives.
few="$f32 --set data.synthetic.samples=100000 --set data.synthetic.eval_samples=4000 --set data.global_batch=400 --set optimizer.lr=0.002"
calibration() { sed -n 's/.*"eval":true.*"calibration":\([^,}]*\).*/\1/p' "$work/$1/metrics.jsonl" | tail -n 1; }
between() { awk -v x="$1" -v a="$2" -v b="$3" 'BEGIN { exit !(x > a && x < b) }'; }
check "few negatives" train 2 few $few --set run.steps=140 --set data.negatives=0.2
check "calibrated" between "$(calibration few)" 0.95 1.05
check "the same weights, uncorrected" train 2 bare $few --set run.steps=1 --set checkpoint.init_from="$(newest few)"
check "predict too much" between "$(calibration bare)" 1.3 2
check "eval, whatever the deck says" "$TESSERA" eval "$work/small.deck" $few --set run.output="$work/few" > "$work/out"
check "is corrected, too" between "$(sed -n 's/.*evaluation.*calibration //p' "$work/out")" 0.95 1.05
check "and says why" grep -q "NOTE: the deck has data.negatives = 1, the checkpoint was trained with 0.2" "$work/out"
passed
