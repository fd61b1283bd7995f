#!/bin/sh
# bench_pipeline.sh - the benchmark of pipelines has a row for each, and those
# that promise base's losses have them bit for bit; SparseNN with tables of
# several dims, on one rank as on two.  seconds: 400
. "$srcdir/tests/support/common.sh"
dims='tables.a.dim=4 tables.b.dim=20 tables.e.dim=7'
sparsenn() { # command...
  for d in $dims; do set -- "$@" --set "$d"; done
  "$@" --set model.kind=sparsenn --set model.dense_arch=[8,5]
}
bench() { # ranks, options
  n=$1; shift
  sparsenn ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" bench pipeline "$work/small.deck" scale=0.5 steps=6 warm=2 rounds=2 --out "$work/json" "$@" > "$work/out"
}
# Rows whose last word is $1: how many.
rows() { grep -cE "^(base|[a-z_]*_dist|semi_sync|prefetch).* $1\$" "$work/out"; }
base_like() { [ "$(rows "base's")" = 18 ] && [ "$(rows 'its own')" = 3 ] && grep -q '^semi_sync.* its own$' "$work/out"; }
for n in 1 2 3; do
  check "bench pipeline on $n" bench "$n"
  check "rows and losses on $n" base_like
done
bench 1 only=base,sparse_dust 2> "$work/err"; check "no such row is code 2" test $? = 2
check "it is named" grep -q 'no row is "sparse_dust"' "$work/err"
check "serial lanes" bench 2 --set run.lanes=serial
check "serial lanes: losses" base_like
for n in 1 2; do
  sparsenn train $n "one$n" --set run.steps=20 || exit 1
done
check "sparsenn: one rank as two" close_losses one1 one2 1e-4 20
passed
