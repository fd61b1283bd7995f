#!/bin/sh
# balance.sh - ranks take samples that cost as much as each other: the result is
# that of as many samples each, in any format and order, in parts and after a
# restart, in no more room for tokens; and where there is nothing to balance.
# seconds: 40
. "$srcdir/tests/support/common.sh"
not_sanitized
events() { # LINES SEED: one list of four is long; what comes behind each id
  awk -v n="$1" -v seed="$2" 'BEGIN {
    srand(seed); print "item,next,part"
    for (i = 0; i < n; i++) {
      m = i % 40 < 10 ? 20 + int(rand() * 20) : 1 + int(rand() * 3); a = b = ""; id = 1 + int(rand() * 39)
      for (k = 0; k < m; k++) { a = a (k ? "|" : "") id; id = 1 + (id * 3 + int(rand() * 2)) % 39; b = b (k ? "|" : "") id }
      print a "," b "," (i % 9 ? "train" : "valid")
    } }'
}
events 320 1 > "$work/train.csv"
events 100 2 > "$work/eval.csv"
cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 11; steps = 14; threads = 1; log_every = 1; };
data = { format = "csv"; train = "train.csv"; eval = "eval.csv"; global_batch = 40;
  columns = (
    { name = "item"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 32; truncate = "oldest"; },
    { name = "next"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 32; truncate = "oldest"; } ); };
tables = ( { name = "item"; rows = 40; dim = 8; features = ["item", "next"]; pooling = "none"; } );
table_defaults = { optimizer = { kind = "rowwise_adagrad"; lr = 0.1; }; };
model = { layers = (
  { name = "looks"; kind = "attention"; in = "item"; heads = 2; dropout = 0.2; },
  { name = "sum"; kind = "add"; in = ["looks", "item"]; },
  { name = "kept"; kind = "dropout"; in = "sum"; p = 0.1; } );
  outputs = ( { name = "next"; in = "kept"; loss = "sampled_softmax"; target = "next"; negatives = 5; exclude = ["item"]; first_item = 1; } ); };
optimizer = { kind = "adam"; lr = 0.01; };
metrics = { report = ["hit_rate", "ndcg", "mrr", "recall_at_k"]; k = 10; };
sharding = { topology = "default"; };
DECK
told() { # FOLDER [options]: "CUT EVEN" of what the log of two ranks says
  folder=$1; shift
  ${MPIRUN:-mpirun} -q -n "$w" "$TESSERA" train "$work/${deck:-small}.deck" --set run.output="$work/$folder" "$@" > "$work/log" 2>&1 || { cat "$work/log"; return 1; }
  sed -n 's/^balance: the rank with most to do in a step had \([0-9.]*\) of the mean; \([0-9.]*\) with as many samples each$/\1 \2/p' "$work/log" > "$work/$folder.told"
}
better() { awk -v most="$2" -v least="$3" '{ n++; if ($1 > most || $2 < least) { print; bad = 1 } } END { exit bad || n != 1 }' "$work/$1.told"; } # FOLDER, the cut is at MOST, even parts are at LEAST
silent() { [ ! -s "$work/$1.told" ]; }
say() { cat "$work/$1.told"; }

w=1; check "one rank" told one; check "one rank has nothing to balance" silent one
w=2; check "two" told two; check "two: better" better two 1.1 1.7
check "two: as one" close_losses one two 1e-6 14
w=4; check "four" told four; check "four: better" better four 1.45 2.5
check "four: as one" close_losses one four 1e-6 14
w=2; check "as many each" told even --set 'data.balance="samples"'; check "as many each: says nothing" silent even
check "as many each: as one" close_losses one even 1e-6 14
check "other parts were taken" sh -c "! cmp -s '$work/two/metrics.jsonl' '$work/even/metrics.jsonl'"

# Formats and orders tell the same lengths.
check "to HDF5" "$TESSERA" convert "$work/small.deck" train --quiet --out "$work/train.h5"
sed 's/encoding = "none"; list_separator = "|"; //; s/format = "csv"; train = "train.csv"/format = "dataset"; train = "train.h5"/; s/ eval = "eval.csv";//' "$work/small.deck" > "$work/h5.deck"
deck=h5; check "HDF5" told h5; deck=
check "HDF5: the same parts" cmp "$work/two.told" "$work/h5.told"
check "HDF5: same bits" same_bits "$(newest two)" "$(newest h5)"
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null && python=/usr/bin/python3
if $python -c 'import h5py, numpy' 2> /dev/null; then
  $python - "$work" <<'PY'
import h5py, numpy, sys
f = h5py.File(sys.argv[1] + "/train.h5")
numpy.savez(sys.argv[1] + "/train.npz", labels=f["labels"][:], **{f"{k}_{x}": f["sparse"][k][x][:] for k in f["sparse"] for x in ("values", "offsets")})
PY
  sed 's/format = "dataset"; train = "train.h5"/format = "npy"; train = "train.npz"/' "$work/h5.deck" > "$work/npz.deck"
  deck=npz; check "npz" told npz; deck=
  check "npz: the same parts" cmp "$work/two.told" "$work/npz.told"
  check "npz: same bits" same_bits "$(newest two)" "$(newest npz)"
