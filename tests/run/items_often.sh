#!/bin/sh
# items_often.sh - draws as often as items are targets, negatives that are the
# batch's targets, and scores less the log of their share: the same on any ranks,
# in parts, pipelines and after a restart; not in evaluations; commands that
# train nothing.  What a step gives is in items.sh.
# seconds: 90
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
awk 'BEGIN { srand(5); print "user,item,next"
  for (i = 0; i < 150; i++) {
    m = int(rand() * 5); b = ""
    for (k = 0; k < m; k++) b = b (k ? "|" : "") int(rand() * rand() * 30)
    print int(rand() * 30) ",," b
  } }' > "$work/a.csv"
cat > "$work/even.deck" <<'DECK'
run = { name = "often"; seed = 7; steps = 14; threads = 1; log_every = 1; };
data = { format = "csv"; train = "a.csv"; eval = "a.csv"; global_batch = 16; shuffle = "full";
  columns = ( { name = "user"; kind = "ids"; encoding = "none"; },
    { name = "next"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 4; } ); };
table_defaults = { dim = 6; init = { scale = 0.5; }; optimizer = { kind = "adam"; lr = 0.05; }; };
tables = ( { name = "user"; rows = 30; features = "user"; },
  { name = "item"; rows = 40; features = "next"; pooling = "none"; } );
model = { layers = ( { name = "q"; kind = "scale"; in = "user"; } );
  outputs = ( { name = "next"; in = "q"; loss = "sampled_softmax"; target = "next"; negatives = 5; } ); };
sharding = { topology = "default"; };
DECK
sed 's/negatives = 5;/& draw = "frequency";/' "$work/even.deck" > "$work/often.deck"
sed 's/negatives = 5;/& draw = "frequency"; log_q = true;/' "$work/even.deck" > "$work/log_q.deck"
sed 's/negatives = 5;/draw = "batch";/' "$work/even.deck" > "$work/batch.deck"
sed 's/negatives = 5;/draw = "batch"; log_q = true;/' "$work/even.deck" > "$work/batch_q.deck"
go() { # RANKS DECK FOLDER [options]
  n=$1; deck=$2; folder=$3; shift 3
  ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" train "$work/$deck.deck" --quiet --set run.output="$work/$folder" "$@" < /dev/null
}
differ() { # run, run: in their last losses
  [ "$(losses "$1" | tail -n 1)" != "$(losses "$2" | tail -n 1)" ]
}
check "even" go 1 even even
for by in often log_q batch batch_q; do
  for ranks in 1 2 3 4; do check "$by, $ranks" go $ranks $by $by-$ranks; done
  for ranks in 2 3 4; do check "$by, $ranks ranks as one" close_losses $by-1 $by-$ranks 1e-5 14; done
  check "$by, stopped" go 2 $by $by-stop --set run.steps=4
  check "$by, goes on" go 2 $by $by-stop --set run.steps=11
  check "$by, and on" go 2 $by $by-stop
  check "$by: same bits" same_bits "$(newest $by-2)" "$(newest $by-stop)"
  check "$by, stopped, to move" go 3 $by $by-moved --set run.steps=6
  check "$by, goes on alone" go 1 $by $by-moved
  check "$by, moved: close" close_losses $by-1 $by-moved 1e-5 14
  case $by in batch*)
    for set in pipeline.kind=fused_sparse_dist dense.parallel=fully_sharded run.lanes=serial; do
      check "$by, $set" go 2 $by "$by-$set" --set $set
      check "$by, $set: same bits" same_bits "$(newest $by-2)" "$(newest "$by-$set")"
    done
    for set in table_defaults.sharding=row_wise table_defaults.sharding=column_wise sharding.topology=measure; do
      check "$by, $set" go 3 $by "$by-$set" --set $set
      check "$by, $set: close" close_losses $by-1 "$by-$set" 1e-5 14
    done
    check "$by, cached" go 2 $by $by-cached --set table_defaults.sharding=row_wise --set table_defaults.kernel=cached
    check "$by, cached: close" close_losses $by-1 $by-cached 1e-5 14
    ;; *)
    check "$by, micro-batches" go 2 $by $by-parts --set run.accumulate=3
    check "$by, micro-batches: close" close_losses $by-1 $by-parts 1e-5 14 ;; esac
  for set in pipeline.kind=base pipeline.kind=prefetch data.input=columns; do
    check "$by, $set" go 2 $by $by-$set --set $set
    check "$by, $set: same bits" same_bits "$(newest $by-2)" "$(newest $by-$set)"
  done
