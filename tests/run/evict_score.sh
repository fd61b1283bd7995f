#!/bin/sh
# evict_score.sh - dynamic tables by evict.kind "score": what the scores are and
# which ids go, by what the rows moved; to the bit over restarts on as many ranks,
# by any pipeline, on the device and over slow memory; near on others.
# seconds: 60
. "$srcdir/tests/support/common.sh"
not_sanitized
. "$srcdir/tests/support/ids.sh"
cat > "$work/lost.deck" <<'DECK'
run = { steps = 12; log_every = 1; threads = 1; };
data = { train = "data.h5"; format = "dataset"; global_batch = 64; };
table_defaults = { dim = 16; rows = "dynamic"; optimizer = { kind = "sgd"; lr = 4.0; };
  init = { kind = "constant"; scale = 0.001; }; evict = { kind = "score"; every = 4; keep = 0.3; }; };
tables = ( { name = "a"; capacity = 1600; features = ["fa"]; },
  { name = "b"; capacity = 2500; features = ["fb", "fc"]; pooling = "mean"; },
  { name = "c"; capacity = 1400; features = ["fd"]; weighted = true; evict = { every = 3; keep = 0.2; }; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [16, 16]; over_arch = [16, 1]; };
checkpoint = { every = 1; keep = 20; };
sharding = { topology = "default"; };
DECK
last=checkpoints/step-00000012.h5
go() { n=$1; folder=$2; shift 2; run "$n" train "$work/lost.deck" --quiet --set run.output="$work/$folder" "$@"; }
same_scores() { for table in a b c; do same_sets "$1" "$2" dynamic/$table/ids dynamic/$table/seen dynamic/$table/last dynamic/$table/score || return 1; done; }
near_scores() { for table in a b c; do h5diff --relative=1e-5 "$work/$1/$last" "$work/$2/$last" dynamic/$table/score dynamic/$table/score > /dev/null && same_sets "$1" "$2" dynamic/$table/ids || return 1; done; }
check "data" ids_data
for n in 1 2 4; do check "on $n ranks" go $n on$n; done
# Scores of runs that look at nothing, and so have the same ids.
for n in 1 2; do check "no look, on $n ranks" go $n all$n --set table_defaults.evict.every=1000 --set tables.c.evict.every=1000 --set tables.a.capacity=4000 --set tables.b.capacity=4000 --set tables.c.capacity=4000; done
check "scores on 1 and 2 ranks" near_scores all1 all2
if [ -n "$python" ]; then
  at() { echo "$work/$1/checkpoints/step-0000000$2.h5"; }
  looked() { $python "$srcdir/tests/run/evict_score.py" "$@"; }
  # From the step before it on without a look.
  for at in 3 4 6 8; do
    cp -r "$work/on2" "$work/to$at"
    rm "$work/to$at"/checkpoints/step-0000001*.h5
    i=9; while [ $i -ge $at ]; do rm "$(at to$at $i)"; i=$((i - 1)); done
    check "no look at step $at" go 2 to$at --set run.steps=$at --set table_defaults.evict.every=1000 --set tables.c.evict.every=1000
  done
  for at in 4 8; do
    check "a, step $at" looked "$(at to$at $((at - 1)))" "$(at to$at $at)" "$(at on2 $at)" a 480 4
    check "b, step $at" looked "$(at to$at $((at - 1)))" "$(at to$at $at)" "$(at on2 $at)" b 750 4
  done
  for at in 3 6; do check "c, step $at" looked "$(at to$at $((at - 1)))" "$(at to$at $at)" "$(at on2 $at)" c 280 4; done
fi
for pipeline in base fused_sparse_dist prefetch; do
  check "$pipeline" go 2 $pipeline --set pipeline.kind=$pipeline
  check "$pipeline: the same scores" same_scores on2 $pipeline
  check "$pipeline: the same rows" same_rows on2 $pipeline
done
check "cached" go 2 cached --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.2
check "cached: the same scores" same_scores on2 cached
check "table_wise" go 2 whole --set table_defaults.sharding=table_wise
check "micro-batches" go 2 micro --set run.accumulate=2 --set table_defaults.evict.every=1000 --set tables.c.evict.every=1000 --set tables.a.capacity=4000 --set tables.b.capacity=4000 --set tables.c.capacity=4000
check "micro-batches: scores of whole steps" near_scores all2 micro
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  there() { TESSERA=$emulated go "$@" --set run.backend=emulated; }
  check "on a device" there 2 device --set run.steps=7 --set checkpoint.every=7
  check "from there on the host" go 2 device
  check "no look, on a device" there 1 all-there --set table_defaults.evict.every=1000 --set tables.c.evict.every=1000 --set tables.a.capacity=4000 --set tables.b.capacity=4000 --set tables.c.capacity=4000 --set checkpoint.every=12
  check "a device's scores" near_scores all1 all-there
fi
# At a look, between two, and from a delta.
for at in 6 7; do
  check "to step $at" go 2 part$at --set run.steps=$at --set checkpoint.delta_every=1 --set checkpoint.every=5
  [ $at = 6 ] || rm "$work/part7/checkpoints/step-00000007.h5"
  check "from step $at" go 2 part$at
  check "from step $at: the same scores" same_scores on2 part$at
  check "from step $at: the same rows" same_rows on2 part$at
done
# A smaller capacity: the ids stay that a look would have left, with their scores.
for n in 2 1; do
  cp -r "$work/all2" "$work/fewer$n"
  check "a smaller capacity on $n ranks" go $n fewer$n --set run.steps=13 --set tables.a.capacity=1000 --set tables.b.capacity=1000 --set tables.c.capacity=600 --set table_defaults.evict.every=1000 --set tables.c.evict.every=1000 --set table_defaults.sharding=row_wise
  for t in "a 300" "b 300" "c 120"; do
    # shellcheck disable=SC2086
    [ -z "$python" ] || check "a smaller capacity on $n ranks: $t" $python "$srcdir/tests/run/evict_score.py" shrunk "$work/all2/$last" "$work/fewer$n/checkpoints/step-00000013.h5" $t 4
  done
done
# A damaged score is refused by name.
cp -r "$work/on2" "$work/hurt"
for path in "$work"/hurt/checkpoints/*; do case $path in */step-00000012.h5) ;; *) rm "$path" ;; esac; done
at=$(h5dump -p -H -d /dynamic/b/score "$work/hurt/$last" | sed -n 's/.*OFFSET \([0-9]*\).*/\1/p')
printf 'tessera' | dd of="$work/hurt/$last" bs=1 seek=$((at + 16)) conv=notrunc 2> /dev/null
go 2 hurt --set run.steps=14 > "$work/out" 2> "$work/err"; code=$?
check "a damaged score: code 4, not $code" test $code = 4
check "a damaged score is named" grep -q 'step-00000012.h5: .*dynamic/b/score.*damaged\|step-00000012.h5: .*damaged.*dynamic/b/score' "$work/err"
passed
