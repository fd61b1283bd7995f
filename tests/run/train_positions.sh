#!/bin/sh
# train_positions.sh - weights per position: a straight run equals stop and
# resume bit for bit, lanes and weights that stand still change nothing,
# shardings agree; evaluation, prediction and init_from know them.
# seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
on='feature_processor={kind="position_weighted";max_length'
sed "s/name = \"b\";/name = \"b\"; $on=2;};/; s/name = \"d\";/name = \"d\"; $on=9;};/" "$work/small.deck" > "$work/x.deck"
mv "$work/small.deck" "$work/plain.deck"; mv "$work/x.deck" "$work/small.deck"
weight=/model/sparse_arch.feature_processor.position_weight
has() { h5dump -H -d "$2" "$1" > /dev/null 2>&1; }
run() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
for n in 1 3; do
  check "straight run on $n" train $n straight$n
  check "first half on $n" train $n half$n --set run.steps=17
  check "second half on $n" train $n half$n
  check "straight = stop + resume on $n ranks" same_bits "$(newest straight$n)" "$(newest half$n)"
  check "serial lanes on $n" train $n serial$n --set run.lanes=serial
  check "lanes don't change bits on $n ranks" same_bits "$(newest straight$n)" "$(newest serial$n)"
done
for f in fb fc fe; do check "weights of $f" has "$(newest straight1)" $weight.$f; done
check "no weights of fa" sh -c "! h5dump -H -d $weight.fa '$(newest straight1)' > /dev/null 2>&1"
check "optimizer state of fc" has "$(newest straight1)" /optim/sparse_arch.feature_processor.position_weight.fc/exp_avg
# Weights that stay 1 are no weights.
still='optimizer.overrides=({match="*position_weight*";lr=0.0;})'
check "weights that stand still" train 2 still --set "$still"
mv "$work/small.deck" "$work/x.deck"; cp "$work/plain.deck" "$work/small.deck"
check "no weights" train 2 plain
mv "$work/x.deck" "$work/small.deck"
check "weights of 1 change nothing" h5diff -q "$(newest still)" "$(newest plain)" /model/sparse_arch.embedding_bag_collection.embedding_bags.b.weight
check "nor does the rest" h5diff -q "$(newest still)" "$(newest plain)" /model/over_arch.model.1.weight
check "weights that move do" sh -c "! h5diff -q '$(newest straight3)' '$(newest plain)' /model/over_arch.model.1.weight > /dev/null"
f32="--set tables.c.dtype=f32 --set tables.d.dtype=f32 --set optimizer.kind=adagrad --set tables.b.optimizer.kind=rowwise_adagrad --set tables.e.optimizer.kind=sgd"
check "f32 on 1" train 1 f1 $f32
for kind in table_wise row_wise column_wise data_parallel; do
  check "$kind" train 3 $kind $f32 --set table_defaults.sharding=$kind
  check "$kind agrees" close_losses f1 $kind 1e-6 20
done
check "optimizers after backward" train 3 early $f32 --set optimizer.in_backward=false --set table_defaults.sharding=row_wise
check "it agrees" close_losses f1 early 1e-6 20
for kind in sparse_dist prefetch; do
  check "$kind" train 3 $kind --set pipeline.kind=$kind
  check "$kind changes no bits" same_bits "$(newest straight3)" "$(newest $kind)"
done
semi="--set pipeline.kind=semi_sync --set checkpoint.every=17"
check "semi_sync" train 3 semi $semi
check "first half of it" train 3 semi_half $semi --set run.steps=17
check "second half of it" train 3 semi_half $semi
check "semi_sync stops and goes on" same_bits "$(newest semi)" "$(newest semi_half)"
check "fused_sparse_dist is refused" sh -c "! ${MPIRUN:-mpirun} -q -n 2 '$TESSERA' train '$work/small.deck' --quiet --set run.output='$work/fused' --set pipeline.kind=fused_sparse_dist 2> '$work/err' && [ \$(grep -c 'take sparse_dist for tables' '$work/err') = 1 ]"
check "clipping" train 2 clip $f32 --set optimizer.clip_norm=0.05
for n in 1 4; do
  check "predict on $n" run $n predict "$work/small.deck" --quiet --out "$work/p$n.h5" --set run.output="$work/straight1"
done
check "predictions don't depend on ranks" h5diff -q -d 1e-6 "$work/p1.h5" "$work/p4.h5"
check "eval" sh -c "'$TESSERA' eval '$work/small.deck' --set run.output='$work/straight1' 2>&1 | grep -q AUC"
check "weights from a file" train 2 from --set run.steps=1 --set "checkpoint.init_from=$(newest straight1)" --set "$still"
for f in fb fc fe; do check "those of $f" h5diff -q "$(newest from)" "$(newest straight1)" $weight.$f; done
check "a file without them" train 2 without --set run.steps=1 --set "checkpoint.init_from=$(newest plain)"
passed
