#!/bin/sh
# items.sh - outputs over items: each loss, of tokens and of a vector, against
# steps in NumPy in double; the same on any ranks, pipelines, shardings and
# tiers, in two parts; their mistakes.  seconds: 200
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
python=/usr/bin/python3
$python -c 'import h5py, numpy' 2> /dev/null || { echo "needs python3-h5py and python3-numpy"; exit 77; }
# Lists of 0 to 9 items, and as many that come next, or fewer; users.
awk 'BEGIN { srand(3); print "user,item,next"
  for (i = 0; i < 70; i++) {
    m = int(rand() * 10); w = rand() < 0.3 ? int(m / 2) : m; a = b = ""
    for (k = 0; k < m; k++) a = a (k ? "|" : "") int(rand() * 40)
    for (k = 0; k < w; k++) b = b (k ? "|" : "") int(rand() * 40)
    print int(rand() * 30) "," a "," b
  } }' > "$work/a.csv"
deck() { # NAME IN TABLE..: reads IN, of TABLE in front of the items'
  cat > "$work/$1.deck" <<DECK
run = { name = "items"; seed = 7; steps = 12; threads = 1; log_every = 1; };
data = { format = "csv"; train = "a.csv"; eval = "a.csv"; global_batch = 16;
  columns = ( $3 { name = "item"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 9; },
    { name = "next"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 9; } ); };
table_defaults = { dim = 6; init = { scale = 0.5; }; optimizer = { kind = "sgd"; lr = 0.5; }; };
tables = ( $4 { name = "item"; rows = 40; features = [$5"next"]; pooling = "none"; } );
model = { layers = ( { name = "q"; kind = "scale"; in = "$2"; } );
  outputs = ( { name = "next"; in = "q"; loss = "sampled_bce"; target = "next"; negatives = 3; } ); };
sharding = { topology = "default"; };
DECK
}
deck tokens item '' '' '"item", '
deck user user '{ name = "user"; kind = "ids"; encoding = "none"; },' '{ name = "user"; rows = 30; features = "user"; },' ''
sed -i '/{ name = "item"; kind/s/{ name = "item"[^}]*},//' "$work/user.deck"
go() { # RANKS DECK FOLDER [options]
  n=$1; deck=$2; folder=$3; shift 3
  ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" train "$work/$deck.deck" --quiet --set run.output="$work/$folder" "$@" < /dev/null
}
as_worked_out() { # RUN: its losses and tables are those of $work/want
  losses "$1" | paste - "$work/want.txt" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5 * $2) { print "step " NR ": tessera, NumPy: " $0; bad = 1 } }
    END { exit bad || NR != 12 }' || return 1
  $python - "$(newest "$1")" "$work/want.npz" <<'PY'
import h5py, numpy, sys
want = numpy.load(sys.argv[2])
with h5py.File(sys.argv[1]) as f:
    for k in ("item", "user"):
        name = "model/sparse_arch.embedding_bag_collection.embedding_bags.%s.weight" % k
        if name in f:
            far = abs(f[name][()] - want[k]).max()
            assert far < 1e-5, (k, far)
PY
}
for by in tokens user; do
  check "$by" go 1 $by still-$by --set run.steps=1 --set table_defaults.optimizer.lr=0
  first=$(newest still-$by)
  while read -r name options; do
    set=; say=
    for one in $options; do
      case $one in *:*) set="$set ${one%%:*}"; say="$say ${one#*:}" ;; esac
    done
    [ $by = user ] || set=$(echo "$set" | sed 's/exclude=\["next"\]/exclude=["item","next"]/')
    edit=$(echo "$set" | tr -s ' ' '\n' | sed '/^$/d; s/$/;/' | tr -d '\n')
    sed "s/loss = \"sampled_bce\";/loss = \"${name%-*}\"; $edit/; s/\(negatives=.*\) negatives = 3;/\1/; /full_softmax\|\"batch\"/s/ negatives = 3;//" "$work/$by.deck" > "$work/$by-$name.deck"
    $python "$srcdir/tests/run/items.py" "$work/a.csv" "$first" "${name%-*}" 12 "$work/want" by=$by $say || exit 1
    for ranks in 1 2; do
      check "$by, $name, $ranks" go $ranks $by-$name $by-$name-$ranks
      check "$by, $name, $ranks ranks as worked out" as_worked_out $by-$name-$ranks
    done
  done <<'CASES'
