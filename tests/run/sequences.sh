#!/bin/sh
# sequences.sh - a model of two sequences that are read id by id, and of their
# times, in whole runs:
# the same on any ranks, pipelines, shardings, tiers, in two parts, on a GPU's
# memory; eval and predict; its mistakes.
# seconds: 140
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
# lists LINES SEED: label, item, and two lists of 0 to 20 ids, equally long, and
# their times, mostly with one more; the label tends to say whether the last id
# and the item are odd alike.
lists() {
  awk -v n="$1" -v seed="$2" 'BEGIN {
    srand(seed); print "label,item,history,kinds,when"
    for (i = 0; i < n; i++) {
      m = int(rand() * 21); a = b = ""; last = 0; item = int(rand() * 60)
      t = 1e9 + int(rand() * 1e6); w = i % 3 || !m ? t : ""
      for (k = 0; k < m; k++) {
        last = int(rand() * 60)
        a = a (k ? "|" : "") last; b = b (k ? "|" : "") last % 7
        t += int(exp(rand() * 12)); w = w (w == "" ? "" : "|") t
      }
      print (rand() < (last % 2 == item % 2 ? 0.8 : 0.2)) "," item "," a "," b "," w
    } }'
}
lists 1000 1 > "$work/train.csv"
lists 300 2 > "$work/eval.csv"
cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 11; steps = 15; threads = 1; log_every = 1; };
data = { format = "csv"; train = "train.csv"; eval = "eval.csv"; global_batch = 96;
  columns = ( { name = "label"; kind = "label"; }, { name = "item"; kind = "ids"; encoding = "modulo"; },
    { name = "history"; kind = "ids"; encoding = "modulo"; list_separator = "|"; max_length = 20; }, { name = "when"; kind = "ids"; encoding = "none"; list_separator = "|"; },
    { name = "kinds"; kind = "ids"; encoding = "modulo"; list_separator = "|"; max_length = 20; } ); };
tables = ( { name = "item"; rows = 60; dim = 16; features = ["item"]; },
           { name = "history"; rows = 60; dim = 16; features = ["history"]; pooling = "none"; },
           { name = "kinds"; rows = 7; dim = 4; features = ["kinds"]; pooling = "none"; },
           { name = "when"; rows = 1; dim = 4; features = ["when"]; pooling = "none"; } );
table_defaults = { optimizer = { kind = "rowwise_adagrad"; lr = 0.1; }; };
model = { layers = (
  { name = "place";  kind = "position";   in = "history"; places = 20; },
  { name = "looks";  kind = "attention";  in = "place"; heads = 2; places = "rotary"; dropout = 0.2; times = "when"; },
  { name = "sum";    kind = "add";        in = ["place", "looks"]; },
  { name = "normed"; kind = "layer_norm"; in = "sum"; },
  { name = "each";   kind = "mlp";        in = ["normed", "kinds"]; units = [24, 16]; dropout = 0.1; },
  { name = "both";   kind = "add";        in = ["each", "sum"]; },
  { name = "block";  kind = "hstu";       in = "both"; heads = 2; places = 6; times = "when"; time_buckets = 40; dropout = 0.1; },
  { name = "like";   kind = "target_attention"; in = "block"; query = "item"; units = [8]; },
  { name = "user";   kind = "pool";       in = "block"; },
  { name = "newest"; kind = "pool";       in = "both"; by = "last"; },
  { name = "most";   kind = "pool";       in = "each"; by = "max"; },
  { name = "match";  kind = "multiply";   in = ["user", "item"]; },
  { name = "click";  kind = "mlp";        in = ["match", "like", "user", "newest", "most", "item"]; units = [16, 1]; last_activation = "linear"; } ); };
optimizer = { kind = "sgd"; lr = 0.2; };
sharding = { topology = "default"; };
DECK

