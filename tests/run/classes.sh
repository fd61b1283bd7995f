#!/bin/sh
# classes.sh - an output of loss softmax_cross_entropy beside one of bce: the
# same losses on any ranks, strategies and emulated GPUs, a restart bit for bit,
# figures that are its predictions', data sets, and what is refused.
# seconds: 200
. "$srcdir/tests/support/common.sh"
not_sanitized
host=$TESSERA
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
# The kind is u's, but for one sample of five; where w is 0 it is not known.
awk 'BEGIN { print "u,v,click,kind,w,known"; srand(3)
  for (i = 0; i < 600; i++) { u = int(rand() * 9); v = int(rand() * 7); known = rand() < 0.9
    print u "," v "," (v % 2) "," (known ? (rand() < 0.2 ? int(rand() * 3) : u % 3) : "") "," int(rand() * 4) / 2 "," known + 0 } }' > "$work/a.csv"
cat > "$work/k.deck" <<'DECK'
run = { steps = 12; threads = 1; log_every = 1; };
data = { train = "a.csv"; eval = "a.csv"; format = "csv"; global_batch = 100;
  columns = ( { name = "click"; kind = "label"; }, { name = "kind"; kind = "label"; label = "class"; }, { name = "w"; kind = "weight"; },
    { name = "u"; kind = "ids"; encoding = "none"; }, { name = "v"; kind = "ids"; encoding = "none"; } ); };
table_defaults = { dim = 4; optimizer = { kind = "adam"; lr = 0.05; }; };
tables = ( { name = "u"; rows = 9; features = "u"; }, { name = "v"; rows = 7; features = "v"; } );
model = { layers = (
    { name = "deep"; kind = "mlp"; in = "embeddings"; units = [8]; },
    { name = "click"; kind = "linear"; in = "deep"; units = 1; },
    { name = "scores"; kind = "linear"; in = "deep"; units = 3; } );
  outputs = ( { name = "kind"; in = "scores"; loss = "softmax_cross_entropy"; where = "known"; smoothing = 0.1; }, { name = "click"; in = "click"; weight = 0.5; } ); };
optimizer = { kind = "adam"; lr = 0.02; };
sharding = { topology = "default"; };
DECK
tess() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
go() { ranks=$1; folder=$2; shift 2; tess "$ranks" train "$work/k.deck" --quiet --set run.output="$work/$folder" "$@"; }
fails() { # code, text, command...
  code=$1; text=$2; shift 2
  "$@" > "$work/out" 2>&1
  [ $? = "$code" ] && grep -q -- "$text" "$work/out" || { cat "$work/out"; return 1; }
}

go 1 one || exit 1
go 2 two || exit 1
check "two ranks as one" close_losses one two 1e-5 12
# ln 3 + ln 2 / 2, as many as count, and less once it has learnt.
check "losses" test "$(losses one | awk 'NR == 1 { print ($1 > 1.2 && $1 < 1.6) } END { print ($1 < 1.1) }' | tr -d '\n')" = 11
go 2 fully --set dense.parallel=fully_sharded || exit 1
check "fully sharded" close_losses one fully 1e-5 12
go 2 micro --set run.accumulate=3 || exit 1
check "micro-batches" close_losses one micro 1e-5 12
go 1 threads --set run.threads=2 || exit 1
check "on threads" same_bits "$(newest one)" "$(newest threads)"
go 2 again --set run.steps=5 && go 2 again || exit 1
check "restart" same_bits "$(newest again)" "$(newest two)"
check "with its metrics" h5diff -q "$(newest again)" "$(newest two)" /metrics /metrics
tess 2 train "$work/two/deck.effective" --quiet --set run.output="$work/effective" --set checkpoint.dir="$work/effective/checkpoints" || exit 1
check "deck.effective" same_bits "$(newest effective)" "$(newest two)"
learnt="--set model.outputs=({name=\"kind\";in=\"scores\";loss=\"softmax_cross_entropy\";where=\"known\";weight=\"uncertainty\";},{name=\"click\";in=\"click\";})"
go 1 learnt1 $learnt && go 2 learnt2 $learnt || exit 1
check "a weight that is learnt" close_losses learnt1 learnt2 1e-5 12
if [ -x "$emulated" ]; then
  TESSERA=$emulated
  for ranks in 1 2; do
    go $ranks gpu$ranks --set run.backend=emulated || exit 1
    check "emulated GPUs of $ranks ranks" close_losses one gpu$ranks 1e-5 12
  done
  go 1 gpu3 --set run.backend=emulated $learnt || exit 1
  check "a learnt weight there" close_losses learnt1 gpu3 1e-5 12
  "$TESSERA" eval "$work/k.deck" --set run.backend=emulated --set run.output="$work/one" > "$work/eval-gpu" || exit 1
  TESSERA=$host
