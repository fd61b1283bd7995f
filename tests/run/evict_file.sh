#!/bin/sh
# evict_file.sh - dynamic tables with evict.to = "file": memory holds few rows, a
# file all; runs have the ids, rows and losses of those with memory for all, by
# either policy, any pipeline, on other ranks, from either's checkpoints and on
# emulated GPUs; what the deck says of it; what is refused.
# seconds: 100
. "$srcdir/tests/support/common.sh"
not_sanitized
. "$srcdir/tests/support/ids.sh"
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
check "data" ids_data
cat > "$work/all.deck" <<DECK
run = { steps = 20; log_every = 1; threads = 1; tier_dir = "$work"; };
data = { train = "data.h5"; format = "dataset"; global_batch = 64; };
table_defaults = { dim = 16; rows = "dynamic"; capacity = 4000; };
tables = ( { name = "a"; features = ["fa"]; dtype = "bf16"; },
  { name = "b"; features = ["fb", "fc"]; pooling = "mean"; optimizer = { kind = "adam"; }; },
  { name = "c"; features = ["fd"]; weighted = true; admit = { min_count = 2; window_steps = 4; }; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [16, 16]; over_arch = [16, 1]; };
checkpoint = { every = 10; keep = 10; };
sharding = { topology = "default"; };
DECK
last=checkpoints/step-00000020.h5
go() { n=$1; folder=$2; shift 2; run "$n" train "$work/all.deck" --quiet --set run.output="$work/$folder" "$@"; }
file="--set table_defaults.capacity=600 --set table_defaults.evict.to=file --set table_defaults.evict.rows=4000"
lru="$file --set table_defaults.evict.kind=lru" lfu="$file --set table_defaults.evict.kind=lfu"
ids() { same_sets "$1" "$2" dynamic/a/ids dynamic/b/ids dynamic/c/ids dynamic/c/sights; }
alike() { # FOLDER FOLDER: ids and losses
  check "$2: the same ids" ids "$1" "$2"
  check "$2: the same losses" close_losses "$1" "$2" 1e-6 20
}
for n in 1 2 4; do check "all in memory on $n" go $n all$n; done
for policy in lru lfu; do
  eval "set -- \$$policy"
  check "$policy" go 1 $policy "$@"
  alike all1 $policy
  check "$policy: the same rows" same_rows all1 $policy
  check "$policy: adam's state" same_sets all1 $policy optim/${emb#model/}.b.weight/exp_avg
done
for n in 2 4; do
  # shellcheck disable=SC2086
  check "on $n ranks" go $n file$n $lru --set pipeline.kind=prefetch
  alike all$n file$n
done
# Memory has fewer rows than there are ids.
held() { h5dump -H -d "dynamic/$2/ids" "$work/$1/$last" | sed -n 's/.*SIMPLE { ( \([0-9]*\).*/\1/p' | head -n 1; }
for t in a b; do check "$t: more ids than memory has rows: $(held lru $t)" test "$(held lru $t)" -gt 700; done
for t in a b c; do check "$t: the plan says so" grep -q "^# $t  *cached deck  *file  *0\.15 deck  *600 " "$work/lru/plan"; done
for line in 'kernel = "cached"' 'tier = "file"' 'policy = "lfu"' 'capacity = 4000L*' 'load_factor = 0.15'; do
  check "the deck in force: $line" grep -q "$line" "$work/lfu/deck.effective"
done
check "the deck in force is a deck" run 1 plan "$work/lfu/deck.effective"

# From one to the other, in the middle.
# shellcheck disable=SC2086
{
  check "half with a file" go 2 half $lru --set run.steps=10
  cp -r "$work/half" "$work/back"
  check "goes on with a file, on other ranks" go 1 half $lru
  check "goes on without" go 2 back
}
for from in half back; do alike all2 $from; done
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  there() { TESSERA=$emulated go "$@" --set run.backend=emulated; }
  # shellcheck disable=SC2086
  {
    check "on a device" eval 'TESSERA_FAKE_PAGES=1 there 2 device $lru'
    there 2 blind $lru > "$work/out" 2> "$work/err"; code=$?
  }
  alike all2 device
  check "on one that can't read the host's pages: code 2, not $code" test $code = 2
  check "it says so" grep -q 'reads the host.s pages by itself' "$work/err"
fi

# What is refused.
refused() { # PATTERN options
  pattern=$1; shift
  go 1 refused "$@" > "$work/out" 2> "$work/err"; code=$?
  check "$pattern: code 2, not $code" test $code = 2
  check "$pattern: it says so" grep -q "$pattern" "$work/err"
}
refused 'table a: evict.to = "file" takes evict.kind lru or lfu' $file
refused 'table a: evict.to = "file" takes evict.kind lru or lfu' $file --set table_defaults.evict.kind=score
refused 'table b: evict.to = "file" needs evict.rows, more than the capacity' $lru --set tables.b.evict.rows=600
refused 'table c: evict.to = "file" takes kernel auto or cached' $lru --set tables.c.kernel=fused
refused 'table c: evict.to = "file" takes no cache.load_factor' $lru --set tables.c.cache.load_factor=0.5
refused 'table b: evict.to = "file" takes no evict.every or evict.keep' $lru --set tables.b.evict.every=7
refused 'table c: evict.to = "file" takes no evict.every or evict.keep' $lru --set tables.c.evict.keep=0.5
refused 'table a: evict.rows is for evict.to = "file"' --set tables.a.evict.rows=5000
refused 'needs run.tier_dir' $lru --set run.tier_dir=
refused 'table a: evict is for rows = "dynamic"' $lru --set tables.a.rows=4000 --set tables.a.capacity=0
# More ids than rows.
go 1 full $lru --set tables.a.capacity=100 --set tables.a.evict.rows=200 > "$work/out" 2>&1; code=$?
check "full: code 1, not $code" test $code = 1
check "full: it says so" grep -q 'table a is full: there is no row for id' "$work/out"
passed
