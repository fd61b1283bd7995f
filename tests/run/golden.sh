#!/bin/sh
# golden.sh - the first 20 losses of a small run are those that were kept in
# tests/run/golden_losses.txt: 1e-4 relative, for any CPU and library.
# After a change that is meant to alter them: golden.sh --write.  seconds: 400
. "$srcdir/tests/support/common.sh"
f32="--set tables.c.dtype=f32 --set tables.d.dtype=f32 --set optimizer.kind=adagrad --set tables.b.optimizer.kind=rowwise_adagrad --set tables.e.optimizer.kind=sgd"
check "run" train 2 golden $f32 --set run.steps=20
[ "${1:-}" = --write ] && losses golden > "$srcdir/tests/run/golden_losses.txt"
mkdir -p "$work/kept"
sed 's/\(.*\)/{"step":1,"loss":\1}/' "$srcdir/tests/run/golden_losses.txt" > "$work/kept/metrics.jsonl"
check "losses are the kept ones" close_losses golden kept 1e-4 20
passed
