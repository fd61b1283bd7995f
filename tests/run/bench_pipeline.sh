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
  sparsenn ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" bench pipeline "$work/small.deck" scale=0.5 steps=6 warm=2 rounds=2 --out "$work/rows" "$@" > "$work/out"
}
# Rows whose last word is $1: how many.
rows() { grep -cE "^(base|[a-z_]*_dist|semi_sync|prefetch).* $1\$" "$work/out"; }
base_like() { [ "$(rows "base's")" = 18 ] && [ "$(rows 'its own')" = 3 ] && grep -q '^semi_sync.* its own$' "$work/out"; }
json() {
  holds case '[r[k] for k in ("scale", "threads", "global_batch", "rounds", "steps", "warm", "delay_us", "delay_gbytes_per_s", "ids")] == [0.5, 1, 48, 2, 6, 2, 0, 0, "ids zipf 1.05, 12 a sample"]' &&
    holds pipelines 'len(rows) == 21 and column("losses").count("base'"'"'s") == 18 and sum(1 for x in rows if x["lane"]) == 12' &&
    holds pipelines '0 < r["fastest_ms"] <= r["median_ms"] <= r["p90_ms"] and 0 < r["alloc_bytes"] <= r["reserved_bytes"]' &&
    holds pipelines '0 <= r["exposed_comm_percent"] <= 100 and r["input_hidden_percent"] <= 100 and near(r["samples_per_s"] * r["median_ms"], 48e3)' &&
    holds pipelines 'all(near(r["fastest_of_sparse_dist"] * x["fastest_ms"], r["fastest_ms"]) for x in rows if (x["pipeline"], x["in_backward"]) == ("sparse_dist", r["in_backward"]))' &&
    holds pipelines 'r.get("of_" + r["pipeline"], 1) == 1' &&
    holds pipelines 'r["lane"] != "data_dist" or all(r["alloc_bytes"] <= x["alloc_bytes"] + 65536 for x in rows if (x["in_backward"], x["lookup"], x["lane"]) == (r["in_backward"], r["lookup"], "own"))'
}
for n in 1 2 3; do
  check "bench pipeline on $n" bench "$n"
  check "rows and losses on $n" base_like
  check "json on $n" json
done
# One row, or some: what they are measured by may be missing.
check "one row" bench 1 only=fused_sparse_dist.after.own in_backward=true
check "it stands alone" test "$(grep -c '^fused_sparse_dist, after, own .* -  -$' "$work/out")" = 1
check "and no other" test "$(grep -cE '^(base|[a-z_]*_dist|semi_sync|prefetch)' "$work/out")" = 1
check "json has none of base" grep -q '"of_base":null,"of_sparse_dist":null,.*"losses":null' "$work/rows"
check "some rows" bench 1 only=base,semi_sync in_backward=false plain=1
check "with what they are measured by" test "$(grep -cE "^(base|base, no graph|semi_sync|semi_sync, stash) .* (base's|its own)\$" "$work/out")" = 4
check "by sparse_dist they are not" test "$(grep -cE '^(base|semi_sync).* -       -  ' "$work/out")" = 4
# Tables in slow memory: scratch falls with the passes.
for passes in 1 4; do
  check "cached, $passes passes" bench 1 only=base,prefetch in_backward=false --set table_defaults.kernel=cached --set table_defaults.cache.min_pass_size=1 --set table_defaults.cache.prefetch_passes=$passes
  check "rows of base are exposed" holds rows 'r["fetch_ms"] > 0 and r["exposed_ms"] <= r["fetch_ms"] and (r["pipeline"] != "base" or r["exposed_ms"] == r["fetch_ms"])'
  eval "scratch$passes=$(sed -n 's/.*"scratch_bytes":\([0-9]*\).*/\1/p' "$work/rows" | tail -n 1)"
done
check "about a quarter of the scratch" test "$scratch1" -ge $((3 * scratch4)) -a "$scratch1" -le $((5 * scratch4))
bench 1 only=base,sparse_dust 2> "$work/err"; check "no such row is code 2" test $? = 2
check "it is named" grep -q 'no row is "sparse_dust"' "$work/err"
check "serial lanes" bench 2 --set run.lanes=serial
check "serial lanes: losses" base_like
for n in 1 2; do
  sparsenn train $n "one$n" --set run.steps=20 || exit 1
done
check "sparsenn: one rank as two" close_losses one1 one2 1e-4 20
passed