sampled_bce-plain
sampled_bce-barred exclude=["next"]:exclude=1 negatives=5:negatives=5
sampled_bce-all exclude=["next"]:negatives=5 draw_excluded=true:negatives=5 negatives=5:negatives=5
sampled_bce-one negatives=1:negatives=1 first_item=5:first=5
bpr-plain temperature=0.5:temperature=0.5
sampled_softmax-plain
sampled_softmax-normed normalise=true:normalise=True temperature=0.1:temperature=0.1 negatives=9:negatives=9
sampled_softmax-often draw="frequency":frequency=1 negatives=9:negatives=9 first_item=3:first=3
sampled_softmax-log_q draw="frequency":frequency=1 log_q=true:log_q=1 exclude=["next"]:exclude=1 negatives=9:negatives=9
sampled_bce-often draw="frequency":frequency=1 negatives=2:negatives=2
sampled_softmax-together draw="batch":together=1
sampled_softmax-together_log_q draw="batch":together=1 log_q=true:log_q=1 normalise=true:normalise=True temperature=0.1:temperature=0.1
full_softmax-plain
full_softmax-normed normalise=true:normalise=True temperature=0.1:temperature=0.1
cosine_contrastive-plain normalise=true:normalise=True margin=0.1:margin=0.1 negative_weight=5.0:weight=5.0
CASES
done

# One of them on more ranks, in pipelines, shardings, tiers, and in parts.
run=tokens-sampled_softmax-normed
cp "$work/$run.deck" "$work/one.deck"
for ranks in 1 2 3 4; do check "$ranks ranks" go $ranks one r$ranks; done
for ranks in 2 3 4; do check "$ranks ranks as one" close_losses r1 r$ranks 1e-6 12; done
for set in pipeline.kind=base pipeline.kind=sparse_dist pipeline.kind=fused_sparse_dist pipeline.kind=prefetch dense.parallel=fully_sharded run.lanes=serial data.input=columns; do
  check "$set" go 2 one "$set" --set "$set"
  check "$set: same bits" same_bits "$(newest r2)" "$(newest "$set")"
done
for kind in table_wise row_wise column_wise data_parallel; do
  check "$kind" go 3 one $kind --set table_defaults.sharding=$kind
  check "$kind: close" close_losses r1 $kind 1e-6 12
done
check "cached" go 2 one cached --set table_defaults.sharding=row_wise --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.5
check "cached: close" close_losses r1 cached 1e-6 12
check "micro-batches" go 2 one parts --set run.accumulate=3
check "micro-batches: close" close_losses r1 parts 1e-6 12
check "semi_sync" go 2 one semi --set pipeline.kind=semi_sync --set pipeline.start_batch=4
check "semi_sync is not base" sh -c "[ '$(losses semi | tail -n 1)' != '$(losses r2 | tail -n 1)' ]"
check "stopped" go 2 one stop --set run.steps=3
check "goes on" go 2 one stop --set run.steps=7
check "and on" go 2 one stop
check "same bits" same_bits "$(newest r2)" "$(newest stop)"
check "stopped, to move" go 3 one moved --set run.steps=7
check "goes on alone" go 1 one moved
check "moved: close" close_losses r1 moved 1e-6 12

# Over all items: the same, for what has to be added over ranks and parts.
run=tokens-full_softmax-normed
cp "$work/$run.deck" "$work/all.deck"
for ranks in 1 2 3 4; do check "all, $ranks ranks" go $ranks all a$ranks; done
for ranks in 2 3 4; do check "all, $ranks ranks as one" close_losses a1 a$ranks 1e-6 12; done
for set in pipeline.kind=base pipeline.kind=fused_sparse_dist pipeline.kind=prefetch dense.parallel=fully_sharded run.lanes=serial data.input=columns; do
  check "all, $set" go 2 all "a-$set" --set "$set"
  check "all, $set: same bits" same_bits "$(newest a2)" "$(newest "a-$set")"
done
for set in table_defaults.sharding=table_wise table_defaults.sharding=row_wise table_defaults.sharding=data_parallel run.accumulate=3; do
  check "all, $set" go 3 all "a-$set" --set "$set"
  check "all, $set: close" close_losses a1 "a-$set" 1e-6 12
