#!/bin/sh
# dynamic_devices.sh - tables of any id on a device of discrete memory, by the
# emulated one, and over slow memory there and on the host: which ids have rows,
# how often each was met, what is evicted and how often others were seen is to
# the bit as on the host, on 1, 2 and 4 ranks, by every pipeline, policy and part
# of a step; runs go on from the host's checkpoints there, and back.
# seconds: 300
# sanitizers: none (kernels are fibers on threads)
. "$srcdir/tests/support/common.sh"
. "$srcdir/tests/support/ids.sh"
host=$TESSERA
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
[ -x "$emulated" ] || { echo "needs tests/tessera-emulated: a C++ compiler was not found at configure"; exit 77; }
check "data" ids_data
met_deck
go() { here "$@" && there "$@"; } # RANKS FOLDER options: FOLDER on the host, there-FOLDER emulated
here() {
  n=$1; folder=$2; shift 2
  TESSERA=$host; run "$n" train "$work/met.deck" --quiet --set run.output="$work/$folder" --set run.backend=host --set run.steps=22 "$@"
}
there() {
  n=$1; folder=$2; shift 2
  TESSERA=$emulated; run "$n" train "$work/met.deck" --quiet --set run.output="$work/there-$folder" --set run.backend=emulated --set run.steps=22 "$@"
}
last=checkpoints/step-00000022.h5
table_lines() { grep '"evict"\|"index"' "$work/$1/metrics.jsonl"; }
same_table_lines() { table_lines "$1" > "$work/x"; table_lines "there-$1" > "$work/y"; [ -s "$work/x" ] && cmp "$work/x" "$work/y"; }
same() { # FOLDER
  check "$1: the same losses" close_losses "$1" "there-$1" 1e-6 22
  check "$1: the same ids" same_ids "$1" "there-$1"
  check "$1: the log of them" same_table_lines "$1"
}
for ranks in 1 2 4; do
  for kind in base sparse_dist fused_sparse_dist semi_sync prefetch; do
    [ $ranks = 4 ] && [ $kind = base ] && continue
    check "$kind on $ranks ranks" go $ranks $ranks-$kind --set pipeline.kind=$kind
    same $ranks-$kind
  done
done
check "in parts of steps" go 2 parts --set run.accumulate=2
same parts
check "table_wise" go 2 whole --set table_defaults.sharding=table_wise
same whole
check "lru" go 2 lru --set table_defaults.evict.kind=lru
same lru
check "ttl" go 2 ttl --set table_defaults.evict.kind=ttl --set table_defaults.evict.ttl=4 --set tables.c.evict.ttl=0
same ttl

# Rows in slow memory: lines of rows that others have got are given up.
slow() { # NAME RANKS LIKE options: as LIKE, on the host to the bit of all rows
  name=$1; n=$2; like=$3; shift 3
  check "$name" go $n "$name" "$@"
  same "$name"
  check "$name: the same ids as without" same_ids "$like" "$name"
  check "$name: the same losses as without" close_losses "$like" "$name" 1e-6 22
  [ "$n" = 2 ] || check "$name: the same rows as without" same_rows "$like" "$name"
}
cached="--set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.2"
for kind in base fused_sparse_dist prefetch; do
  # shellcheck disable=SC2086
  slow cached-$kind 1 1-$kind --set pipeline.kind=$kind $cached
done
# shellcheck disable=SC2086
slow cached-2 2 2-prefetch --set pipeline.kind=prefetch $cached --set table_defaults.cache.depth=2
# shellcheck disable=SC2086
slow cached-lru 2 lru --set table_defaults.evict.kind=lru --set pipeline.kind=prefetch $cached
# shellcheck disable=SC2086
check "in a file" here 1 in-a-file --set pipeline.kind=base $cached --set table_defaults.cache.tier=file --set run.tier_dir="$work"
check "in a file: the same ids as without" same_ids 1-base in-a-file
check "in a file: the same rows as without" same_rows 1-base in-a-file
slow kernel-host 1 1-base --set pipeline.kind=base --set table_defaults.kernel=host

# Steps at which batches are ahead, and others; from there to here and back.
for at in 15 17; do
  check "to step $at" go 2 part$at --set run.steps=$at
  cp -r "$work/part$at" "$work/there-up$at"
  check "from the host's step $at" there 4 up$at
  check "the same ids" same_ids 1-base there-up$at
  check "the same losses" close_losses 1-base there-up$at 1e-6 22
  cp -r "$work/there-part$at" "$work/down$at"
  check "back from step $at" here 1 down$at
  check "the same ids on the host" same_ids 1-base down$at
done

# More ids than rows: those stay that a look would keep.
all="--set table_defaults.evict.kind=lru --set table_defaults.evict.every=1000 --set table_defaults.evict.keep=0.5 --set table_defaults.admit.min_count=1
  --set table_defaults.admit.window_steps=0 --set tables.b.admit.min_count=1 --set tables.c.capacity=4000"
# shellcheck disable=SC2086
check "all ids" here 2 all $all --set run.steps=20 --set tables.a.capacity=4000 --set tables.b.capacity=4000
cp -r "$work/all" "$work/fewer"
cp -r "$work/all" "$work/there-fewer"
# shellcheck disable=SC2086
check "a smaller capacity" go 2 fewer $all --set tables.a.capacity=1200 --set tables.b.capacity=1200
n_ids() { h5dump -H -d "dynamic/$2/ids" "$1" | sed -n 's/.*SIMPLE { ( \([0-9]*\).*/\1/p' | head -1; }
for t in a b; do check "more ids than rows: $t" test "$(n_ids "$work/all/checkpoints/step-00000020.h5" $t)" -gt 1200; done
for t in a b; do check "a smaller capacity: the same ids of $t" same_sets fewer there-fewer dynamic/$t/ids dynamic/$t/seen dynamic/$t/last; done
check "a smaller capacity: the same losses" close_losses fewer there-fewer 1e-6 22

# Evaluations see no ids of steps to come.
looks="--set data.eval=data.h5 --set run.eval_every=10 --set checkpoint.every=22"
evals() { grep '"eval":true' "$work/$1/metrics.jsonl" | sed 's/"\(samples_per_s\|seconds\)":[^,}]*//'; }
same_evals() { evals "$1" > "$work/x"; evals "$2" > "$work/y"; [ "$(wc -l < "$work/x")" = 3 ] && cmp "$work/x" "$work/y"; }
near_evals() { # figures of two devices
  for f in "$1" "$2"; do evals "$f" | tr -c '0-9.\n-' ' ' > "$work/$f.figures"; done
  paste "$work/$1.figures" "$work/$2.figures" | awk '{ for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d > 1e-5 || d < -1e-5) exit 1 } n += NF } END { exit n < 30 }'
}
# shellcheck disable=SC2086
check "evaluations on the host" here 2 look-host $looks
for kind in base sparse_dist prefetch; do
  # shellcheck disable=SC2086
  check "evaluations, $kind" there 2 look-$kind $looks --set pipeline.kind=$kind
  check "the same, $kind" same_evals there-look-base there-look-$kind
  check "as on the host, $kind" near_evals look-host there-look-$kind
done

# A table is full.
TESSERA=$emulated
run 2 train "$work/met.deck" --quiet --set run.output="$work/full" --set run.backend=emulated --set tables.c.capacity=20 > "$work/out" 2>&1
check "code 1 when no row is left" test $? = 1
check "it says so" grep -q 'table c is full: there is no row for id' "$work/out"
passed
