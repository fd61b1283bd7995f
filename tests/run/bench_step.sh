#!/bin/sh
# bench_step.sh - the benchmark of steps: one alone after the other, and those
# of a pipeline; its line has the ids' law, its table the cross layers' bytes.
# seconds: 100
. "$srcdir/tests/support/common.sh"
not_sanitized
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
json() { check "json of bench $*" ${MPIRUN:-mpirun} -q -n 1 "$TESSERA" bench "$@" --json --out "$work/rows"; }
json read "$work/small.deck" --set data.format=dataset --set "data.train=$work/data.h5"
check "rates of reading" holds read "len(rows) == 3 and near(r['samples_per_s'] * r['seconds'], 1000) and near(r['file_mb_per_s'] * r['seconds'] * 1e6, $(stat -c %s "$work/data.h5"))"
json step "$work/small.deck" iters=8 pipeline=1
check "the rate is of all steps" holds step 'near(r["samples_per_s"] * r["step_ms"], 96e3)'
# Of 480 samples and 12 ids, 480 of them with weights, which meet all rows:
# 5 x 68, 130 x 192, 7 x 32, 8 x 96 and 5 x 192 bytes with their state.
json step "$work/small.deck" iters=8 --set tables.a.rows=5 --set tables.b.rows=130 --set tables.c.rows=7 --set tables.d.rows=8 --set data.global_batch=480 --set data.synthetic.zipf=0
check "their rate" holds step '[r["ranks"], r["threads"], r["global_batch"], r["step_ms"]] == [1, 1, 480, None] and near(r["samples_per_s"] * r["median_ms"], 480e3) and r["fastest_ms"] <= r["median_ms"]'
check "bytes by hand" holds phases '(r["gb"] and round(r["gb"] * 1e9)) == {"lookup": 241760, "fused backward": 286824, "dense optimizer": 4 * 2417 * 7, "input pack": 96000, "input unpack": 96000}.get(r["phase"])'
check "products by hand" holds phases '(r["gflop"] and round(r["gflop"] * 1e9 / 2320 / 480)) == {"dense forward": 2, "dense backward": 4, "  of it products": 6}.get(r["phase"])'
check "rates of phases" holds phases 'near(r["gb"] or 0, (r["gb_per_s"] or 0) * r["ms"] / 1e3) and near(r["gflop"] or 0, (r["tflop_per_s"] or 0) * r["ms"])'
check "one copy, one product" holds phases 'len({"%.4g" % (x["gb_per_s"] / x["of_copy_percent"]) for x in rows if x["gb"]} | {"%.4g" % (x["tflop_per_s"] / x["of_product_percent"]) for x in rows if x["gflop"]}) == 2'
check "shares of a step" holds phases '[x["phase"] for x in rows[-2:]] == ["sum", "step"] and near(r["of_step_percent"], 100 * r["ms"] / rows[-1]["ms"])'
check "the longest first" holds phases 'column("ms")[:-2] == sorted(column("ms")[:-2], reverse=True) and near(rows[-2]["ms"], sum(x["ms"] for x in rows[:-2] if x["phase"][0] != " "))'
check "shares of products" holds products 'near(r["products_percent"], 100 * r["products_ms"] / r["dense_ms"]) and near(r["alone_of_dense"], r["alone_ms"] / r["dense_ms"]) and near(r["alone_of_all"], r["alone_ms"] / (r["dense_ms"] + r["optimizer_ms"])) and 0 < r["products_ms"] <= r["dense_ms"]'
passed
