#!/bin/sh
# topk.sh - `tessera topk`, and evaluations that rank all items, against NumPy: of
# tokens and of a vector, on any ranks, shardings and tiers; words; mistakes.
# seconds: 60
. "$srcdir/tests/support/common.sh"
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
python=/usr/bin/python3
$python -c 'import h5py, numpy' 2> /dev/null || { echo "needs python3-h5py and python3-numpy"; exit 77; }
awk 'BEGIN { srand(4); print "user,item,next"
  for (i = 0; i < 70; i++) {
    m = int(rand() * 10); w = 1 + int(rand() * 3); if (w > m) w = m; a = b = ""
    for (k = 0; k < m; k++) a = a (k ? "|" : "") int(rand() * 90)
    for (k = 0; k < w; k++) b = b (k ? "|" : "") int(rand() * 90)
    print int(rand() * 30) "," a "," b
  } }' > "$work/a.csv"
deck() { # NAME IN COLUMN TABLE FEATURES
  cat > "$work/$1.deck" <<DECK
run = { name = "topk"; seed = 7; steps = 6; threads = 2; };
data = { format = "csv"; train = "a.csv"; eval = "a.csv"; global_batch = 32;
  columns = ( $3 { name = "next"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 9; } ); };
table_defaults = { dim = 11; init = { scale = 0.5; }; optimizer = { kind = "sgd"; lr = 0.5; }; };
tables = ( $4 { name = "item"; rows = 90; features = [$5"next"]; pooling = "none"; } );
model = { layers = ( { name = "q"; kind = "scale"; in = "$2"; } );
  outputs = ( { name = "next"; in = "q"; loss = "sampled_softmax"; target = "next"; negatives = 3; $6 } ); };
metrics = { report = ["logloss", "hit_rate", "ndcg", "mrr", "recall_at_k"]; k = 10; };
sharding = { topology = "default"; };
DECK
}
list='{ name = "item"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 9; },'
deck tokens item "$list" '' '"item", ' 'exclude = ["item"]; normalise = true; temperature = 0.2; first_item = 2;'
deck user user '{ name = "user"; kind = "ids"; encoding = "none"; },' '{ name = "user"; rows = 30; features = "user"; },' '' ''
tess() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@" < /dev/null; }
# Behind each wanted id four that are not.
awk -F, 'NR == 1 { print; next } { srand(NR); n = split($3, a, "|"); s = ""
  for (i = 1; i <= n; i++) { s = s (i > 1 ? "|" : "") a[i]; for (k = 0; k < 4; k++) { do x = int(rand() * 90); while (x == a[i]); s = s "|" x } }
  print $1 "," $2 "," s }' "$work/a.csv" > "$work/given.csv"