# On any ranks, in any pipeline, sharding, tier: N lines of losses as those of one.
for ranks in 1 2 4; do check "$ranks ranks" train $ranks r$ranks; done
check "two ranks as one" close_losses r1 r2 1e-6 15
# Tables of any id.
ids=
for table in item:60 history:60 kinds:7; do ids="$ids --set tables.${table%:*}.rows=dynamic --set tables.${table%:*}.capacity=${table#*:}"; done
check "any ids" train 1 ids1 $ids
check "the same bits as with rows" close_losses r1 ids1 0 15
check "any ids, row_wise on 3 ranks" train 3 ids3 $ids --set tables.history.sharding=row_wise --set tables.item.sharding=row_wise
check "as with rows, on 3 ranks" close_losses r1 ids3 1e-6 15
check "four ranks as one" close_losses r1 r4 1e-6 15
for order in base sparse_dist prefetch fused_sparse_dist; do
  check "$order" train 2 $order --set pipeline.kind=$order
  check "$order: same bits" same_bits "$(newest r2)" "$(newest $order)"
done
for set in optimizer.in_backward=true optimizer.in_backward=false dense.parallel=fully_sharded run.lanes=serial data.input=columns \
  data.max_tokens=900 'data.dedup=["history"]'; do
  check "$set" train 2 "$set" --set "$set"
  check "$set: same bits" same_bits "$(newest r2)" "$(newest "$set")"
done
for kind in table_wise row_wise column_wise data_parallel; do
  check "$kind" train 2 $kind --set table_defaults.sharding=$kind
  check "$kind: close" close_losses r1 $kind 1e-6 15
done
cached="--set table_defaults.sharding=row_wise --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.3"
for order in base prefetch; do
  check "cached, $order" train 2 cached-$order $cached --set pipeline.kind=$order
  check "cached, $order: same bits" same_bits "$(newest row_wise)" "$(newest cached-$order)"
done
check "micro-batches" train 2 parts --set run.accumulate=3
check "micro-batches: close" close_losses r1 parts 1e-6 15
check "bf16" train 2 bf16 --set run.precision=bf16
check "bf16: close" close_losses r1 bf16 2e-2 15
check "bf16 is not f32" sh -c "! cmp -s '$work/x' '$work/y'"
semi="--set pipeline.kind=semi_sync --set pipeline.start_batch=4 --set checkpoint.every=6 --set checkpoint.keep=9"
check "semi_sync" train 2 semi $semi
check "semi_sync is not base" sh -c "[ '$(losses semi | tail -n 1)' != '$(losses r2 | tail -n 1)' ]"
mkdir -p "$work/again/checkpoints"
cp "$work"/semi/checkpoints/*06.h5 "$work/again/checkpoints"
check "semi_sync goes on" train 2 again $semi
check "semi_sync goes on: same bits" same_bits "$(newest semi)" "$(newest again)"

# Stopped inside the first epoch of 11 steps and inside the second.
check "stopped" train 2 stop --set run.steps=6
check "goes on" train 2 stop --set run.steps=13
check "and on" train 2 stop
check "same bits" same_bits "$(newest r2)" "$(newest stop)"
check "stopped, to move" train 3 moved --set run.steps=6
check "goes on alone" train 1 moved --set run.steps=13
check "goes on, four" train 4 moved
check "moved: close" close_losses r1 moved 1e-6 15

# The same samples as a data set, which says nothing of the longest sequence.
for part in train eval; do check "convert $part" "$TESSERA" convert "$work/small.deck" $part --quiet --out "$work/$part.h5"; done
cp "$work/small.deck" "$work/csv.deck"
sed -i '/^  columns/d; /^    { name = "history"/d; s/^    { name = "kinds".*/};/; s/"csv"/"dataset"/; s/\.csv/.h5/g' "$work/small.deck"
check "data set" train 2 set --set table_defaults.sharding=table_wise --set data.max_tokens=1000
check "data set: same bits" same_bits "$(newest table_wise)" "$(newest set)"
mistake() { # RANKS CODE WORDS OPTIONS
  n=$1; want=$2; words=$3; shift 3
  train "$n" bad "$@" > "$work/out" 2> "$work/err"; code=$?
  rm -rf "$work/bad"
  [ $code = "$want" ] && [ "$(grep -c '^tessera: error:' "$work/err")" = 1 ] && grep -qF -- "$words" "$work/err" && return
  echo "code $code, not $want, or not one message \"$words\":"; cat "$work/err"; return 1
}
check "no bound" mistake 2 2 'layer place (position): it reads "history" id by id, and nothing says how many ids a batch has at most: give data.max_tokens'
check "more than the bound" mistake 2 3 'ids of feature history, and there is room for 300: give a larger data.max_tokens' --set data.max_tokens=300
cp "$work/csv.deck" "$work/small.deck"