done
check "all, cached" go 2 all a-cached --set table_defaults.sharding=row_wise --set table_defaults.kernel=cached
check "all, cached: close" close_losses a1 a-cached 1e-6 12
check "all, stopped" go 2 all a-stop --set run.steps=5
check "all, goes on" go 2 all a-stop
check "all: same bits" same_bits "$(newest a2)" "$(newest a-stop)"
check "all, moved" go 3 all a-moved --set run.steps=5
check "all, goes on alone" go 1 all a-moved
check "all, moved: close" close_losses a1 a-moved 1e-6 12
check "all, micro-batches of few ranks" go 4 all a-few --set run.accumulate=3
check "all, micro-batches of few ranks: close" close_losses a1 a-few 1e-6 12
# Not from the first row on.
awk -F, 'NR > 1 { n = split($3, a, "|"); $3 = ""; for (k = 1; k <= n; k++) $3 = $3 (k > 1 ? "|" : "") (a[k] < 5 ? a[k] + 5 : a[k]) } { print $1 "," $2 "," $3 }' "$work/a.csv" > "$work/high.csv"
sed 's/a\.csv/high.csv/; s/loss = "full_softmax";/& first_item = 5;/' "$work/tokens-full_softmax-plain.deck" > "$work/high.deck"
$python "$srcdir/tests/run/items.py" "$work/high.csv" "$(newest still-tokens)" full_softmax 12 "$work/want" by=tokens first=5 || exit 1
for ranks in 1 3; do
  check "from the fifth row on, $ranks" go $ranks high high-$ranks
  check "from the fifth row on, $ranks: as worked out" as_worked_out high-$ranks
done
# Ids that are hidden, and found again by the rows of their masks.
awk -F'[,]' 'NR == 1 { print; next } { for (c = 2; c <= 3; c++) { n = split($c, a, "|"); $c = ""; for (k = 1; k <= n; k++) $c = $c (k > 1 ? "|" : "") (a[k] < 5 ? a[k] + 5 : a[k]) } print $1 "," $2 "," $3 }' "$work/a.csv" > "$work/items.csv"
sed 's/train = "a.csv"; eval = "a.csv"/train = "items.csv"; eval = "items.csv"/; s/loss = "[a-z_]*";/& masked = "item"; mask_id = 3; mask_share = 0.4; first_item = 5;/' "$work/tokens.deck" > "$work/masks-sampled_bce.deck"
sed 's/"sampled_bce"/"full_softmax"/; s/negatives = 3;//' "$work/masks-sampled_bce.deck" > "$work/masks-full_softmax.deck"
sed 's/"sampled_bce"/"sampled_softmax"/; s/negatives = 3;/exclude = ["item"]; draw = "frequency"; log_q = true; &/' "$work/masks-sampled_bce.deck" > "$work/masks-sampled_softmax.deck"
check "masks" go 1 masks-sampled_bce still-masks --set run.steps=1 --set table_defaults.optimizer.lr=0
while read -r loss say; do
  $python "$srcdir/tests/run/items.py" "$work/items.csv" "$(newest still-masks)" $loss 12 "$work/want" by=tokens masked=0.4 mask=3 first=5 $say || exit 1
  for ranks in 1 2 3; do
    check "masks, $loss, $ranks" go $ranks masks-$loss masks-$loss-$ranks
    check "masks, $loss, $ranks ranks as worked out" as_worked_out masks-$loss-$ranks
  done
  for set in pipeline.kind=fused_sparse_dist data.input=columns dense.parallel=fully_sharded; do
    check "masks, $loss, $set" go 2 masks-$loss "masks-$loss-$set" --set "$set"
    check "masks, $loss, $set: same bits" same_bits "$(newest masks-$loss-2)" "$(newest "masks-$loss-$set")"
  done
  check "masks, $loss, micro-batches" go 3 masks-$loss masks-$loss-parts --set run.accumulate=3
  check "masks, $loss, micro-batches: close" close_losses masks-$loss-1 masks-$loss-parts 1e-6 12
  check "masks, $loss, stopped" go 2 masks-$loss masks-$loss-stop --set run.steps=5
  check "masks, $loss, goes on" go 2 masks-$loss masks-$loss-stop
  check "masks, $loss: same bits" same_bits "$(newest masks-$loss-2)" "$(newest masks-$loss-stop)"
