#!/bin/sh
# sequences_two.sh - several sequences a sample, each of a length of its own: what
# layers make of one is what they make of it alone; whole runs are the same on any
# ranks and pipelines, in parts and after a restart; an output over items goes by
# one of them.
# seconds: 30
. "$srcdir/tests/support/common.sh"
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
lists() { # LINES SEED: label, item, and lists of 0 to 12 and of 0 to 5 ids
  awk -v n="$1" -v seed="$2" 'BEGIN {
    srand(seed); print "label,item,looked,bought,next"
    for (i = 0; i < n; i++) {
      m = int(rand() * 13); a = b = ""; last = 0; item = int(rand() * 40)
      for (k = 0; k < m; k++) { last = int(rand() * 40); a = a (k ? "|" : "") last }
      m = i % 50 < 48 ? int(rand() * 6) : 0
      for (k = 0; k < m; k++) b = b (k ? "|" : "") int(rand() * 40)
      print (rand() < (last % 2 == item % 2 ? 0.8 : 0.2)) "," item "," a "," b "," (m ? int(rand() * 40) : "")
    } }'
}
lists 600 1 > "$work/train.csv"
lists 200 2 > "$work/eval.csv"
cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 11; steps = 12; threads = 1; log_every = 1; };
data = { format = "csv"; train = "train.csv"; eval = "eval.csv"; global_batch = 64;
  columns = ( { name = "label"; kind = "label"; }, { name = "item"; kind = "ids"; encoding = "none"; },
    { name = "looked"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 12; },
    { name = "bought"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 5; } ); };
tables = ( { name = "item"; rows = 40; dim = 8; features = ["item"]; },
  { name = "seen"; rows = 40; dim = 8; features = ["looked", "bought"]; pooling = "none"; init = { scale = 0.5; }; } );
table_defaults = { optimizer = { kind = "rowwise_adagrad"; lr = 0.1; }; };
model = { layers = (
  { name = "a"; kind = "attention"; in = "looked"; heads = 2; dropout = 0.2; },
  { name = "b"; kind = "attention"; in = "bought"; causal = false; dropout = 0.1; },
  { name = "both"; kind = "add"; in = ["b", "bought"]; },
  { name = "pa"; kind = "pool"; in = "a"; },
  { name = "pb"; kind = "pool"; in = "both"; by = "last"; },
  { name = "like"; kind = "target_attention"; in = "looked"; query = "pb"; units = [6]; },
  { name = "click"; kind = "mlp"; in = ["pa", "pb", "like", "item"]; units = [16, 1]; last_activation = "linear"; } ); };
optimizer = { kind = "sgd"; lr = 0.2; };
sharding = { topology = "default"; };
DECK
for ranks in 1 2 4; do check "$ranks ranks" train $ranks r$ranks; done
for ranks in 2 4; do check "$ranks ranks as one" close_losses r1 r$ranks 1e-6 12; done
for set in pipeline.kind=base pipeline.kind=fused_sparse_dist pipeline.kind=prefetch data.input=columns dense.parallel=fully_sharded; do
  check "$set" train 2 "$set" --set $set
  check "$set: same bits" same_bits "$(newest r2)" "$(newest "$set")"
done
check "row_wise" train 3 row_wise --set table_defaults.sharding=row_wise
check "row_wise: close" close_losses r1 row_wise 1e-6 12
check "micro-batches" train 2 parts --set run.accumulate=3
check "micro-batches: close" close_losses r1 parts 1e-6 12
check "bf16" train 2 bf16 --set run.precision=bf16
check "bf16: close" close_losses r1 bf16 3e-2 12
check "stopped" train 2 stop --set run.steps=5
check "goes on" train 2 stop
check "same bits" same_bits "$(newest r2)" "$(newest stop)"

# What one of them gives is what it gives alone.
near() { # FILE FILE LINES: numbers, to 1e-5, which are some
  paste -d, "$1" "$2" | awk -F, -v n="$3" 'NR > 1 { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d < -1e-5 || d > 1e-5) bad = 1; if ($i * $i > 1e-3) some++ } }
    END { exit bad || NR != n || some < n }'
}
cp "$work/small.deck" "$work/two.deck"
still="--set run.steps=1 --set optimizer.lr=0 --set table_defaults.optimizer.lr=0"
check "two" train 2 two $still
for one in a b; do
  case $one in
  a) drop='/name = "\(b\|both\|pb\|like\)"/d; s/"pb", "like", //; /{ name = "bought"/d; s/max_length = 12; },/max_length = 12; } ); };/; s/, "bought"\]/]/' ;;
  b) drop='/name = "\(a\|pa\|like\)"/d; s/"pa", //; s/"like", //; /{ name = "looked"/d; s/"looked", //' ;;
  esac
  sed "$drop" "$work/two.deck" > "$work/small.deck"
  check "$one alone" train 2 alone-$one $still
  predict="${MPIRUN:-mpirun} -q -n 3 $TESSERA predict"
  check "$one alone: predict" $predict "$work/small.deck" --quiet --set run.output="$work/alone-$one" --layer p$one --out "$work/alone.csv"
  check "$one of two: predict" $predict "$work/two.deck" --quiet --set run.output="$work/two" --layer p$one --out "$work/two.csv"
  check "$one: the same" near "$work/alone.csv" "$work/two.csv" 201
done

# An output over items, by one vector of both; evaluations rank all items.
sed 's/{ name = "label"; kind = "label"; }, //; s/max_length = 5; } );/max_length = 5; }, { name = "next"; kind = "ids"; encoding = "none"; max_length = 1; } );/
  s/"bought"\]; p/"bought", "next"]; p/; s/"click"; kind = "mlp"; \(.*\) units = \[16, 1\]; last_activation = "linear"; } ); };/"user"; kind = "mlp"; \1 units = [16, 8]; } );\
  outputs = ( { name = "next"; in = "user"; loss = "sampled_softmax"; target = "next"; negatives = 5; exclude = ["bought"]; } ); };\
metrics = { report = ["logloss", "ndcg"]; k = 10; };/' "$work/two.deck" > "$work/small.deck"
for ranks in 1 3; do
  check "items, $ranks ranks" train $ranks items$ranks
  ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" eval "$work/small.deck" --set run.output="$work/items1" | grep -o 'NDCG [0-9.]*' > "$work/ndcg$ranks"
done
check "items: close" close_losses items1 items3 1e-6 12
check "items: one figure" sh -c "[ -s '$work/ndcg1' ] && cmp '$work/ndcg1' '$work/ndcg3'"
passed