# What eval and predict say.
of_evaluation() { grep 'evaluation.* samples ' "$1" | tail -n 1 | grep -o 'log loss [0-9.]*'; }
check "eval" "$TESSERA" eval "$work/small.deck" --set run.output="$work/r2" > "$work/said"
for ranks in 1 3; do
  predict="${MPIRUN:-mpirun} -q -n $ranks $TESSERA predict $work/small.deck --quiet --set run.output=$work/r2"
  check "predict" $predict --out "$work/p$ranks.csv"
  check "predict --layer, pooled" $predict --layer user --out "$work/user$ranks.csv"
  check "predict --layer, the logit" $predict --layer click --out "$work/click$ranks.csv"
done
near() { # FILE FILE: numbers, to 1e-5
  paste -d, "$1" "$2" | awk -F, 'NR > 1 { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d < -1e-5 || d > 1e-5) bad = 1 } } END { exit bad || NR != 301 }'
}
for name in p user click; do check "$name on 1 and 3 ranks" near "$work/${name}1.csv" "$work/${name}3.csv"; done
check "--layer: columns" test "$(head -n 1 "$work/user1.csv" | tr ',' '\n' | grep -c '^layer_')" = 16
check "a sample without ids has zeros" awk -F, 'NR == FNR { none[FNR] = $3 == ""; next }
  FNR > 1 { s = 0; for (i = 1; i <= NF; i++) s += $i * $i; if (none[FNR] != (s == 0)) bad = 1; n += none[FNR] } END { exit bad || !n }' "$work/eval.csv" "$work/user1.csv"
check "predictions are of the logit" sh -c "paste -d, '$work/click1.csv' '$work/p1.csv' | awk -F, 'NR > 1 { d = 1 / (1 + exp(-\$1)) - \$2; if (d < -1e-5 || d > 1e-5) bad = 1 } END { exit bad || NR != 301 }'"
loss=$(of_evaluation "$work/said" | cut -d ' ' -f 3)
check "eval has the loss of the predictions" sh -c "paste -d, '$work/eval.csv' '$work/p1.csv' | awk -F, 'NR > 1 { s -= log(\$1 ? \$6 : 1 - \$6) } END { d = s / 300 - $loss; exit !(d < 2e-5 && d > -2e-5) }'"
"$TESSERA" predict "$work/small.deck" --set run.output="$work/r2" --layer both --out "$work/no.csv" > "$work/out" 2> "$work/err"; code=$?
check "--layer of tokens: code 2, not $code" test $code = 2
check "--layer of tokens: says so" grep -qF -- '--layer both: it gives a row for each token; name a layer that gives one a sample' "$work/err"
check "no file of it" test ! -e "$work/no.csv"

# Mistakes.
awk -F, -v OFS=, 'NR == 40 { $4 = $4 "|3" } 1' "$work/eval.csv" > "$work/longer.csv"
for ranks in 1 3; do
  check "unequal sequences" mistake $ranks 3 'of kinds, which a layer takes side by side, token by token: they have to be as many' --set data.train="$work/longer.csv"