done <<'CASES'
sampled_bce negatives=3
full_softmax
sampled_softmax negatives=3 exclude=1 frequency=1 log_q=1
CASES
semi="--set pipeline.kind=semi_sync --set pipeline.start_batch=4 --set checkpoint.every=6 --set checkpoint.keep=9"
check "masks, semi_sync" go 2 masks-full_softmax masks-semi $semi
check "masks, semi_sync is not base" sh -c "[ '$(losses masks-semi | tail -n 1)' != '$(losses masks-full_softmax-2 | tail -n 1)' ]"
mkdir -p "$work/masks-again/checkpoints"
cp "$work"/masks-semi/checkpoints/*06.h5 "$work/masks-again/checkpoints"
check "masks, semi_sync goes on" go 2 masks-full_softmax masks-again $semi
check "masks, semi_sync: same bits" same_bits "$(newest masks-semi)" "$(newest masks-again)"
sed 's/kind = "scale"; in = "item";/kind = "linear"; in = "item"; units = 32;/; s/dim = 6;/dim = 32;/' "$work/masks-full_softmax.deck" > "$work/masks_wide.deck"
check "masks, f32" go 1 masks_wide masks32
check "masks, bf16" go 2 masks_wide masks16 --set run.precision=bf16
check "masks, bf16: close" close_losses masks32 masks16 2e-2 12
check "masks, bf16 is not f32" sh -c "! cmp -s '$work/x' '$work/y'"
# Elsewhere the mask comes behind the ids, the oldest of 9 making room: what data
# have that say it themselves.
awk -F, 'NR == 1 { print; next } { n = split($2, a, "|"); m = split($3, b, "|"); x = ""; for (k = n < 9 ? 1 : 2; k <= n; k++) x = x a[k] "|"; print $1 "," $2 "," (m ? b[1] : "") > out; print $1 "," x "3," (m ? b[1] : "") }' out="$work/one.csv" "$work/items.csv" > "$work/said.csv"
sed -i 1i"$(head -n 1 "$work/said.csv")" "$work/one.csv"
for loss in sampled_bce full_softmax; do
  sed 's/masked = "item"; mask_id = 3; mask_share = 0.4;//' "$work/masks-$loss.deck" > "$work/said-$loss.deck"
  for ranks in 1 3; do
    for by in masks:one said:said; do
      ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" eval "$work/${by%:*}-$loss.deck" --checkpoint "$(newest masks-$loss-2)" --set data.eval="${by#*:}.csv" --set 'metrics.report=["hit_rate","ndcg"]' < /dev/null | sed -n 's/^evaluation: //p' > "$work/$by.txt"
      ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" topk "$work/${by%:*}-$loss.deck" --checkpoint "$(newest masks-$loss-2)" --set data.eval="${by#*:}.csv" --k 4 --out "$work/$by.csv" --quiet < /dev/null
    done
    check "masks, $loss, there are figures" grep -q 'hit rate' "$work/masks:one.txt"
    check "masks, $loss, evaluated by $ranks" cmp "$work/masks:one.txt" "$work/said:said.txt"
    check "masks, $loss, best by $ranks" cmp "$work/masks:one.csv" "$work/said:said.csv"
  done
done
# The planner's rehearsal has no targets; with given ones evaluations go by those.
check "all, measured" go 2 all measured --set sharding.topology=measure
check "all, measured: close" close_losses a1 measured 1e-6 12
sed 's/loss = "full_softmax";/& given = 3;/; s/eval = "a.csv";//' "$work/all.deck" > "$work/given.deck"
check "given, measured" go 2 given given --set sharding.topology=measure
check "given, measured: close" close_losses a1 given 1e-6 12
# An evaluation's loss is over all items, too: that of a step with all samples.
check "all, still" go 2 all a-still --set run.steps=1 --set data.global_batch=70 --set table_defaults.optimizer.lr=0
losses a-still > "$work/still.txt"
for ranks in 1 3; do
  ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" eval "$work/all.deck" --checkpoint "$(newest a-still)" < /dev/null > "$work/said"
  check "all, evaluated by $ranks" awk 'FNR == NR { want = $1; next } /^evaluation/ { for (i = 1; i < NF; i++) if ($i == "loss") { d = $(i + 1) - want; n++; if (d > 1e-4 || d < -1e-4) bad = 1 } }
    END { exit bad || n != 1 }' "$work/still.txt" "$work/said"
done

# Products in bf16.
sed 's/kind = "scale"; in = "item";/kind = "linear"; in = "item"; units = 32;/; s/dim = 6;/dim = 32;/' "$work/one.deck" > "$work/wide.deck"
check "f32" go 1 wide wide32
check "bf16" go 2 wide wide16 --set run.precision=bf16
check "bf16: close" close_losses wide32 wide16 2e-2 12
sed 's/sampled_softmax/full_softmax/; s/negatives=9;//' "$work/wide.deck" > "$work/wide_all.deck"
check "all, f32" go 1 wide_all all32
check "all, bf16" go 2 wide_all all16 --set run.precision=bf16
check "all, bf16: close" close_losses all32 all16 2e-2 12
check "bf16 is not f32" sh -c "! cmp -s '$work/x' '$work/y'"
check "shuffled" go 1 one s1 --set data.shuffle=full
check "shuffled, two" go 2 one s2 --set data.shuffle=full
check "shuffled as one" close_losses s1 s2 1e-6 12
check "shuffled otherwise" sh -c "[ '$(losses s1 | tail -n 1)' != '$(losses r1 | tail -n 1)' ]"
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  host=$TESSERA; TESSERA=$emulated
  for by in tokens user; do
    for loss in sampled_bce-barred sampled_softmax-normed sampled_softmax-log_q bpr-plain full_softmax-normed sampled_softmax-together_log_q cosine_contrastive-plain; do
      check "emulated, $by, $loss" go 2 $by-$loss gpu-$by-$loss --set run.backend=emulated
      check "emulated, $by, $loss: close" close_losses $by-$loss-2 gpu-$by-$loss 1e-6 12
    done
  done
  for loss in sampled_bce full_softmax; do
    check "emulated, masks, $loss" go 2 masks-$loss gpu-masks-$loss --set run.backend=emulated
    check "emulated, masks, $loss: close" close_losses masks-$loss-2 gpu-masks-$loss 1e-6 12
  done
  TESSERA=$host
fi

# Mistakes, each one message.
mistake() { # CODE WORDS DECK [sed commands]
  code=$1; words=$2; sed "$4" "$work/$3.deck" > "$work/bad.deck"
  go 2 bad bad > "$work/out" 2> "$work/err"; got=$?
  rm -rf "$work/bad"
  [ $got = "$code" ] && [ "$(grep -c '^tessera: error:' "$work/err")" = 1 ] && grep -qF -- "$words" "$work/err" && return
  echo "code $got, not $code, or not one message \"$words\":"; cat "$work/err"; return 1
}
sed 's/\([,|]\)3[89]/\10/g' "$work/a.csv" > "$work/low.csv"
check "masks of none" mistake 2 'mask_id and mask_share of "next" go with masked' masks-sampled_bce 's/masked = "item";//'
check "masks of no feature" mistake 2 'masked of "next" is "itm": it needs to be of a table' masks-sampled_bce 's/masked = "item"/masked = "itm"/'
check "masks of the target" mistake 2 'masked of "next" is "next": it needs to be another feature than target' masks-sampled_bce 's/masked = "item"/masked = "next"/'
check "a mask that is an item" mistake 2 'mask_id = 5 of "next" is an item: give first_item = 6' masks-sampled_bce 's/mask_id = 3/mask_id = 5/'
check "a mask that is no row" mistake 2 'it needs a row for mask_id' masks-sampled_bce 's/mask_id = 3/mask_id = 44/'
check "masks by a table's name" mistake 2 'it needs to be another feature than target' masks-sampled_bce 's/masked = "item"/masked = "next@item"/'
check "masks of another table" mistake 2 "it needs target's table, or one of as many rows" masks-sampled_bce 's/tables = ( /&{ name = "other"; rows = 50; features = ["item"]; pooling = "none"; }, /; s/\["item", "next"\]/["next"]/'
check "masks of encoded ids" mistake 2 'it needs ids as data have them' masks-sampled_bce '/name = "item"; kind/s/encoding = "none"/encoding = "modulo"/'
check "masks of weighted rows" mistake 2 'it needs a table with weighted = false' masks-sampled_bce 's/tables = ( /&{ name = "other"; rows = 40; features = ["item"]; pooling = "none"; weighted = true; }, /; s/\["item", "next"\]/["next"]/'
check "a mask in the data" mistake 3 'feature item has id 3, which is the mask of output next: give another mask_id' masks-sampled_bce 's/items.csv/a.csv/g'
check "masks of a vector" mistake 2 'output next reads "q", and masked = "item": it takes a row for each id of that feature' masks-sampled_bce 's/layers = (.*$/layers = ( { name = "q"; kind = "pool"; in = "item"; } );/'
check "masks of another loss" mistake 2 'masked of "next" is for losses over items' masks-sampled_bce 's/loss = "sampled_bce"; \(.*\) mask_id = 3; mask_share = 0.4; first_item = 5; target = "next"; negatives = 3;/\1/'
check "no target" mistake 2 'a loss over items takes a feature of' tokens 's/target = "next"/target = "nxt"/'
check "pooled items" mistake 2 'takes rows as they are (pooling = "none"; weighted = false)' user 's/pooling = "none"; //'
check "another width" mistake 2 "items have dim = 5: they have to be equally wide" user 's/rows = 40;/rows = 40; dim = 5;/'
check "a layer reads it" mistake 2 'which is the target of output next: that alone has its embeddings' tokens 's/in = "item"/in = "next"/'
check "no item is left" mistake 2 'of which two at least are to be items' user 's/negatives = 3;/first_item = 39;/'
check "another loss's key" mistake 2 'given of "next" is for losses over items' user 's/loss = "sampled_bce"; target = "next"; negatives = 3;/given = 3;/'
check "two outputs" mistake 2 'so it is the only output' user 's/outputs = (/& { name = "other"; in = "u"; loss = "mse"; },/'
check "exclude" mistake 2 'no table has a feature "itm"' user 's/negatives = 3;/exclude = ["itm"];/'
check "drawn all the same" mistake 2 'is for exclude and negatives that are drawn: here nothing is excluded' user 's/negatives = 3;/draw_excluded = true;/'
check "drawn where none is" mistake 2 'and negatives that are drawn: here none are' user 's/sampled_bce/full_softmax/; s/negatives = 3;/exclude = ["next"]; draw_excluded = true;/'
check "drawn of another loss" mistake 2 'draw_excluded of "next" is for losses over items' user 's/loss = "sampled_bce"; target = "next"; negatives = 3;/draw_excluded = true;/'
check "products" mistake 2 'is of cosines: give normalise = true' user 's/sampled_bce/cosine_contrastive/'
check "margin" mistake 2 'margin of "next" is for loss "cosine_contrastive"' user 's/negatives = 3;/margin = 0.5;/'
check "log_q of bce" mistake 2 'log_q of "next" is for loss "sampled_softmax"' user 's/negatives = 3;/draw = "frequency"; log_q = true;/'
check "the batch's with numbers" mistake 2 'takes the targets of the batch, as many as there are' user 's/sampled_bce/sampled_softmax/; s/negatives = 3;/& draw = "batch";/'
check "the batch's of bce" mistake 2 'draw = "batch" of "next" is for loss "sampled_softmax"' user 's/negatives = 3;/draw = "batch";/'
check "the batch's in parts" mistake 2 'which targets meet in a part of a batch would depend on the ranks' user 's/sampled_bce/sampled_softmax/; s/negatives = 3;/draw = "batch";/; s/steps = 12;/& accumulate = 2;/'
check "log_q of even draws" mistake 2 'log_q of "next" is for draw = "frequency"' user 's/sampled_bce/sampled_softmax/; s/negatives = 3;/log_q = true;/'
check "no targets" mistake 3 'there is nothing to draw' user 's/negatives = 3;/draw = "frequency"; first_item = 38;/; s/a.csv/low.csv/'
check "no item" mistake 3 'which is no item, as first_item = 5: with loss full_softmax, and with draw = "batch", a target is one' user 's/sampled_bce/full_softmax/; s/negatives = 3;/first_item = 5;/'
check "all have no negatives" mistake 2 'negatives of "next" is for loss "sampled_softmax"' user 's/sampled_bce/full_softmax/'
check "ids of another table" mistake 2 'its ids are no items' user 's/negatives = 3;/exclude = ["user"];/'
sed 's/^\([0-9]*\),[^,]*,\(.*\)$/\1,1,\2/' "$work/a.csv" > "$work/short.csv"
check "more targets than tokens" mistake 3 'whose last ones they are to follow: it can have as many at most' tokens 's/train = "a.csv"/train = "short.csv"/'
passed