fi
for shuffle in full block; do
  check "$shuffle" told csv-$shuffle --set data.shuffle=$shuffle
  check "$shuffle: better" better csv-$shuffle 1.1 1.1
  deck=h5; check "$shuffle, HDF5" told h5-$shuffle --set data.shuffle=$shuffle; deck=
  check "$shuffle, HDF5: same bits" same_bits "$(newest csv-$shuffle)" "$(newest h5-$shuffle)"
  check "$shuffle: one rank" train 1 one-$shuffle --set data.shuffle=$shuffle
  check "$shuffle: as one" close_losses one-$shuffle csv-$shuffle 1e-6 14
done
split="--set run.valid_every=100 --set data.split.by=\"column:part\" --set data.shuffle=full"
check "some of the samples" told split $split; check "some: better" better split 1.15 1.1
check "some: one rank" train 1 one-split $split
check "some: as one" close_losses one-split split 1e-6 14
gzip -k "$work/train.csv"
check "packed" told packed --set data.train="$work/train.csv.gz"; check "packed: read once" silent packed
check "packed: as one" close_losses one packed 1e-6 14

# In parts, after a restart, in other pipelines.
check "micro-batches" told parts --set run.accumulate=3; check "micro-batches: as one" close_losses one parts 1e-6 14
for set in pipeline.kind=base pipeline.kind=fused_sparse_dist pipeline.kind=prefetch data.input=columns dense.parallel=fully_sharded; do
  check "$set" train 2 "$set" --set $set
  check "$set: same bits" same_bits "$(newest two)" "$(newest "$set")"
done
check "stopped" train 2 stop --set run.steps=5
check "goes on" train 2 stop
check "goes on: same bits" same_bits "$(newest two)" "$(newest stop)"
check "stopped, shuffled" train 2 full --set data.shuffle=full --set run.steps=9
check "goes on with three" train 3 full --set data.shuffle=full
check "goes on with three: as one" close_losses one-full full 1e-6 14

# An evaluation's figures, in the order of the samples.
for ranks in 1 2 3; do
  ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" eval "$work/small.deck" --set run.output="$work/one" > "$work/eval$ranks" 2>&1
  item_figures "$work/eval$ranks" > "$work/figures$ranks"
  check "lists, $ranks ranks" ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" topk "$work/small.deck" --quiet --set run.output="$work/one" --k 5 --out "$work/best$ranks.csv"
done
for ranks in 2 3; do
  check "figures of $ranks ranks" close_item_figures "$work/figures1" "$work/figures$ranks"
  check "lists of $ranks ranks" cmp "$work/best1.csv" "$work/best$ranks.csv"
done

# Evaluations go on with the last rows of a value alone, once where two layers pass
# it on: as where one of them copies it.
awk -F, 'NR > 1 { n = split($2, x, "|"); $2 = x[n] } { print $1 "," $2 "," $3 }' "$work/eval.csv" > "$work/last.csv"
sed '/{ name = "looks"/,/{ name = "kept"/d; s/^model = { layers = (/&\
  { name = "v"; kind = "linear"; in = "item"; units = 8; }, { name = "a"; kind = "dropout"; in = "v"; p = 0.2; },\
  { name = "b"; kind = "dropout"; in = "v"; p = 0.3; }, { name = "looks"; kind = "attention"; in = "v"; },\
  { name = "both"; kind = "multiply"; in = ["a", "b"]; }, { name = "kept"; kind = "add"; in = ["looks", "both"]; } );/; s/eval.csv/last.csv/' "$work/small.deck" > "$work/passed.deck"
sed 's/{ name = "b"; kind = "dropout"; in = "v"; p = 0.3; }/{ name = "b"; kind = "scale"; in = "v"; factor = 1.0; }/' "$work/passed.deck" > "$work/copied.deck"
check "two that pass on" "$TESSERA" train "$work/passed.deck" --quiet --set run.output="$work/passed"
for how in passed copied; do
  check "$how: lists" "$TESSERA" topk "$work/$how.deck" --quiet --set run.output="$work/passed" --k 5 --out "$work/$how.csv"
done
check "the same lists" cmp "$work/passed.csv" "$work/copied.csv"

# A GPU's memory.
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  few="--set run.steps=4"
  check "few" train 1 few $few
  host=$TESSERA TESSERA=$emulated; check "emulated" told emulated $few --set run.backend=emulated; TESSERA=$host
  check "emulated: better" better emulated 1.1 1.7; check "emulated: as one" close_losses few emulated 1e-6 4
fi

# Room: ten lists of 20 and 30 of one id, in halves 210 and 20, or 120 and 110.
awk 'BEGIN { print "item,next,part"; for (i = 0; i < 40; i++) { a = "1"; for (k = 1; k < 20 && i < 10; k++) a = a "|" k + i; print a "," a ",train" } }' > "$work/train.csv"
sed 's/ eval = "eval.csv";//; s/steps = 14/steps = 1/' "$work/small.deck" > "$work/x" && mv "$work/x" "$work/small.deck"
no_room() { ! train 2 tight --set data.max_tokens=130 --set 'data.balance="samples"' 2> "$work/err"; }
check "no room for as many each" no_room
check "says so" grep -q "a rank's batch has 210 ids of feature item, and there is room for 130: give a larger data.max_tokens" "$work/err"
check "room for equal parts" train 2 tight --set data.max_tokens=130
passed
