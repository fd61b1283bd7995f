#!/bin/sh
# item_tower.sh - layers that make the items of an output (a tower of items): a
# table's rows through layers that change nothing train as the table does; the
# same on any ranks, pipelines, shardings and after a restart; figures and lists
# of data.items as NumPy makes them; mistakes.  PyTorch's case is in oracle.sh.
# seconds: 100
. "$srcdir/tests/support/common.sh"
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
python=/usr/bin/python3
$python -c 'import h5py, numpy' 2> /dev/null || { echo "needs python3-h5py and python3-numpy"; exit 77; }

# Users and what they take: items have a kind and some tags, which are the item's.
awk -v to="$work" 'BEGIN { srand(4)
  for (i = 0; i < 60; i++) {
    kind[i] = int(rand() * 7); m = int(rand() * 4); tags[i] = ""
    for (k = 0; k < m; k++) tags[i] = tags[i] (k ? "|" : "") int(rand() * 9)
  }
  print "user,age,seen,next,kind,tags" > (to "/a.csv")
  for (k = 0; k < 230; k++) {
    i = 2 + int(rand() * rand() * 58); s = ""; m = int(rand() * 4)
    for (j = 0; j < m; j++) s = s (j ? "|" : "") int(rand() * 60)
    printf "%d,%.2f,%s,%d,%d,%s\n", k % 40, rand(), s, i, kind[i], tags[i] > (to "/a.csv")
  }
  print "kind,next,tags" > (to "/items.csv")
  print "user,age,seen,next,kind,tags" > (to "/all.csv")
  for (k = 0; k < 55; k++) { # not all of them, in an order of their own
    i = (7 * k + 3) % 60
    printf "%d,%d,%s\n", kind[i], i, tags[i] > (to "/items.csv")
    printf "0,0,,%d,%d,%s\n", i, kind[i], tags[i] > (to "/all.csv")
  } }'
columns='{ name = "age"; kind = "dense"; }, { name = "user"; kind = "ids"; encoding = "none"; },
    { name = "seen"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 4; },
    { name = "next"; kind = "ids"; encoding = "none"; max_length = 1; },
    { name = "kind"; kind = "ids"; encoding = "none"; },
    { name = "tags"; kind = "ids"; encoding = "none"; list_separator = "|"; },'
cat > "$work/tower.deck" <<DECK
run = { name = "tower"; seed = 7; steps = 14; threads = 1; log_every = 1; };
data = { format = "auto"; train = "a.csv"; eval = "a.csv"; items = "items.csv"; global_batch = 32; shuffle = "full";
  columns = ( $(echo "$columns" | sed '$s/,$//') ); };
table_defaults = { dim = 6; init = { scale = 0.5; }; optimizer = { kind = "adam"; lr = 0.05; }; };
tables = ( { name = "user"; rows = 40; features = "user"; },
  { name = "item"; rows = 60; dim = 5; features = ["next", "seen"]; pooling = "none"; },
  { name = "kind"; rows = 7; features = "kind"; group = "items"; },
  { name = "tags"; rows = 9; features = "tags"; group = "items"; } );
optimizer = { kind = "adam"; lr = 0.02; };
model = { dense_features = 1; layers = (
    { name = "who"; kind = "mlp"; in = ["dense", "embeddings"]; units = [9, 8]; },
    { name = "own"; kind = "pool"; in = "next"; },
    { name = "goods"; kind = "mlp"; in = ["own", "embeddings:items"]; units = [9, 8]; } );
  outputs = ( { name = "next"; in = "who"; items = "goods"; loss = "sampled_softmax"; target = "next"; draw = "batch";
    normalise = true; temperature = 0.2; first_item = 2; exclude = ["seen"]; } ); };
