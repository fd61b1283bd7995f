#!/bin/sh
# nan.sh - losses, gradients and weights that are not numbers, and records
# that can't be read: what each policy leaves is what a run without them has,
# bit for bit, on one rank and on two.  seconds: 400
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
. "$srcdir/tests/support/batches.sh"
data good.csv 1 2 3 4 6 7 8 9 10 11 12 13
data bad.csv 1 2 3 4 bad 6 7 8 9 10 11 12 13
data back.csv 1 2 3 6 7 8 9 10 11 12 13
data gone.csv 1 2 3 5 6 7 8 9 10 11 12 13
data whole.csv 1 2 3 4 5 6 7 8 9 10 11 12 13
data all.csv bad bad bad bad bad bad bad bad bad bad bad bad
said() { grep -q "$2" "$work/$1/log"; }
# fails CODE PATTERN command...: the code, one line of error, and what it says.
fails() {
  want=$1; pattern=$2; shift 2
  "$@" > "$work/out" 2> "$work/err"; code=$?
  [ $code = "$want" ] && grep -q "$pattern" "$work/err" || { echo "$*"; cat "$work/err"; }
  check "code $want, not $code" test $code = "$want"
  check "one message" test "$(grep -c 'tessera: error' "$work/err")" = 1
  check "that says \"$pattern\"" grep -q "$pattern" "$work/err"
}