for by in tokens user; do
  case $by in tokens) say="by=tokens exclude=1 normalise=1 temperature=0.2 first=2" ;; *) say="by=user" ;; esac
  check "$by" tess 2 train "$work/$by.deck" --quiet --set run.output="$work/$by"
  for ranks in 1 2 3; do
    check "$by, $ranks" tess $ranks topk "$work/$by.deck" --quiet --set run.output="$work/$by" --k 10 --out "$work/$by-$ranks.h5"
    check "$by, $ranks: as NumPy has it" sh -c "$python '$srcdir/tests/run/topk.py' '$work/a.csv' '$(newest $by)' '$work/$by-$ranks.h5' 10 $say > '$work/want'"
    tess $ranks eval "$work/$by.deck" --set run.output="$work/$by" > "$work/said"
    item_figures "$work/said" > "$work/got"
    check "$by, $ranks: figures" close_item_figures "$work/got" "$work/want"
  done
  # Over all items: samples bring some along, which are not wanted.
  sed 's/sampled_softmax/full_softmax/; s/ negatives = 3;//' "$work/$by.deck" > "$work/all.deck"
  for ranks in 1 3; do
    tess $ranks eval "$work/all.deck" --checkpoint "$(newest $by)" > "$work/said"
    item_figures "$work/said" > "$work/got"
    check "$by, $ranks, over all: figures" close_item_figures "$work/got" "$work/want"
    sed -n 's/^evaluation.*log loss \([0-9.]*\).*/\1/p' "$work/said" > "$work/loss-$ranks"
  done
  check "$by: one loss over all" sh -c "[ -s '$work/loss-1' ] && cmp '$work/loss-1' '$work/loss-3'"
  check "$by: one file on any ranks" h5diff "$work/$by-1.h5" "$work/$by-3.h5"
  sed 's/a\.csv/given.csv/g; s/max_length = 9; } ); };/max_length = 90; } ); };/; s/negatives = 3;/given = 4;/; s/k = 10/k = 2/' "$work/$by.deck" > "$work/given.deck"
  $python "$srcdir/tests/run/topk.py" "$work/given.csv" "$(newest $by)" - 2 $say given=4 > "$work/want" || exit 1
  for ranks in 1 3; do
    tess $ranks eval "$work/given.deck" --checkpoint "$(newest $by)" > "$work/said"
    item_figures "$work/said" > "$work/got"
    check "$by, $ranks: figures among given ones" close_item_figures "$work/got" "$work/want"
    grep -o 'log loss [0-9.]*' "$work/said" > "$work/given-$ranks"
    sed -i 's/sampled_softmax/full_softmax/' "$work/given.deck"
  done
  check "$by: over all is over given ones" sh -c "[ -s '$work/given-1' ] && cmp '$work/given-1' '$work/given-3'"
  check "$by, CSV" tess 2 topk "$work/$by.deck" --quiet --set run.output="$work/$by" --k 200 --out "$work/$by.csv"
  n=90; [ $by = user ] || n=88
  check "$by, CSV of all items" sh -c "$python '$srcdir/tests/run/topk.py' '$work/a.csv' '$(newest $by)' '$work/$by.csv' $n $say > /dev/null"
  for kind in row_wise table_wise column_wise data_parallel; do
    check "$by, $kind" tess 3 topk "$work/$by.deck" --quiet --set run.output="$work/$by" --set table_defaults.sharding=$kind --k 10 --out "$work/$kind.h5"
    check "$by, $kind: the same" h5diff "$work/$by-1.h5" "$work/$kind.h5"
  done
  check "$by, cached" tess 2 topk "$work/$by.deck" --quiet --set run.output="$work/$by" --set table_defaults.sharding=row_wise --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.5 --k 10 --out "$work/cached.h5"
  check "$by, cached: the same" h5diff "$work/$by-1.h5" "$work/cached.h5"
done
check "keys" tess 2 topk "$work/user.deck" --quiet --set run.output="$work/user" --keys user --k 1 --out "$work/keys.csv"
check "keys: columns" test "$(head -n 1 "$work/keys.csv")" = "user,item_0,score_0"

# What a sample has seen is of a column that no layer reads.
deck seen user "{ name = \"user\"; kind = \"ids\"; encoding = \"none\"; }, $list" '{ name = "user"; rows = 30; features = "user"; },' '"item", ' 'exclude = ["item"];'
check "seen" tess 2 train "$work/seen.deck" --quiet --set run.output="$work/seen"
for input in columns kjt; do
  ranks=1; [ $input = kjt ] || ranks=3
  with="--set run.output=$work/seen --set data.input=$input"
  check "seen, $input" tess $ranks topk "$work/seen.deck" --quiet $with --k 10 --out "$work/seen.h5"
  check "seen, $input: as NumPy has it" sh -c "$python '$srcdir/tests/run/topk.py' '$work/a.csv' '$(newest seen)' '$work/seen.h5' 10 by=user exclude=1 > '$work/want'"
  tess $ranks eval "$work/seen.deck" $with > "$work/said"
  item_figures "$work/said" > "$work/got"
  check "seen, $input: figures" close_item_figures "$work/got" "$work/want"