fi

# A probability a class, six digits each, which sum to 1; figures are theirs.
tess 2 predict "$work/k.deck" --set run.output="$work/one" --out "$work/p.csv" > "$work/out" || exit 1
check "columns" test "$(head -n 1 "$work/p.csv")" = prediction_kind_0,prediction_kind_1,prediction_kind_2,prediction_click
check "rows sum to 1" awk -F, 'NR > 1 { s = $1 + $2 + $3 - 1; n++; if (s > 2e-6 || s < -2e-6) exit 1 } END { if (n != 600) exit 1 }' "$work/p.csv"
cut -d, -f1,2 "$work/a.csv" > "$work/bare.csv"
tess 1 predict "$work/k.deck" --set run.output="$work/one" --set data.eval="$work/bare.csv" --out "$work/q.csv" > "$work/out" || exit 1
check "of files without labels" cmp "$work/p.csv" "$work/q.csv"
tess 1 predict "$work/k.deck" --set run.output="$work/one" --out "$work/p.h5" > "$work/out" || exit 1
check "in HDF5" test "$(h5ls "$work/p.h5" | sed 's/.*Dataset //' | tr '\n' ' ')" = '{600, 2} {600, 4} '
paste -d, "$work/a.csv" "$work/p.csv" | awk -F, 'NR > 1 && $6 && $5 > 0 { p = $($4 + 7); best = $7 >= $8 && $7 >= $9 ? 0 : $8 >= $9 ? 1 : 2
  n++; w += $5; l -= $5 * log(p); r += $5 * (best == $4) } END { print n, l / w, r / w }' > "$work/figures"
read -r samples logloss accuracy < "$work/figures"
for ranks in 1 2; do tess $ranks eval "$work/k.deck" --set run.output="$work/one" > "$work/eval-$ranks" || exit 1; done
for from in "$work"/eval-*; do
  check "figures: ${from##*-}" sh -c "sed -n 's/^evaluation of kind: \([0-9]*\) samples  log loss \([0-9.]*\)  accuracy \([0-9.]*\)\$/\1 \2 \3/p' '$from' |
    awk -v n=$samples -v l=$logloss -v a=$accuracy '{ x = \$2 - l; y = \$3 - a; ok = \$1 == n && x < 1e-5 && x > -1e-5 && y < 1e-4 && y > -1e-4 } END { exit !ok }'"
  check "and the other's: ${from##*-}" grep -q '^evaluation of click: .* AUC' "$from"
done
check "it is learnt" awk -v a="$accuracy" 'BEGIN { exit !(a > 0.6) }'
tess 2 eval "$work/k.deck" --set run.output="$work/one" --set 'metrics.report=["auc","accuracy"]' --by v > "$work/out" || exit 1
check "by a column, of what is listed" test "$(grep -c '^v = . of kind: .* samples  accuracy [0-9.]*$' "$work/out")" = 7
go 2 best --set run.valid_every=3 --set data.valid="$work/a.csv" --set run.stop='{patience=9;metric="accuracy";}' || exit 1
check "validations" grep -q 'validation: accuracy [0-9.]* is the best so far' "$work/best/log"
check "no NE" test "$(grep -c '"window_ne"' "$work/best/metrics.jsonl")" = 0

# One task alone, from a data set: columns of the classes, and the same bits.
alone="--set model.layers=({name=\"deep\";kind=\"mlp\";in=\"embeddings\";units=[8];},{name=\"scores\";kind=\"linear\";in=\"deep\";units=3;}) --set model.outputs=({name=\"kind\";loss=\"softmax_cross_entropy\";})"
awk -F, 'NR == 1 || $6' "$work/a.csv" > "$work/full.csv"
go 2 csv $alone --set data.train="$work/full.csv" --set data.eval="$work/full.csv" || exit 1
tess 1 convert "$work/k.deck" $alone --set run.output="$work/c" --set data.train="$work/full.csv" --out "$work/d.h5" > "$work/out" || exit 1
go 2 sets $alone --set data.format=auto --set 'data.columns=()' --set data.train="$work/d.h5" --set data.eval="$work/d.h5" || exit 1
check "data sets" same_bits "$(newest sets)" "$(newest csv)"
tess 1 predict "$work/k.deck" $alone --set run.output="$work/csv" --set data.eval="$work/full.csv" --out "$work/p.csv" > "$work/out" || exit 1
check "one task's columns" test "$(head -n 1 "$work/p.csv")" = prediction_kind_0,prediction_kind_1,prediction_kind_2

