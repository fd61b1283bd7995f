#!/bin/sh
# bench_step.sh - the benchmark of steps: one alone after the other, and those
# of a pipeline; its line has the ids' law, its table the cross layers' bytes.
# seconds: 100
. "$srcdir/tests/support/common.sh"
bench() { # ranks, options
  n=$1; shift
  ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" bench step "$work/small.deck" iters=8 "$@" > "$work/out" 2> "$work/err"
}
has() { grep -qE "$1" "$work/out"; }
loss() { sed -n 's/^bench step: .*loss \([0-9.]*\);.*/\1/p' "$work/out"; }

check "steps alone" bench 1
check "their line" has '^bench step: 1 ranks, .*batch 96: median .* samples/s; loss 0\.[0-9]*; ids zipf 1\.05, 12 a sample$'
check "products run again" has '^products: '
alone=$(loss)
for n in 1 2; do
  check "the deck's pipeline on $n" bench $n pipeline=1 --set pipeline.kind=sparse_dist
  check "its line on $n" has "^bench step: $n ranks, .*batch 96: pipeline sparse_dist: [0-9.]* ms a step, median .* samples/s; loss .*zipf"
  check "products don't run again" test "$(grep -c '^products: ' "$work/out")" = 0
  check "phases" has '^fused backward  '
done
check "base as a pipeline" bench 1 pipeline=base
check "is base" has 'pipeline base: '
check "with the losses of steps alone" test "$alone" = "$(loss)"
check "semi_sync, which begins at once" bench 1 pipeline=semi_sync --set optimizer.in_backward=false
check "so its losses are its own" test "$alone" != "$(loss)"
bench 1 pipeline=sparse_dust; check "no such pipeline is code 2" test $? = 2
check "it is named" grep -q 'no pipeline "sparse_dust"' "$work/err"

# Rows of 16 + 6 x 16 = 112 floats, 96 samples, 3 layers: 44 and 100 bytes an
# element (tests/model/test_bench_model.c).
check "dcnv2" bench 1 --set model.kind=dcnv2 --set model.dcn.rank=8 --set data.global_batch=9600 --set data.synthetic.samples=10000
for line in 'concatenate +[0-9.]+ +[0-9.]+% +0\.0086 ' 'concatenate backward +[0-9.]+ +[0-9.]+% +0\.0086 ' \
  'cross +[0-9.]+ +[0-9.]+% +0\.0473 ' 'cross backward +[0-9.]+ +[0-9.]+% +0\.1075 '; do
  check "bytes of $line" has "^$line"
done
check "ids of a file" "$TESSERA" generate "$work/small.deck" --quiet --out "$work/data.h5"
check "bench of it" bench 1 --set data.format=dataset --set "data.train=$work/data.h5"
check "says so" has '; ids of the data$'
passed