done
other='{ name = "other"; rows = 90; features = ["item"]; pooling = "none"; }'
sed "s/pooling = \"none\"; } );/pooling = \"none\"; }, $other );/; s/exclude = \[\"item\"\]/exclude = [\"item@other\"]/" "$work/seen.deck" > "$work/apart.deck"
check "seen, of another table: the deck" grep -q 'other.*item.*' "$work/apart.deck"
check "seen, of another table" tess 2 train "$work/apart.deck" --quiet --set run.output="$work/apart"
tess 1 eval "$work/apart.deck" --set run.output="$work/apart" > "$work/said"
item_figures "$work/said" > "$work/got"
tess 1 eval "$work/seen.deck" --set run.output="$work/seen" > "$work/said"
item_figures "$work/said" > "$work/want"
check "seen, of another table: the same figures" close_item_figures "$work/got" "$work/want"
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  "$emulated" eval "$work/seen.deck" --set run.output="$work/seen" --set run.backend=emulated > "$work/said"
  item_figures "$work/said" > "$work/got"
  check "seen, emulated: the same figures" close_item_figures "$work/got" "$work/want"
fi
set -- --set run.output="$work/read" --set 'model.layers=({name="p";kind="pool";in="item";},{name="q";kind="add";in=["user","p"];})'
check "seen: read by a layer, too" tess 1 train "$work/seen.deck" --quiet "$@"
check "seen: what the layer reads" tess 1 predict "$work/seen.deck" --quiet "$@" --layer p --out "$work/p.csv"
check "seen: it is there" awk -F, 'NR > 1 { for (i = 1; i <= NF; i++) if ($i + 0 != 0) n++ } END { exit n < 300 }' "$work/p.csv"
# In two tables of two sizes neither is looked up: rows of one that nothing reads stay.
sed "s/pooling = \"none\"; } );/pooling = \"none\"; }, $(echo "$other" | sed 's/90/120/') );/; s/exclude = \[\"item\"\]/exclude = [\"item@item\"]/" "$work/seen.deck" > "$work/sizes.deck"
check "seen, of tables of two sizes" tess 2 train "$work/sizes.deck" --quiet --set run.output="$work/sizes" --set checkpoint.every=1 --set checkpoint.keep=9
check "seen, of tables of two sizes: rows stay" sh -c "cd '$work/sizes/checkpoints' && name=\$(h5ls step-00000001.h5/model | sed -n 's/\([^ ]*[.]other[.][a-z]*\) .*/\1/p') && test -n \"\$name\" && h5diff -q step-00000001.h5 step-00000006.h5 /model/\$name"

# Of equal scores the smaller ids are first, whatever rank has them.
flat="--set table_defaults.init={kind=\"constant\";scale=0.5;} --set table_defaults.optimizer.lr=0"
check "equal scores" tess 2 train "$work/user.deck" --quiet --set run.output="$work/flat" $flat
for ranks in 1 3; do
  check "equal scores, $ranks" tess $ranks topk "$work/user.deck" --quiet --set run.output="$work/flat" --k 40 --out "$work/flat.csv"
  check "equal scores, $ranks: in order" awk -F, 'NR > 1 { for (i = 1; i <= 40; i++) if ($i != i - 1) bad = 1 } END { exit bad || NR != 71 }' "$work/flat.csv"
done

# Validations judge by it.
check "validations" tess 2 train "$work/tokens.deck" --quiet --set run.output="$work/valid" --set data.valid="$work/a.csv" --set run.valid_every=2 --set run.stop='{metric="ndcg";patience=9;}' --set checkpoint.best=true
check "validations: NDCG" test "$(grep -c '"valid":true.*"ndcg":0' "$work/valid/metrics.jsonl")" = 3

