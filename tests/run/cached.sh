#!/bin/sh
# cached.sh - whole runs with tables in slow memory equal the same runs in
# fast memory, bit for bit: tiers, pipelines, ranks; resume under another
# tier, policy, load factor and number of ranks (kill -9: larger.sh).
# seconds: 600
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
mkdir "$work/tier"
slow() { echo "--set run.tier_dir=$work/tier --set table_defaults.kernel=$1 --set table_defaults.cache.tier=$2 --set table_defaults.cache.load_factor=$3 --set table_defaults.cache.policy=$4"; }
# data_parallel tables can't be cached: both have the same plan without.
fixed="--set table_defaults.sharding=row_wise --set run.log_every=10"
for n in 1 3; do
  check "in fast memory on $n" train $n fast$n $fixed
  for pipeline in base sparse_dist prefetch; do
    check "cached, $pipeline, on $n" train $n c$n$pipeline $fixed $(slow cached file 0.1 lru) --set pipeline.kind=$pipeline
    check "$pipeline: same bits on $n" same_bits "$(newest fast$n)" "$(newest c$n$pipeline)"
  done
  check "uncached in slow memory on $n" train $n h$n $fixed $(slow host file 1 lru)
  check "same bits without a cache on $n" same_bits "$(newest fast$n)" "$(newest h$n)"
done
# From tier to tier on as many ranks; then on others each time, beside a run
# in fast memory that changes them alike.
check "first part" train 3 moved $fixed --set run.steps=15 $(slow cached host 0.2 lfu) --set pipeline.kind=prefetch
check "second part" train 3 moved $fixed --set run.steps=25 $(slow cached file 0.01 lru)
check "last part" train 3 moved $fixed --set table_defaults.kernel=fused
check "moved between tiers: same bits" same_bits "$(newest fast3)" "$(newest moved)"
goes_on() { # ranks, steps, options of the cached run
  n=$1; steps=$2; shift 2
  check "in fast memory to step $steps on $n" train "$n" stays $fixed --set run.steps="$steps"
  check "cached to step $steps on $n" train "$n" changes $fixed --set run.steps="$steps" "$@"
  check "same bits at step $steps" same_bits "$(newest stays)" "$(newest changes)"
}
goes_on 2 10 $(slow cached file 0.1 lru) --set pipeline.kind=prefetch
goes_on 1 20 $(slow cached host 0.01 lfu) --set pipeline.kind=prefetch --set table_defaults.cache.prefetch_passes=4
goes_on 3 30 $(slow cached host 0.5 lru) --set pipeline.kind=sparse_dist
goes_on 2 35 --set table_defaults.kernel=fused
goes_on 4 40 $(slow cached file 1.0 lfu) --set pipeline.kind=prefetch
# Kernels are left open: the planner caches what memory doesn't suffice for,
# says so, and a checkpoint keeps it; a deck's word goes before.
large="$fixed --set tables.c.rows=200000"
short="--set run.tier_dir=$work/tier --set sharding.memory_gib=0.0015"
cached_c() { grep -q '^c row_wise cached ' "$work/$1/plan"; }
for n in 1 3; do
  check "large in fast memory on $n" train $n large$n $large
  check "large with little memory on $n" train $n short$n $large $short
  check "cached on $n" cached_c short$n
  check "a note says so on $n" grep -q "NOTE: fast memory doesn't suffice for all rows: 1 tables" "$work/short$n/log"
  check "the plan says why on $n" grep -q '^# kernel chosen for 1 tables: with their rows in fast memory rank 0 would need' "$work/short$n/plan"
  check "same bits with little memory on $n" same_bits "$(newest large$n)" "$(newest short$n)"
done
refused() { ! train 1 refused $large $short --set table_defaults.kernel=fused 2> "$work/why" && grep -q 'no plan fits' "$work/why"; }
check "a deck that wants fast memory" refused
check "large, further" train 3 large3 $large --set run.steps=45
check "resumed with enough memory" train 3 short3 $large --set run.tier_dir="$work/tier" --set run.steps=45
check "as planned" cached_c short3
check "same bits resumed" same_bits "$(newest large3)" "$(newest short3)"
check "further still" train 3 large3 $large --set run.steps=50
check "planned anew" train 3 short3 $large --set run.steps=50 --set sharding.plan=replan
check "in fast memory" grep -q '^c row_wise 0:' "$work/short3/plan"
check "same bits planned anew" same_bits "$(newest large3)" "$(newest short3)"
# Figures per table in metrics.jsonl, and a plan that shows both tiers.
# Of c1base they are arithmetic: bytes of rows with the state that goes along.
cp "$work/c1base/metrics.jsonl" "$work/rows"
for pair in a:64 b:192 c:32 d:96 e:192; do
  check "misses of $pair" holds ${pair%:*} 'abs(r["misses"] - r["unique"] * (1 - r["hit_rate"])) < 1e-5 and r["exposed_ms"] == r["prefetch_ms"] > 0'
  check "bytes of $pair" holds ${pair%:*} "near(r['mbytes_in'] * 1e6, (r['misses'] - r['conflicts']) * ${pair#*:}) and near(r['mbytes_out'] * 1e6, r['write_backs'] * ${pair#*:})"
done
check "their means in the log" holds b '"cached    0.1 %9.0f %8.2f%% %9.0f %9.0f %5.1f KiB %5.1f KiB\n" % tuple((sum(column(k)) if k else 400 * (1 - sum(column("misses")) / sum(column("unique")))) / (4 * of) for k, of in (("unique", 1), ("", 1), ("misses", 1), ("conflicts", 1), ("mbytes_in", 1024e-6), ("mbytes_out", 1024e-6))) in open("'"$work/c1base/log"'").read()'
check "the tables share the fetching of the log" python3 -c 'import json, re, sys
ms = sum(json.loads(r).get("prefetch_ms", 0) for r in open(sys.argv[1])) / 4
said = float(re.search("rows fetched for ([0-9.]+) ms", open(sys.argv[2]).read())[1])
sys.exit(abs(ms - said) > 1e-3)' "$work/c1base/metrics.jsonl" "$work/c1base/log"
check "what lies in slow memory" grep -q '^most of a rank: 98.8 KiB in slow memory' "$work/c1base/log"
check "table lines at each line" test "$(grep -c '"table":"c"' "$work/c1prefetch/metrics.jsonl")" = 4
"$TESSERA" plan "$work/small.deck" $fixed $(slow cached file 0.1 lru) > "$work/plan.txt"
check "disk in the plan" grep -q "slow) + on disk" "$work/plan.txt"
check "kernel in the plan" grep -q "^c .* cached " "$work/plan.txt"
# Of a file nothing is left under a name.
check "no file is left" test -z "$(ls "$work/tier")"
passed