metrics = { report = ["logloss", "hit_rate", "ndcg", "mrr", "recall_at_k"]; k = 10; };
sharding = { topology = "default"; };
DECK
tess() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@" < /dev/null; }
go() { # RANKS DECK FOLDER [options]
  n=$1; deck=$2; folder=$3; shift 3
  tess "$n" train "$work/$deck.deck" --quiet --set run.output="$work/$folder" "$@"
}
mistake() { # CODE WORDS DECK-EDIT [command]
  want=$1; words=$2; edit=$3; shift 3
  sed "$edit" "$work/tower.deck" > "$work/bad.deck"
  [ $# -gt 0 ] || set -- train "$work/bad.deck" --set run.output="$work/bad"
  tess 2 "$@" > "$work/out" 2> "$work/err"; code=$?
  [ $code = "$want" ] && [ "$(grep -c '^tessera: error:' "$work/err")" = 1 ] && grep -qF -- "$words" "$work/err" && return
  echo "code $code, or not one message \"$words\":"; cat "$work/err"; return 1
}

# Memory of the paths that no other test with sanitizers takes.
if [ -n "${TESSERA_SANITIZED:-}" ]; then
  check "training" go 2 tower tower --set data.valid="$work/a.csv" --set run.valid_every=7
  check "topk" tess 3 topk "$work/tower.deck" --quiet --set run.output="$work/tower" --k 10 --out "$work/top.h5"
  check "topk, columns" tess 1 topk "$work/tower.deck" --quiet --set run.output="$work/tower" --set data.input=columns --k 99 --out "$work/top.csv"
  sed 's/^kind,/sort,/' "$work/items.csv" > "$work/broken.csv"
  check "a column is missing" mistake 3 'there is no "kind"' 's/items\.csv/broken.csv/'
  echo '1,10,' >> "$work/items.csv"
  check "an item twice" mistake 3 'two items have row 10' ''
  passed
  exit
fi

# ---- a table's rows, as layers have them ------------------------------------
sed 's/items = "items.csv"; //; s/items = "goods"; //; s/draw = "batch";/& @/' "$work/tower.deck" > "$work/plain.deck"
$python - "$work" <<'PY'
import re, sys
work = sys.argv[1]
text = open(work + "/plain.deck").read()
one = '{ name = "q"; kind = "linear"; in = "user"; units = 5; }'
same = {"rows": ("", ""), "vector": ('{ name = "i"; kind = "pool"; in = "next"; }', 'items = "i";'),
        "tokens": ('{ name = "i"; kind = "scale"; in = "next"; }', 'items = "i";')}
for lists in ("one", "lists"):
    for name, (layer, items) in same.items():
        if (lists, name) == ("lists", "vector"):
            continue
        t = re.sub(r"layers = \(.*?\} \);\n", f"layers = ( {one}{', ' + layer if layer else ''} );\n", text, flags=re.S)
        t = re.sub(r'in = "who"; ', f'in = "q"; {items} ', t).replace("@", "")
        t = re.sub(r'  \{ name = "(kind|tags)"; rows.*\n', "", t).replace('pooling = "none"; },', 'pooling = "none"; } );')
        t = t.replace("dense_features = 1; ", "").replace('report = ["logloss", "hit_rate", "ndcg", "mrr", "recall_at_k"]; k = 10;', "")
        t = re.sub(r'    \{ name = "(kind|tags)"; kind.*\n', "", t).replace("max_length = 1; },", "max_length = 1; } ); };")
        t = t.replace('{ name = "age"; kind = "dense"; }, ', "").replace(' exclude = ["seen"];', "").replace(', "seen"]', "]").replace(" first_item = 2;", "")
        t = re.sub(r'    \{ name = "seen"; .*\n', "", t)
        if lists == "lists":  # targets are what was seen
            t = t.replace('"next"; kind', '"next"; from = "seen"; list_separator = "|"; kind').replace("max_length = 1", "max_length = 4")
        open(f"{work}/{lists}-{name}.deck", "w").write(t)
PY
for lists in one lists; do
  check "$lists: rows of a table" go 1 $lists-rows $lists-rows
  for by in vector tokens; do
    [ -f "$work/$lists-$by.deck" ] || continue
    for ranks in 1 3; do
      check "$lists, $by, $ranks" go $ranks $lists-$by $lists-$by-$ranks
      check "$lists, $by, $ranks: as rows" close_losses $lists-rows $lists-$by-$ranks 2e-5 14
    done
  done
done

# ---- the same everywhere ----------------------------------------------------
for ranks in 1 2 3 4; do check "$ranks" go $ranks tower tower-$ranks; done
for ranks in 2 3 4; do check "$ranks ranks as one" close_losses tower-1 tower-$ranks 2e-5 14; done
check "stopped" go 2 tower stop --set run.steps=4
check "goes on" go 2 tower stop --set run.steps=11
check "and on" go 2 tower stop
check "same bits" same_bits "$(newest tower-2)" "$(newest stop)"
check "stopped, to move" go 3 tower moved --set run.steps=6
check "goes on alone" go 1 tower moved
check "moved: close" close_losses tower-1 moved 2e-5 14
for set in pipeline.kind=base pipeline.kind=sparse_dist pipeline.kind=fused_sparse_dist pipeline.kind=prefetch dense.parallel=fully_sharded \
  optimizer.in_backward=true run.lanes=serial data.input=columns; do
  check "$set" go 2 tower "with-$set" --set $set
  check "$set: same bits" same_bits "$(newest tower-2)" "$(newest "with-$set")"
done
for set in table_defaults.sharding=row_wise table_defaults.sharding=column_wise table_defaults.sharding=data_parallel; do
  check "$set" go 3 tower "with-$set" --set $set
  check "$set: close" close_losses tower-1 "with-$set" 2e-5 14
done
# A pass over items leaves layers out, whose weights are gathered with others', or ahead.
for set in 'dense.groups=({layers=["*"];})' 'dense.groups=({layers=["who.1","goods.0"];})' 'dense.forward_prefetch=({layer="who.0";prefetch=["who.1","goods.0"];},{layer="goods.0";prefetch=["goods.1"];})'; do
  more="--set dense.parallel=fully_sharded --set $set --set data.valid=$work/a.csv --set run.valid_every=5"
  check "fully_sharded, $set" go 2 tower "with-$set" $more
  check "fully_sharded, $set: same bits" same_bits "$(newest tower-2)" "$(newest "with-$set")"
done
check "cached" go 2 tower cached --set table_defaults.sharding=row_wise --set table_defaults.kernel=cached
check "cached: close" close_losses tower-1 cached 2e-5 14
check "semi_sync" go 2 tower semi --set pipeline.kind=semi_sync
check "bf16" go 2 tower half --set run.precision=bf16
check "bf16: close" close_losses tower-1 half 5e-2 14

# ---- ranks of items ---------------------------------------------------------
vectors() { # LAYER DATA FILE
  tess 2 predict "$work/tower.deck" --quiet --set run.output="$work/tower-2" --layer $1 --data "$work/$2" --out "$work/$3"
}
check "users' vectors" vectors who a.csv who.h5
check "items' vectors" vectors goods all.csv item.h5
for ranks in 1 3; do
  check "topk, $ranks" tess $ranks topk "$work/tower.deck" --quiet --set run.output="$work/tower-2" --k 10 --out "$work/top-$ranks.h5"
  check "topk, $ranks: as NumPy has it" sh -c "$python '$srcdir/tests/run/item_tower.py' '$work' top-$ranks.h5 10 > '$work/want'"
  tess $ranks eval "$work/tower.deck" --set run.output="$work/tower-2" > "$work/said"
  item_figures "$work/said" > "$work/got"
  check "$ranks: figures" close_item_figures "$work/got" "$work/want"
done
check "one file on any ranks" h5diff -d 1e-5 "$work/top-1.h5" "$work/top-3.h5"
same_lists() { # NAME RANKS [options], or a deck and options
  name=$1; n=$2; shift 2
  case ${1-} in *.deck) ;; *) set -- "$work/tower.deck" "$@" ;; esac
  check "$name" tess $n topk "$@" --quiet --set run.output="$work/tower-2" --k 10 --out "$work/other.h5"
  check "$name: the same" h5diff -d 1e-5 "$work/top-1.h5" "$work/other.h5"
}
same_lists "fully_sharded" 3 --set dense.parallel=fully_sharded
same_lists "row_wise" 3 --set table_defaults.sharding=row_wise
same_lists "columns" 2 --set data.input=columns
same_lists "small batches" 3 --set data.global_batch=7
same_lists "parts of batches" 2 --set run.accumulate=1
check "a data set of samples" tess 1 convert "$work/tower.deck" eval --out "$work/a.h5"
check "a data set of all" tess 1 convert "$work/tower.deck" eval --out "$work/items.h5" --set data.eval="$work/all.csv"
sed 's/list_separator = "|";//; s/\(a\|items\)\.csv/\1.h5/g' "$work/tower.deck" > "$work/sets.deck"
same_lists "data sets" 2 "$work/sets.deck"
$python -c "import h5py; f = h5py.File('$work/items.h5', 'a'); del f['sparse/user'], f['sparse/seen']"
same_lists "a data set of items alone" 2 "$work/sets.deck"
sed -n '1p;2,20p' "$work/items.csv" > "$work/i1.csv"; sed -n '1p;21,$p' "$work/items.csv" > "$work/i2.csv"
same_lists "two files" 2 --set data.items="[\"$work/i2.csv\",\"$work/i1.csv\"]"
$python -c "import h5py; f = h5py.File('$work/items.h5', 'a'); del f['labels'], f['dense']"
same_lists "a data set without labels" 2 "$work/sets.deck"
$python -c "import h5py; f = h5py.File('$work/items.h5', 'a'); del f['sparse/tags']"
check "a data set without tags" mistake 3 'there is no "tags"' '' topk "$work/sets.deck" --set run.output="$work/tower-2" --out "$work/x.csv"
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  tess() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$emulated" "$@" < /dev/null; }
  check "emulated" go 2 tower gpu --set run.backend=emulated --set run.steps=5
  check "emulated: close" close_losses tower-1 gpu 2e-5 5
  same_lists "emulated" 2 --set run.backend=emulated
  tess() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@" < /dev/null; }