host=$TESSERA
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
ids=
for table in a b c d e; do ids="$ids --set tables.$table.rows=dynamic --set tables.$table.capacity=60"; done
met="$ids --set table_defaults.admit.min_count=2"
for n in 1 2; do
  every="--set checkpoint.every=3"
  check "good on $n" train $n good$n $(csv good.csv)
  fails 3 'step 5: the loss is not a number' train $n stop$n $(csv bad.csv) $every
  check "the one from before stays on $n" test "$(basename "$(newest stop$n)")" = step-00000003.h5
  check "skip on $n" train $n skip$n $(csv bad.csv) --set run.on_nan=skip
  check "as if the batch were not there, on $n" same_bits "$(newest good$n)" "$(newest skip$n)"
  check "ten steps all the same" test "$(losses skip$n | wc -l)" = 10
  check "at once" said skip$n 'step 5: the loss is not finite; the batch is left out'
  check "counted" said skip$n 'NOTE: 1 steps were left out'
  check "in the metrics, too" grep -q '"step":10,.*"skipped":1' "$work/skip$n/metrics.jsonl"

  # Nor are its ids, also of a step in parts.
  parts="$met --set run.accumulate=2 --set pipeline.kind=prefetch"
  slow="$parts --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.3"
  for of in ids met parts slow; do
    eval "set=\$$of"
    check "good $of on $n" train $n good$of$n $(csv good.csv) $set
    check "skip $of on $n" train $n skip$of$n $(csv bad.csv) $set --set run.on_nan=skip
    check "as if the batch's $of were not there, on $n" same_bits "$(newest good$of$n)" "$(newest skip$of$n)"
    check "none of its $of, on $n" h5diff -q "$(newest good$of$n)" "$(newest skip$of$n)" /dynamic /dynamic
  done

  # Step 5 is bad: back to step 3, whose next batch is then the sixth.
  check "as without batches 4 and 5, on $n" train $n without$n $(csv back.csv)
  check "rollback on $n" train $n back$n $(csv bad.csv) $every --set run.on_nan=rollback
  check "the same bits on $n" same_bits "$(newest without$n)" "$(newest back$n)"
  check "each step once in the metrics" test "$(losses back$n | wc -l)" = 10
  # Nor on a device of discrete memory.
  if [ -x "$emulated" ]; then
    TESSERA=$emulated
    there="$parts --set run.backend=emulated"
    check "good there, on $n" train $n goodthere$n $(csv good.csv) $there
    check "skip there, on $n" train $n skipthere$n $(csv bad.csv) $there --set run.on_nan=skip
    check "as if the batch were not there, on $n" same_bits "$(newest goodthere$n)" "$(newest skipthere$n)"
    check "without batches 4 and 5 there, on $n" train $n withoutthere$n $(csv back.csv) $there
    check "rollback there, on $n" train $n backthere$n $(csv bad.csv) $there $every --set run.on_nan=rollback
    check "the same bits there, on $n" same_bits "$(newest withoutthere$n)" "$(newest backthere$n)"
    TESSERA=$host
  fi

  # Batches that were sent ahead have rows of ids that are gone.
  check "the same of ids, on $n" train $n withoutids$n $(csv back.csv) $ids
  check "rollback of ids on $n" train $n backids$n $(csv bad.csv) $every $ids --set run.on_nan=rollback
  check "the same bits of ids on $n" same_bits "$(newest withoutids$n)" "$(newest backids$n)"
  # What was met in batches 4 and 5 counts no more.
  check "the same of sights, on $n" train $n withoutmet$n $(csv back.csv) $met
  check "rollback of sights on $n" train $n backmet$n $(csv bad.csv) $every $met --set run.on_nan=rollback
  check "the same bits of sights on $n" same_bits "$(newest withoutmet$n)" "$(newest backmet$n)"
  check "as many sights on $n" h5diff -q "$(newest withoutmet$n)" "$(newest backmet$n)" /dynamic /dynamic
  check "it says so" said back$n 'weights and optimizers are back at step 3'

  # An infinite gradient under a finite loss: step 5, on the last rank.
  for policy in skip rollback; do
    TESSERA_FAULT=gradient:$((n - 1)):5; export TESSERA_FAULT
    for kind in sparse_dist fused_sparse_dist; do
      check "gradient, $policy on $n" train $n $policy-$kind$n $(csv whole.csv) $every --set run.on_nan=$policy --set pipeline.kind=$kind
      check "$kind, $policy: back on $n" same_bits "$(newest without$n)" "$(newest $policy-$kind$n)"
    done
    unset TESSERA_FAULT
  done
  check "of which it tells" said skip-sparse_dist$n 'gradients or parameters are not finite'
  TESSERA_FAULT=gradient:$((n - 1)):5; export TESSERA_FAULT
  fails 3 'no checkpoint to go back to' train $n nowhere$n $(csv whole.csv) --set run.on_nan=skip
  # With "stop" it is met when a checkpoint is written, or as a loss.
  fails 3 'not numbers\|not a number' train $n spoilt$n $(csv whole.csv) $every
  unset TESSERA_FAULT
  check "no bad checkpoint on $n" test "$(basename "$(newest spoilt$n)")" = step-00000003.h5

  # No end is one, too.
  fails 3 'run.max_skips = 4' train $n all$n $(csv all.csv) --set run.on_nan=skip --set run.max_skips=4
  check "three steps" train $n rolls$n $(csv good.csv) --set run.steps=3
  fails 3 'run.max_skips = 4' train $n rolls$n $(csv all.csv) --set run.on_nan=rollback --set run.max_skips=4
done

# Records.
{ echo $head; batch 1 ""; echo "1,0.1,abc,0.5,1,1,1,1,1,1"; echo "1,0.1"; batch 2 ""; batch 3 ""; batch 4 ""; } > "$work/lines.csv"
lines="$(csv lines.csv) --set run.steps=4"
for n in 1 2; do
  fails 3 'lines.csv:10: ' train $n r$n $lines
  check "skip on $n" train $n r$n $lines --set data.on_bad_record=skip
  check "counted on $n" said r$n 'NOTE: 2 bad records were skipped'
  check "in the metrics on $n" grep -q '"step":4,.*"bad_records":2' "$work/r$n/metrics.jsonl"
  fails 3 'lines.csv:11: .*data.max_bad' train 1 m$n $lines --set data.on_bad_record=skip --set data.max_bad=1
done
passed
