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
# Figures per table in metrics.jsonl, and a plan that shows both tiers.
for key in hit_rate misses conflicts evictions write_backs mbytes_in mbytes_out prefetch_ms exposed_ms; do
  check "$key of table c" grep -q "\"table\":\"c\".*\"$key\":" "$work/c1prefetch/metrics.jsonl"
done
check "table lines at each line" test "$(grep -c '"table":"c"' "$work/c1prefetch/metrics.jsonl")" = 4
"$TESSERA" plan "$work/small.deck" $fixed $(slow cached file 0.1 lru) > "$work/plan.txt"
check "disk in the plan" grep -q "slow) + on disk" "$work/plan.txt"
check "kernel in the plan" grep -q "^c .* cached " "$work/plan.txt"
# Of a file nothing is left under a name.
check "no file is left" test -z "$(ls "$work/tier")"
passed
