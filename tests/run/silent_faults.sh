#!/bin/sh
# silent_faults.sh - run.check: a bit that flips in a weight, a gradient or a
# message is found, with its rank; what a run does then; and nothing is found,
# nor changed, where nothing flips.  seconds: 200
. "$srcdir/tests/support/common.sh"
. "$srcdir/tests/support/batches.sh"
not_sanitized
needs_faults
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
rows="--set run.check=rows --set run.check_every=3"
sums="--set run.check=sums --set run.check_every=3"
same_losses() { losses "$1" > "$work/x"; losses "$2" > "$work/y"; cmp "$work/x" "$work/y"; }
# with FAULT CODE PATTERN command...: the code, one line of error, and what it says.
with() {
  fault=$1; want=$2; pattern=$3; shift 3
  TESSERA_FAULT=$fault timeout 100 "$@" > "$work/out" 2> "$work/err"; code=$?
  [ $code = "$want" ] && [ "$want" = 0 -o "$(grep -c 'tessera: error' "$work/err")" = 1 ] && { [ -z "$pattern" ] || grep -q "$pattern" "$work/err"; } && return
  echo "$fault: code $code, not $want, or not \"$pattern\":"; cat "$work/err"; return 1
}
run() { fault=$1 want=$2 pattern=$3 n=$4 f=$5; shift 5
  with "$fault" "$want" "$pattern" ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/$f" --set run.steps=20 "$@"; }

# A weight: at the next comparison; of two ranks nobody knows which.
check "weight on 2" run flip_weight:1:7 6 'step 9: model/[^ ]*weight differs between ranks 0, 1,' 2 w2 $sums
check "weight on 3" run flip_weight:1:7 6 'step 9: model/[^ ]*weight of rank 1 differs' 3 w3 $sums
check "weight on 4" run flip_weight:3:9 6 'step 9: model/[^ ]*weight of rank 3 differs' 4 w4 $sums
check "row on 3" run flip_weight:2:7 6 'step 9: rows of table a of rank 2 differs' 3 r3 $sums --set tables.a.sharding=data_parallel --set tables.b.sharding=data_parallel
check "not without" run flip_weight:1:7 0 '' 3 none
# And before a checkpoint, which stays the one from before.
save="--set checkpoint.every=4 --set run.check_every=1000"
check "before a checkpoint" run flip_weight:2:5 6 'step 8: .* of rank 2 differs' 3 saved $sums $save
check "of which there is none" test "$(basename "$(newest saved)")" = step-00000004.h5
check "before the last one" run flip_weight:2:19 6 'step 20: .* of rank 2 differs' 3 last $sums --set run.check_every=1000
check "none at all" test -z "$(newest last)"
check "the same command goes on" run none 0 '' 3 saved $sums $save
check "straight" run none 0 '' 3 straight --set checkpoint.every=4
check "to the same bits" same_bits "$(newest straight)" "$(newest saved)"

# A gradient: in a step that is computed twice, and in no other.
check "gradient" run flip_gradient:1:6 6 'step 6: rank 1 computed the gradient of .* twice' 2 g2 $rows
check "gradient of a step in parts" run flip_gradient:2:6 6 'step 6: rank 2 computed' 3 g3 $rows --set run.accumulate=3
check "gradient of shards" run flip_gradient:0:6 6 'step 6: rank 0 computed' 2 gs $rows --set dense.parallel=fully_sharded
check "on one rank" run flip_gradient:0:6 6 'step 6: rank 0 computed' 1 g1 $rows
check "not with sums" run flip_gradient:1:6 0 '' 2 gn $sums

# A message: at once, whichever it is.
for nth in 1 40 90 230 470; do
  check "message $nth" run flip_message:1:$nth 5 'rank 1 on .* came from rank [02] are not those' 3 m$nth $sums
done
check "the last checkpoint stays" run flip_message:0:500 5 'came from rank 1' 2 mc $sums --set checkpoint.every=2
check "goes on" run none 0 '' 2 mc $sums --set checkpoint.every=2
check "straight on 2" run none 0 '' 2 straight2 --set checkpoint.every=2
check "to the bits of a run without" same_bits "$(newest straight2)" "$(newest mc)"
check "not without sums" run flip_message:1:90 0 '' 2 mn

# Back to step 3, found in step 5, whose next batch is the sixth.
data whole.csv 1 2 3 4 5 6 7 8 9 10 11 12 13
data back.csv 1 2 3 6 7 8 9 10 11 12 13
ids=
for table in a b c d e; do ids="$ids --set tables.$table.rows=dynamic --set tables.$table.capacity=60"; done
back="--set checkpoint.every=3 --set run.check=rows --set run.check_every=1 --set run.on_fault=rollback"
for way in "base" "sparse_dist $ids" "prefetch --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.3"; do
  of="--set pipeline.kind=$way"; name=${way%% *}
  check "without batches 4 and 5: $name" train 2 without$name $(csv back.csv) $of
  for flip in flip_weight flip_gradient; do
    TESSERA_FAULT=$flip:1:5; export TESSERA_FAULT
    check "$flip, $name: back" train 2 $flip$name $(csv whole.csv) $of $back
    unset TESSERA_FAULT
    check "$flip, $name: the same bits" same_bits "$(newest without$name)" "$(newest $flip$name)"
    check "$flip, $name: it says so" grep -q 'back at step 3, the data goes on' "$work/$flip$name/log"
    check "$flip, $name: counted" grep -q '1 times run.check found a fault' "$work/$flip$name/log"
  done
done
check "nothing to go back to" run flip_weight:1:2 6 'no checkpoint to go back to' 2 nowhere $sums --set run.on_fault=rollback
check "no end is one, too" run flip_weight:1:5,flip_weight:1:9 6 'run.max_skips = 1' 2 often $sums --set checkpoint.every=3 --set run.on_fault=rollback --set run.max_skips=1

# Nothing flips: nothing is found, and each loss has the bits that it has without.
quiet() { # name ranks options...
  name=$1 n=$2; shift 2
  check "$name" run none 0 '' $n plain-$name "$@"
  check "$name, looked at" run none 0 '' $n looked-$name "$@" $rows
  check "$name: the same losses" same_losses plain-$name looked-$name
  check "$name: the same bits" same_bits "$(newest plain-$name)" "$(newest looked-$name)"
}
for kind in table_wise row_wise column_wise data_parallel; do quiet $kind 3 --set table_defaults.sharding=$kind; done
for kind in table_row_wise grid; do quiet $kind 4 --set table_defaults.sharding=$kind --set sharding.ranks_per_node=2; done
quiet sparse_dist 2 --set pipeline.kind=sparse_dist --set optimizer.in_backward=false
quiet fused 2 --set pipeline.kind=fused_sparse_dist --set pipeline.lookup=before_optimizer --set pipeline.lookup_lane=own
quiet prefetch 2 --set pipeline.kind=prefetch --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.3
quiet semi_sync 3 --set pipeline.kind=semi_sync --set pipeline.start_batch=4 --set pipeline.stash_gradients=true --set optimizer.in_backward=false
quiet accumulate 3 --set run.accumulate=2 --set dense.parallel=fully_sharded --set optimizer.clip_norm=1
quiet parts 3 --set run.accumulate=3
quiet single 1 --set data.global_batch=1
quiet bare 2 --set model.dense_arch=[] --set model.over_arch=[] --set 'model.layers=({name="y";kind="fm";in="fields";})'
quiet serial 2 --set run.lanes=serial --set comm.reduce=mpi --set optimizer.ema=0.9
quiet codecs 3 --set sharding.comm_dtype_forward=bf16 --set dense.comm_dtype=bf16 --set table_defaults.sharding=row_wise
statistics='model.layers=({name="b";kind="mlp";in="dense";units=[16];},{name="x";kind="dot";in=["b","fields"];},{name="n";kind="batch_norm";in="x";},{name="h";kind="mlp";in="n";units=[16];dropout=0.2;},{name="y";kind="linear";in="h";units=1;})'
quiet statistics 2 --set model.dense_arch=[] --set model.over_arch=[] --set "$statistics"
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  TESSERA=$emulated
  there="--set run.backend=emulated"
  quiet emulated 2 $there --set table_defaults.sharding=data_parallel
  quiet graph 1 $there --set run.graph=auto
  check "weight there" run flip_weight:1:7 6 'step 9: .* of rank 1 differs' 3 we $sums $there
  check "gradient there" run flip_gradient:1:6 6 'step 6: rank 1 computed' 2 ge $rows $there
fi
passed
