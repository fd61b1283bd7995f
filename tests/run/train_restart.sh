#!/bin/sh
# train_restart.sh - a straight run equals stop and resume bit for bit; other
# ranks and shardings agree; lanes don't matter.  seconds: 400
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
# What metrics.jsonl says of each step and of the last evaluation, but for times.
figures() {
  sed -n '/"loss"/s/,"samples_per_s":[^,}]*//p' "$work/$1/metrics.jsonl"
  grep '"eval":true' "$work/$1/metrics.jsonl" | tail -n 1
}
same_figures() { # run, run, lines
  figures "$1" > "$work/x"; figures "$2" > "$work/y"
  [ "$(wc -l < "$work/x")" = "$3" ] && cmp "$work/x" "$work/y"
}
window="--set metrics.window=1000" # about eleven steps
for n in 1 2 4; do
  check "straight run on $n" train $n straight$n $window
  check "first half on $n" train $n half$n $window --set run.steps=17
  check "second half on $n" train $n half$n $window
  check "straight = stop + resume on $n ranks" same_bits "$(newest straight$n)" "$(newest half$n)"
  check "and so do its figures" same_figures straight$n half$n 41
  check "in the checkpoint, too" h5diff -q "$(newest straight$n)" "$(newest half$n)" /metrics /metrics
  check "no step is logged twice" test "$(losses half$n | wc -l)" = 40
  check "again on $n" train $n again$n
  check "a run repeats on $n ranks" same_bits "$(newest straight$n)" "$(newest again$n)"
  check "serial lanes on $n" train $n serial$n --set run.lanes=serial
  check "lanes don't change bits on $n ranks" same_bits "$(newest straight$n)" "$(newest serial$n)"
done
# Steps between two lines that are more than a rank keeps apart.
long="--set run.steps=1100 --set metrics.window=2000"
check "a line at the end" train 2 rare $long --set run.log_every=1100
check "a line now and then" train 2 often $long --set run.log_every=100
figures rare > "$work/x"; figures often | tail -n 2 > "$work/y"
check "say the same" cmp "$work/x" "$work/y"
# What was measured at the start holds for those that go on.
for steps in 2 4; do
  check "measured, to step $steps" train 2 measured --set run.steps=$steps --set sharding.topology=measure
  h5dump -d /meta/topology "$(newest measured)" | tail -n +2 > "$work/topology$steps"
done
check "the same figures" cmp "$work/topology2" "$work/topology4"
# Other sums of the same numbers: f32 tables, since a 16-bit row that is
# rounded the other way once is another row.
f32="--set tables.c.dtype=f32 --set tables.d.dtype=f32 --set optimizer.kind=adagrad --set tables.b.optimizer.kind=rowwise_adagrad --set tables.e.optimizer.kind=sgd"
check "f32 on 1" train 1 f1 $f32
for n in 2 4; do
  check "f32 on $n" train $n f$n $f32
  check "1 and $n ranks agree" close_losses f1 f$n 1e-6 20
done
for kind in table_wise row_wise data_parallel; do
  check "$kind" train 3 $kind $f32 --set table_defaults.sharding=$kind
  check "$kind agrees" close_losses f1 $kind 1e-6 20
done
check "first part on 2" train 2 moved $f32 --set run.steps=10
check "second part on 4" train 4 moved $f32
check "resharded run agrees" close_losses f1 moved 1e-6 20
check "batch smaller than ranks" train 4 tiny --set data.global_batch=3 --set run.steps=5
passed