# What is refused, on all ranks.
sed '77s/.*/1,2,0,3,1,1/' "$work/a.csv" > "$work/b.csv"
sed '77s/.*/1,2,0,1.5,1,1/' "$work/a.csv" > "$work/none.csv"
why='b.csv:77: column "kind": the label is none of its 3 classes, which are 0 to 2: "3"'
check "no such class" fails 3 "$why; data.on_bad_record" go 2 bad --set data.train="$work/b.csv"
check "in an evaluation" fails 3 "$why" tess 2 eval "$work/k.deck" --set run.output="$work/one" --set data.eval="$work/b.csv"
check "no class at all" fails 3 'the label is no class: 0, 1, 2 and so on' go 2 bad --set data.train="$work/none.csv"
# With skip both are records without weight; convert has no model to judge by.
skip="--set data.on_bad_record=skip"
for bad in b none; do
  go 2 skip-$bad $skip --set data.train="$work/$bad.csv" || exit 1
  check "skipped: $bad" grep -q 'NOTE: 2 bad records were skipped' "$work/skip-$bad/log"
  tess 2 eval "$work/k.deck" $skip --set run.output="$work/one" --set data.eval="$work/$bad.csv" | grep '^evaluation' > "$work/skip-$bad.txt"
done
check "the same bits" same_bits "$(newest skip-b)" "$(newest skip-none)"
check "the same figures" cmp "$work/skip-b.txt" "$work/skip-none.txt"
check "and fewer samples" test "$(sed -n 's/^evaluation of click: \([0-9]*\).*/\1/p' "$work/skip-b.txt")" -lt "$(sed -n 's/^evaluation of click: \([0-9]*\).*/\1/p' "$work/eval-2")"
check "too many" fails 3 "$why (data.max_bad is reached)" go 2 bad $skip --set data.max_bad=0 --set data.train="$work/b.csv"
sed '77s/.*/1,2,0,3,1,1/' "$work/full.csv" > "$work/b.csv"
tess 1 convert "$work/k.deck" $alone --set run.output="$work/c" --set data.train="$work/b.csv" --out "$work/b.h5" > "$work/out" || exit 1
check "in data sets" fails 3 'b.h5: sample 75: label "kind" is 3, none of its 3 classes, which are 0 to 2' go 2 bad $alone --set data.format=auto --set 'data.columns=()' --set data.train="$work/b.h5" --set data.eval="$work/b.h5"
sed 's/units = 3/units = 1/' "$work/k.deck" > "$work/bad.deck"
check "one class" fails 2 'output kind reads "scores", which is (B, 1): a loss takes (B, classes)' tess 1 train "$work/bad.deck" --check
check "classes of bce" fails 2 'output kind reads "scores", which is (B, 3): a loss takes (B, 1)' tess 1 train "$work/k.deck" --check --set 'model.outputs=({name="kind";label="click";in="scores";},{name="click";in="click";})'
sed 's/ label = "class";//' "$work/k.deck" > "$work/bad.deck"
check "a binary label" fails 2 'softmax_cross_entropy "class"' tess 1 train "$work/bad.deck" --check
check "AUC of it" fails 2 'of loss softmax_cross_entropy has logloss and accuracy' go 1 bad --set run.valid_every=3 --set data.valid="$work/a.csv" --set run.stop='{patience=9;metric="auc";}'
check "calibration of it" fails 2 '\-\-calibration is for loss bce: task "kind"' tess 1 eval "$work/k.deck" --set run.output="$work/one" --calibration
check "a model of one logit a task" fails 2 'wants an output a class, as layers have it' tess 1 train "$work/k.deck" --check --set 'model={kind="dlrm";over_arch=[1];outputs=({name="kind";loss="softmax_cross_entropy";});}'
passed