done
"$TESSERA" eval "$work/small.deck" --set run.output="$work/r2" --set data.eval="$work/longer.csv" > "$work/out" 2> "$work/err"; code=$?
check "eval of unequal sequences: code 3, not $code" test $code = 3
awk -F, -v OFS=, 'NR == 40 { $5 = $5 "|1000000000|1000000000" } 1' "$work/train.csv" > "$work/times.csv"
check "more times" mistake 2 3 'of when, which a layer takes for their times: it wants as many, or one more' --set data.train="$work/times.csv"
awk -F, -v OFS=, 'NR == 40 { $5 = "-7" } 1' "$work/train.csv" > "$work/times.csv"
check "a time below 0" mistake 2 3 'times.csv:40: column "when": a time is a number from 0 on: "-7"' --set data.train="$work/times.csv"
check "times of a table that has rows" mistake 2 2 'times: "when" is of table when, of which nothing is looked up, but that table'"'"'s rows are not 1' --set tables.when.rows=50
check "times that are pooled" mistake 2 2 'of which nothing is looked up, but that table pools' --set tables.when.pooling=sum
check "times that a layer reads" mistake 2 2 'but a layer reads it for what it looks up' --set 'model.change=({name="each";in=["normed","kinds","when"];})'
check "times of no feature" mistake 2 2 'layer block: times: no table has a feature "hour"' --set 'model.change=({name="block";times="hour";})'
check "times of two features" mistake 2 2 'is another feature than that of the layers above' --set 'model.change=({name="each";times="kinds";})'
check "times of ids that go" mistake 2 2 'data.on_bad_id = "drop" would leave the times of ids that go ("when"): give "stop"' --set data.on_bad_id=drop
check "importance" sh -c "! '$TESSERA' eval '$work/small.deck' --set run.output='$work/r2' --importance > '$work/out' 2>&1 && grep -q 'key times of a layer) go with the ids' '$work/out'"
check "a kind without times" mistake 2 2 'layer like (target_attention): it does not take the key times' --set 'model.change=({name="like";times="when";})'
sed 's/\(name = "when"; kind = "ids"; encoding = \)"none"/\1"hash"/' "$work/csv.deck" > "$work/small.deck"
check "hashed times, of a format that the file's name says" mistake 2 2 'times: "when" has to be numbers as they are' --set data.format=auto
sed -i 's/encoding = "hash"; \(list_separator = "|"; },\) *$/\1/' "$work/small.deck"
check "times without encoding" mistake 2 2 'times: "when" has to be numbers as they are' --set data.format=auto
sed 's/\(name = "when"; kind = "ids"; encoding = \)"none"/\1"hash"/' "$work/csv.deck" > "$work/small.deck"
check "hashed times" mistake 2 2 'times: "when" has to be numbers as they are: give it encoding = "none" in data.columns'
cp "$work/csv.deck" "$work/small.deck"
check "weighted" mistake 2 2 'pooling = "none" gives rows as they are and takes no weights' --set tables.history.weighted=true
check "a logit of tokens" mistake 2 2 'output label reads "both", which is (T, 16): a loss takes one row for each sample' --set 'model.outputs=({label="label";in="both";})'
check "a last layer of tokens" mistake 2 2 'layer click (mlp): it is the last one and gives a row for each token' --set 'model.change=({name="click";in="both";})'
sed -i '/^model = /,/^  { name = "click"/d; s/dim = 4/dim = 16/' "$work/small.deck"
echo 'model = { kind = "dlrm"; over_arch = [4, 1]; };' >> "$work/small.deck"
check "a model that takes none" mistake 2 2 'table history: pooling "none" gives sequences, which model dlrm does not take'
sed -i 's/^model = .*/model = { kind = "dcnv2_moe"; };/' "$work/small.deck"
check "a graph that reads none" mistake 2 2 'no layer reads feature history of table history: leave it out of the table'
cp "$work/csv.deck" "$work/small.deck"

# A GPU's memory, three batches of 24 samples and less an epoch; a graph is of
# one rank.
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  head -n 62 "$work/train.csv" > "$work/few.csv"
  few="--set data.train=few.csv --set data.global_batch=24 --set run.steps=6"
  check "few" train 1 few $few
  TESSERA=$emulated few="$few --set run.backend=emulated"
  for graph in auto off; do
    check "emulated, graphs $graph" train 1 graph-$graph $few --set run.graph=$graph
  done
  check "graphs: same bits" same_bits "$(newest graph-auto)" "$(newest graph-off)"
  check "graphs" sh -c "! grep 'run.graph: steps are' '$work/graph-auto/log'"
  check "emulated: close" close_losses few graph-auto 1e-6 6
  check "emulated, cached, two ranks" train 2 device $few $cached --set pipeline.kind=prefetch
  check "emulated, cached, two ranks: close" close_losses few device 1e-6 6
  check "emulated, micro-batches" mistake 1 2 'run.accumulate = 2: on a GPU not with tables of pooling = "none"' $few --set run.accumulate=2
fi
passed