fi
# Users whose target is not known, and records that are broken.
sed 's/\(,[^,]*\),[0-9]*\(,[0-9]*,[^,]*\)$/\1,\2/' "$work/a.csv" > "$work/unknown.csv"
check "no target is known" grep -q ',,[0-9]*,' "$work/unknown.csv"
check "no targets" tess 2 topk "$work/tower.deck" --quiet --set run.output="$work/tower-2" --k 10 --data "$work/unknown.csv" --out "$work/other.h5"
check "no targets: the same" h5diff -d 1e-5 "$work/top-1.h5" "$work/other.h5"
{ sed 3q "$work/items.csv"; echo broken; sed 1,3d "$work/items.csv"; } > "$work/part.csv"
same_lists "a broken record" 2 --set data.items="$work/part.csv" --set data.on_bad_record=skip
{ sed 3q "$work/a.csv"; echo broken; sed 1,3d "$work/a.csv"; } > "$work/part.csv"
check "a broken record of training" go 2 tower part --set data.train="$work/part.csv" --set data.on_bad_record=skip
# A block's name is that of its last layer.
sed 's/items = "goods";/items = "b";/; s/{ name = "goods"; kind = "mlp"; in = \(.*\); units = \[9, 8\]; }/{ name = "b"; kind = "block"; in = ["own", "embeddings:items"]; layers = ( { name = "m"; kind = "mlp"; in = "b"; units = [9, 8]; } ); }/' "$work/tower.deck" > "$work/block.deck"
check "a block" go 2 block block
check "--check" tess 2 train "$work/tower.deck" --check
check "plan" tess 2 plan "$work/tower.deck"
check "validations" go 2 tower valid --set data.valid="$work/a.csv" --set run.valid_every=7 --set run.stop='{metric="ndcg";patience=9;}'
check "validations: NDCG" test "$(grep -c '"valid":true.*"ndcg":0' "$work/valid/metrics.jsonl")" = 2
check "a validation changes nothing" same_bits "$(newest tower-2)" "$(newest valid)"
sed 's/\([0-9]\)\([|,]\)/\1x\2/g; s/\([0-9]\)$/\1x/; 1s/.*/user,age,seen,next,kind,tags/; s/,\([0-9.]*\)x,/,\1,/' "$work/a.csv" > "$work/w.csv"
sed '1!s/[0-9][0-9]*/&x/g' "$work/items.csv" > "$work/witems.csv"
printf '3x,new,\n' >> "$work/witems.csv"
sed 's/encoding = "none"/encoding = "vocabulary"/g; s/"a\.csv"/"w.csv"/g; s/"items\.csv"/"witems.csv"/; s/rows = [0-9]*/rows = "auto"/g; s/first_item = 2/first_item = 1/' "$work/tower.deck" > "$work/words.deck"
check "words" go 2 words words
tess 2 topk "$work/words.deck" --set run.output="$work/words" --k 3 --out "$work/words.csv" > "$work/said" 2>&1
check "words: of the data" sh -c "sed 1d '$work/words.csv' | cut -d, -f1 | grep -v '^[0-9]*x\$' && exit 1; [ \$(wc -l < '$work/words.csv') = 231 ]"
check "words: one that training has not" grep -q 'of data.items are left out' "$work/said"