# Behind the last look evaluation goes on with the last tokens alone, and of what comes before it takes theirs: "item" is read behind it, too.
sed 's/layers = (/layers = ( { name = "before"; kind = "layer_norm"; in = "item"; }, { name = "looks"; kind = "attention"; in = "before"; }, { name = "sum"; kind = "add"; in = ["item", "looks"]; },/; s/in = "item"; } );$/in = "sum"; } );/' "$work/tokens.deck" > "$work/looks.deck"
check "looks" tess 2 train "$work/looks.deck" --quiet --set run.output="$work/looks"
say="by=tokens exclude=1 normalise=1 temperature=0.2 first=2 looks=1"
for ranks in 1 3; do
  check "looks, $ranks" tess $ranks topk "$work/looks.deck" --quiet --set run.output="$work/looks" --k 10 --out "$work/looks-$ranks.h5"
  check "looks, $ranks: as NumPy has it" sh -c "$python '$srcdir/tests/run/topk.py' '$work/a.csv' '$(newest looks)' '$work/looks-$ranks.h5' 10 $say > '$work/want'"
  tess $ranks eval "$work/looks.deck" --set run.output="$work/looks" > "$work/said"
  item_figures "$work/said" > "$work/got"
  check "looks, $ranks: figures" close_item_figures "$work/got" "$work/want"
done
check "looks: one file on any ranks" h5diff "$work/looks-1.h5" "$work/looks-3.h5"
sed 's/a\.csv/given.csv/g; s/max_length = 9; } ); };/max_length = 90; } ); };/; s/negatives = 3;/given = 4;/; s/k = 10/k = 2/' "$work/looks.deck" > "$work/looks-given.deck"
$python "$srcdir/tests/run/topk.py" "$work/given.csv" "$(newest looks)" - 2 $say given=4 > "$work/want" || exit 1
tess 1 eval "$work/looks-given.deck" --checkpoint "$(newest looks)" > "$work/said"
item_figures "$work/said" > "$work/got"
check "looks: figures among given ones" close_item_figures "$work/got" "$work/want"

# Words in the place of numbers.
sed 's/\([0-9]\)\([|,]\)/\1x\2/g; s/\([0-9]\)$/\1x/; 1s/.*/user,item,next/' "$work/a.csv" > "$work/w.csv"
sed 's/encoding = "none"/encoding = "vocabulary"/g; s/a\.csv/w.csv/g; s/rows = [39]0/rows = "auto"/g' "$work/user.deck" > "$work/words.deck"
check "words" tess 1 train "$work/words.deck" --quiet --set run.output="$work/words"
check "words: topk" tess 2 topk "$work/words.deck" --quiet --set run.output="$work/words" --set model.outputs='({name="next";in="q";loss="bpr";target="next";first_item=1;})' --k 3 --out "$work/words.csv"
check "words: of the data" sh -c "sed 1d '$work/words.csv' | cut -d, -f1 | grep -v '^[0-9]*x\$' && exit 1; [ \$(wc -l < '$work/words.csv') = 71 ]"

mistake() { # WORDS, command...
  words=$1; shift
  "$@" > "$work/out" 2> "$work/err"; code=$?
  [ $code = 2 ] && [ "$(grep -c '^tessera: error:' "$work/err")" = 1 ] && grep -qF -- "$words" "$work/err" && return
  echo "code $code, or not one message \"$words\":"; cat "$work/err"; return 1
}
check "no items" mistake 'topk ranks the items of an output over items' tess 2 topk "$work/small.deck" --out "$work/x.csv"
check "predict" mistake '`tessera topk` writes the best of them' tess 2 predict "$work/user.deck" --set run.output="$work/user" --out "$work/x.csv"
check "--by" mistake '--by is of labels' tess 2 eval "$work/user.deck" --set run.output="$work/user" --by user
check "--k 0" mistake '--k' tess 1 topk "$work/user.deck" --k 0 --out "$work/x.csv"
passed
