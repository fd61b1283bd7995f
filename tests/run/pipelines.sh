#!/bin/sh
# pipelines.sh - whole runs of every pipeline beside base's: checkpoints bit
# for bit, stops with batches under way, data that ends early or is bad, losses
# that are no number.  seconds: 500
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
# 961 samples: ten batches and one sample, so that some ranks have none.
"$TESSERA" generate "$work/small.deck" --quiet --out "$work/data.h5" --set data.synthetic.samples=961
file="--set data.format=dataset --set data.train=$work/data.h5 --set data.eval=[]"
orders="sparse_dist prefetch before_optimizer-own after_optimizer-data_dist before_optimizer-compute"
options() { # the options of one of these
  case $1 in
  *-*) echo "--set pipeline.kind=fused_sparse_dist --set pipeline.lookup=${1%-*} --set pipeline.lookup_lane=${1#*-}" ;;
  *) echo "--set pipeline.kind=$1" ;;
  esac
}
same_losses() { # run, run, lines
  losses "$1" > "$work/x"; losses "$2" > "$work/y"
  [ "$(wc -l < "$work/x")" = "$3" ] && cmp "$work/x" "$work/y"
}
steps_of() { sed -n 's/.*"step":\([0-9]*\).*"loss".*/\1/p' "$work/$1/metrics.jsonl"; }
# code WANT command...: the exit code, and at most one message of an error.
code() {
  want=$1; shift
  "$@" > "$work/out" 2> "$work/err"; got=$?
  [ $got = "$want" ] && [ "$(grep -c 'tessera: error' "$work/err")" -le 1 ] && return
  echo "code $got, not $want:"; cat "$work/err"; return 1
}

# Over the end of the data; evaluation and checkpoints in between.
all="$file --set run.steps=0 --set run.epochs=2"
for n in 1 3 4; do
  check "base on $n" train $n base$n $all
  for order in $orders; do
    case $n-$order in
    1-before*own | 3-sparse_dist) also="--set run.eval_every=4 --set checkpoint.every=5 --set data.eval=$work/data.h5" ;;
    3-after*) also="--set optimizer.in_backward=false --set comm.delay.latency_us=200" ;;
    4-before*own | 4-prefetch) also="--set run.lanes=serial --set data.input=columns" ;;
    *) also= ;;
    esac
    check "$order on $n" train $n $order$n $all $(options $order) $also
    check "$order on $n: losses" same_losses base$n $order$n 22
    check "$order on $n: the same bits" same_bits "$(newest base$n)" "$(newest $order$n)"
  done
done

# Stopped in the middle, which a slow network makes long enough to hit.
slow="--set run.max_time=00:00:02 --set comm.delay.latency_us=500"
long="$file --set run.steps=400"
check "straight" train 2 straight $long
for order in base $orders; do
  check "$order is stopped" code 75 train 2 stop-$order $long $slow $(options $order)
  at=$(steps_of stop-$order | tail -n 1)
  check "in the middle: $at" test "$at" -gt 0 -a "$at" -lt 400
  check "$order goes on" train 2 stop-$order $long $(options $order)
  check "$order: no batch lost or trained twice" same_losses straight stop-$order 400
  check "$order: straight = stop + resume" same_bits "$(newest straight)" "$(newest stop-$order)"
done

# semi_sync goes on from a saved step as if it had not stopped.
semi="--set pipeline.kind=semi_sync --set pipeline.start_batch=7 --set checkpoint.every=10 --set checkpoint.keep=9"
for stash in "--set pipeline.stash_gradients=false" "--set pipeline.stash_gradients=true --set optimizer.in_backward=false"; do
  rm -rf "$work/semi" "$work/again"
  check "semi_sync" train 2 semi $file $semi $stash --set run.steps=40
  mkdir -p "$work/again/checkpoints"
  cp "$work"/semi/checkpoints/*20.h5 "$work/again/checkpoints"
  check "semi_sync goes on" train 2 again $file $semi $stash --set run.steps=40
  check "from step 20" test "$(steps_of again | head -n 1)" = 21
  losses semi | tail -n 20 > "$work/x"; losses again > "$work/y"
  check "semi_sync: losses" cmp "$work/x" "$work/y"
  check "semi_sync: straight = stop + resume" same_bits "$(newest semi)" "$(newest again)"
done
# Who saves nothing has the last step's gradients in its weights, too.
check "checkpoint at the end" train 2 last $semi $stash --set checkpoint.every=0 --set run.steps=12
check "no checkpoint" train 2 bare $semi $stash --set checkpoint.every=0 --set run.steps=12 --set checkpoint.dir=none
check "the same evaluation" test "$(tail -n 1 "$work/last/metrics.jsonl")" = "$(tail -n 1 "$work/bare/metrics.jsonl")"
check "semi_sync is not base" test "$(losses semi | tail -n 1)" != "$(losses straight | sed -n 40p)"
check "semi_sync is stopped" code 75 train 3 stop-semi $long $slow $semi

# A bad record in the sixth batch: five steps, one message, no hang.
{ echo label,x,y,z,fa,fb,fc,fd,fe,ff
  for i in $(seq 1 700); do
    if [ $i = 500 ]; then echo "1,x,$i"; else echo "$((i % 2)),1,2,$i,$i,$((i * 7)),$i,$i,$i,$i"; fi
  done; } > "$work/bad.csv"
csv="--set data.format=csv --set data.train=$work/bad.csv --set data.eval=[] --set data.csv.dense=[\"x\",\"y\",\"z\"] --set tables.e.weighted=false"
for order in base $orders semi_sync; do
  check "$order: a bad record" code 3 train 3 bad-$order $csv $(options $order) --set pipeline.start_batch=0
  check "$order names it" grep -q 'bad.csv:501' "$work/err"
  check "$order: five steps before it" test "$(steps_of bad-$order | tail -n 1)" = 5
  [ $order = semi_sync ] || check "$order: losses" same_losses bad-base bad-$order 5
done

# A loss that is no number: in the fifth batch an infinite value, which a
# model of one layer each hands on.
cp "$work/data.h5" "$work/nan.h5"
at=$(h5ls -va "$work/nan.h5/dense" | sed -n 's/.*Address: *\([0-9]*\).*/\1/p')
printf '\000\000\200\177' | dd of="$work/nan.h5" bs=4 seek=$((at + 450 * 3 * 4)) oflag=seek_bytes conv=notrunc 2> /dev/null
nan="--set model.dense_arch=[16] --set model.over_arch=[1] --set data.format=dataset --set data.train=$work/nan.h5 --set data.eval=[] --set run.steps=12 --set checkpoint.every=3"
for on in stop skip rollback; do
  want=0; lines=12
  [ $on = stop ] && want=3 lines=4
  for order in base sparse_dist prefetch before_optimizer-own semi_sync; do
    check "$order: $on" code $want train 3 nan-$on-$order $nan --set run.on_nan=$on $(options $order) --set pipeline.start_batch=2
    steps_of nan-$on-base > "$work/x"; steps_of nan-$on-$order > "$work/y"
    check "$order: $on at the same step" cmp "$work/x" "$work/y"
    [ $order = semi_sync ] && continue
    check "$order: $on: losses" same_losses nan-$on-base nan-$on-$order $lines
    check "$order: $on: the same bits" same_bits "$(newest nan-$on-base)" "$(newest nan-$on-$order)"
  done
done
passed