done
# The batch's negatives with embeddings that are a step late, and products in bf16.
semi="--set pipeline.kind=semi_sync --set pipeline.start_batch=4 --set checkpoint.every=7 --set checkpoint.keep=9"
check "batch, semi_sync" go 2 batch semi $semi
check "batch, semi_sync is not base" differ semi batch-2
mkdir -p "$work/again/checkpoints"
cp "$work"/semi/checkpoints/*07.h5 "$work/again/checkpoints"
check "batch, semi_sync goes on" go 2 batch again $semi
check "batch, semi_sync: same bits" same_bits "$(newest semi)" "$(newest again)"
sed 's/kind = "scale"; in = "user";/kind = "linear"; in = "user"; units = 32;/; s/dim = 6;/dim = 32;/' "$work/batch.deck" > "$work/wide.deck"
check "batch, f32" go 1 wide wide32
check "batch, bf16" go 2 wide wide16 --set run.precision=bf16
check "batch, bf16: close" close_losses wide32 wide16 2e-2 14
check "batch, bf16 is not f32" sh -c "! cmp -s '$work/x' '$work/y'"
check "often is not even" differ often-1 even
check "log_q is not often" differ log_q-1 often-1
check "batch is neither" differ batch-1 often-1
check "with log_q it is another" differ batch-1 batch_q-1
# A sample that is not trained on counts for nothing: the last ones are of other items.
check "a part" go 2 log_q part --set data.split.valid=0.3 --set data.split.by=tail --set run.valid_every=7
lines=$(wc -l < "$work/a.csv")
awk -v from=$((lines - 30)) -F, 'BEGIN { OFS = "," } NR > from { $3 = "39|38" } 1' "$work/a.csv" > "$work/b.csv"
sed 's/a\.csv/b.csv/g' "$work/log_q.deck" > "$work/other.deck"
check "a part, of others" go 2 other part-other --set data.split.valid=0.3 --set data.split.by=tail --set run.valid_every=7
check "a part: same bits" same_bits "$(newest part)" "$(newest part-other)"
# Of more items than a word picks from evenly: against steps in NumPy.
if /usr/bin/python3 -c 'import h5py, numpy' 2> /dev/null; then
  sed 's/shuffle = "full"; *//; s/kind = "adam"; lr = 0.05;/kind = "sgd"; lr = 0.5;/; s/rows = 40;/rows = 1100000;/' "$work/log_q.deck" > "$work/many.deck"
  check "many" go 1 many many-still --set run.steps=1 --set table_defaults.optimizer.lr=0
  check "many, NumPy" /usr/bin/python3 "$srcdir/tests/run/items.py" "$work/a.csv" "$(newest many-still)" sampled_softmax 6 "$work/many" by=user negatives=5 frequency=1 log_q=1
  check "many, 2 ranks" go 2 many many --set run.steps=6
  losses many > "$work/got.txt"
  check "many: losses" awk 'FNR == NR { want[FNR] = $1; next } { d = $1 - want[FNR]; if (d > 1e-5 * $1 || -d > 1e-5 * $1) { print FNR, $1, want[FNR]; bad = 1 } n++ }
    END { exit bad || n != 6 }' "$work/many.txt" "$work/got.txt"
fi
# Evaluations draw all items alike, and take no log.
for by in even often log_q batch; do
  ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" eval "$work/$by.deck" --checkpoint "$(newest batch-2)" < /dev/null > "$work/eval-$by" 2>&1
  grep '^evaluation' "$work/eval-$by" > "$work/figures-$by"
done
check "there are figures" grep -q loss "$work/figures-even"
for by in often log_q; do check "evaluated alike, $by" cmp "$work/figures-even" "$work/figures-$by"; done
for ranks in 1 3; do
  ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" eval "$work/batch_q.deck" --checkpoint "$(newest batch-2)" < /dev/null | grep '^evaluation' > "$work/figures-$ranks"
  check "the batch's, evaluated by $ranks" cmp "$work/figures-batch" "$work/figures-$ranks"
done
# Those of a run, which has both for its training, give what evaluations give.
for by in often log_q batch_q; do
  "$TESSERA" eval "$work/$by.deck" --checkpoint "$(newest $by-2)" < /dev/null 2> "$work/err" | sed -n 's/^evaluation: //p' > "$work/alone"
  check "$by: a run with validations" sh -c '"$@" < /dev/null > "$0" 2>&1' "$work/said" ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" train "$work/$by.deck" --set run.output="$work/$by-valid" --set data.valid=a.csv --set run.valid_every=14
  for what in validation evaluation; do
    sed -n "s/^$what: \([0-9]* samples\)/\1/p" "$work/said" > "$work/within"
    check "$by: $what of a run" cmp "$work/alone" "$work/within"
  done
  check "$by: there is one" grep -q 'log loss' "$work/alone"
done
# Who trains nothing counts nothing.
quietly() { "$@" < /dev/null > "$work/out" 2>&1 || { cat "$work/out"; return 1; }; }
check "checked" quietly "$TESSERA" train "$work/log_q.deck" --check
check "planned" quietly "$TESSERA" plan "$work/log_q.deck"
check "a bench" quietly "$TESSERA" bench step "$work/log_q.deck"
passed