# ---- mistakes ---------------------------------------------------------------
check "features alone" mistake 2 'no layer reads feature next, the target of output next' '/name = "own"/d; s/in = \["own", "embeddings:items"\]/in = "embeddings:items"/; s/"next", "seen"\]/"next"]/; s/ exclude = \["seen"\];//; /name = "seen"/d'
check "a table and a layer" mistake 2 'which is a table and a layer: call the layer otherwise' 's/"goods"/"item"/g'
check "no history" mistake 3 'it can have as many at most' 's/{ name = "own"/{ name = "past"; kind = "linear"; in = "seen"; units = 8; }, &/; s/in = "who"; items/in = "past"; items/; s/{ name = "who".*$//; s/"age"; kind = "dense"; }, /&/; s/features = "user"; },/features = "user"; group = "items"; },/; s/in = \["own", "embeddings:items"\]/in = ["dense", "own", "embeddings:items"]/; s/items = "items.csv";//; s/^metrics.*//'
check "two formats" mistake 2 'data.columns has to say the encoding of "' 's/ encoding = "none";//g; s/list_separator = "|";//g; s/"a\.csv"/"a.h5"/g'
items() { sed "$1" "$work/items.csv" > "$work/broken.csv"; }
check "drawn evenly" mistake 2 'makes vectors of the batch'"'"'s items alone: it goes with draw = "batch"' 's/draw = "batch";//'
check "full_softmax" mistake 2 'it goes with draw = "batch"' 's/draw = "batch";//; s/sampled_softmax/full_softmax/'
check "given" mistake 2 'it goes with no given' 's/first_item = 2;/& given = 3;/'
check "no items" mistake 2 'give data.items, the features of the items that are ranked' 's/items = "items.csv";//'
check "no items, topk" mistake 2 'the deck has to give data.items' 's/items = "items.csv";//; s/^metrics.*//' topk "$work/bad.deck" --out "$work/x.csv"
check "items of no layer" mistake 2 'items = "" of "next" is no layer: an output over items names it there' 's/items = "goods"; //'
check "no such layer" mistake 2 'items = "thing" of "next" is no layer' 's/items = "goods";/items = "thing";/'
check "widths" mistake 2 'items have dim = 7: they have to be equally wide' '/name = "goods"; kind = "mlp"/s/8\]/7]/'
check "other tokens" mistake 2 'whose tokens it reads' 's/in = \["own", "embeddings:items"\]/in = "seen"/'
items 's/^kind,/sort,/'
check "a column is missing" mistake 3 'there is no "kind", which layer "goods" makes items of' 's/items\.csv/broken.csv/'
check "a column is missing, --check" mistake 3 'there is no "kind", which layer "goods" makes items of' 's/items\.csv/broken.csv/' train "$work/bad.deck" --check
items '$a 1,10,'
check "an item twice" mistake 3 'two items have row 10 of the table of next' 's/items\.csv/broken.csv/'
items '3s/,[0-9]*,/,60,/'
check "an item that is no row" mistake 3 'id 60' 's/items\.csv/broken.csv/'
items '3s/,[0-9]*,/,,/'
check "no id" mistake 3 'sample 1 has no id of next' 's/items\.csv/broken.csv/'
items '4,$d; 2,3s/,[0-9]*,/,1,/'
check "no item" mistake 3 'data.items has no item' 's/items\.csv/broken.csv/'
check "no file" mistake 3 'nothing.csv' 's/items\.csv/nothing.csv/'
check "two targets of a sample" mistake 3 'whose item is one vector, "goods": it can have one' 's/"next"; kind = "ids"; encoding = "none"; max_length = 1/"next"; from = "seen"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 4/; s/items = "items.csv";//; s/^metrics.*//'
passed
