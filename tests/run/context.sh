#!/bin/sh
# context.sh - vectors before a sample's tokens (kind prepend), which look at all
# of it (`context`), in whole runs: the same on any ranks, pipelines and
# shardings, in two parts, on a GPU's memory; outputs over items; its mistakes.
# seconds: 70
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
# lists LINES SEED: label, item, user, a list of 0 to 20 ids and what came next
# of the last of them; the label tends to say whether the last id, or that of no
# history 0, the item and the user are odd together.
lists() {
  awk -v n="$1" -v seed="$2" 'BEGIN {
    srand(seed); print "label,item,user,history,next"
    for (i = 0; i < n; i++) {
      m = int(rand() * 21); a = b = ""; last = 0; item = int(rand() * 60); user = int(rand() * 40)
      for (k = 0; k < m; k++) { last = int(rand() * 60); a = a (k ? "|" : "") last }
      for (k = 0; k < (i % 3 ? 1 : m + 1); k++) b = b (k ? "|" : "") int(rand() * 60)
      print (rand() < ((last + item + user) % 2 ? 0.8 : 0.2)) "," item "," user "," a "," b
    } }'
}
lists 1000 1 > "$work/train.csv"
lists 300 2 > "$work/eval.csv"
cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 11; steps = 15; threads = 1; log_every = 1; };
data = { format = "csv"; train = "train.csv"; eval = "eval.csv"; global_batch = 96;
  columns = ( { name = "label"; kind = "label"; }, { name = "item"; kind = "ids"; encoding = "modulo"; },
    { name = "user"; kind = "ids"; encoding = "modulo"; },
    { name = "history"; kind = "ids"; encoding = "modulo"; list_separator = "|"; max_length = 20; } ); };
tables = ( { name = "item"; rows = 60; dim = 16; features = ["item"]; },
           { name = "user"; rows = 40; dim = 4; features = ["user"]; },
           { name = "history"; rows = 60; dim = 16; features = ["history"]; pooling = "none"; } );
table_defaults = { optimizer = { kind = "rowwise_adagrad"; lr = 0.05; }; };
model = { layers = (
  { name = "place";  kind = "position";   in = "history"; places = 20; },
  { name = "about";  kind = "linear";     in = "user"; units = 16; },
  { name = "whole";  kind = "prepend";    in = "place"; before = ["about", "item"]; },
  { name = "looks";  kind = "attention";  in = "whole"; heads = 2; context = 2; dropout = 0.2; },
  { name = "sum";    kind = "add";        in = ["whole", "looks"]; },
  { name = "each";   kind = "mlp";        in = "sum"; units = [24, 16]; dropout = 0.1; },
  { name = "blocks"; kind = "block"; repeat = 2; in = "each"; layers = (
    { name = "unit"; kind = "hstu"; in = "blocks"; heads = 2; places = 6; context = 2; dropout = 0.1; } ); },
  { name = "like";   kind = "target_attention"; in = "blocks"; query = "item"; units = [8]; },
  { name = "newest"; kind = "pool";       in = "blocks"; by = "last"; },
  { name = "past";   kind = "pool";       in = "place"; },
  { name = "click";  kind = "mlp";        in = ["like", "newest", "past"]; units = [16, 1]; last_activation = "linear"; } ); };
optimizer = { kind = "sgd"; lr = 0.05; };
sharding = { topology = "default"; };
DECK
cp "$work/small.deck" "$work/click.deck"

# On any ranks, in any pipeline and sharding.
for ranks in 1 2 4; do check "$ranks ranks" train $ranks r$ranks; done
check "two ranks as one" close_losses r1 r2 1e-6 15
check "four ranks as one" close_losses r1 r4 1e-6 15
for set in pipeline.kind=sparse_dist pipeline.kind=prefetch dense.parallel=fully_sharded optimizer.in_backward=true data.max_tokens=900; do
  check "$set" train 2 "$set" --set "$set"
  check "$set: same bits" same_bits "$(newest r2)" "$(newest "$set")"
done
check "row_wise" train 2 rows --set table_defaults.sharding=row_wise
check "row_wise: close" close_losses r1 rows 1e-6 15
check "micro-batches" train 2 parts --set run.accumulate=3
check "micro-batches: close" close_losses r1 parts 1e-6 15
check "bf16" train 2 bf16 --set run.precision=bf16
check "bf16: close" close_losses r1 bf16 2e-2 15
check "bf16 is not f32" sh -c "! cmp -s '$work/x' '$work/y'"
check "without context" train 2 causal --set 'model.change=({name="looks";context=0;},{name="blocks.unit";context=0;})'
check "context counts" sh -c "[ '$(losses causal | tail -n 1)' != '$(losses r2 | tail -n 1)' ]"

# Stopped inside the first epoch of 11 steps and inside the second.
check "stopped" train 2 stop --set run.steps=6
check "goes on" train 2 stop --set run.steps=13
check "and on" train 2 stop
check "same bits" same_bits "$(newest r2)" "$(newest stop)"

# A sample is told by itself, whoever is beside it.
for ranks in 1 3; do
  check "predict, $ranks" ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" predict "$work/small.deck" --quiet --set run.output="$work/r2" --out "$work/p$ranks.csv"
done
near() { # FILE FILE: numbers, to 1e-5
  paste -d, "$1" "$2" | awk -F, 'NR > 1 { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d < -1e-5 || d > 1e-5) bad = 1 } } END { exit bad || NR != 301 }'
}
check "on 1 and 3 ranks" near "$work/p1.csv" "$work/p3.csv"
check "--check" "$TESSERA" train "$work/small.deck" --check > "$work/said"
check "--check: the layer" grep -qE '^  whole +prepend +\(T, 16\) .* place, whole:in$' "$work/said"

mistake() { # CODE WORDS OPTIONS
  want=$1; words=$2; shift 2
  train 1 bad "$@" > "$work/out" 2> "$work/err"; code=$?
  rm -rf "$work/bad"
  [ $code = "$want" ] && [ "$(grep -c '^tessera: error:' "$work/err")" = 1 ] && grep -qF -- "$words" "$work/err" && return
  echo "code $code, not $want, or not one message \"$words\":"; cat "$work/err"; return 1
}
change() { echo "model.change=({name=\"$1\";$2})"; }
check "other widths" mistake 2 'layer whole (prepend): it takes fields (B, F, d), or several vectors of one width' --set "$(change about 'units=8;')"
check "another width" mistake 2 'layer whole (prepend): vectors of `before`, "user", are (B, 4), and tokens "place" (T, 16): it takes vectors (B, 16)' --set "$(change whole 'before="user";')"
check "tokens before" mistake 2 '`in` alone may be' --set "$(change whole 'before="place";')"
check "nothing before" mistake 2 'it needs the key before' --set "$(change whole 'before=[];')"
check "beside others" mistake 2 'has 0 vectors before each sample'"'"'s tokens, and what it is to lie beside has 2' --set "$(change sum 'in=["looks","place"];')"
check "context of all" mistake 2 'layer looks (attention): context = 2 is for causal = true' --set "$(change looks 'causal=false;')"
check "another kind" mistake 2 'it does not take the key before' --set "$(change sum 'before="item";')"

# Outputs over items: targets go with the last tokens, one of them with a vector
# where a sample has as many as events and one; evaluations look at the last
# rows alone on the host (model/graph_last.c), and at all on a GPU.
cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 11; steps = 15; threads = 1; log_every = 1; };
data = { format = "csv"; train = "train.csv"; eval = "eval.csv"; global_batch = 96;
  columns = ( { name = "user"; kind = "ids"; encoding = "modulo"; },
    { name = "history"; kind = "ids"; encoding = "modulo"; list_separator = "|"; max_length = 20; },
    { name = "next"; kind = "ids"; encoding = "modulo"; list_separator = "|"; max_length = 21; } ); };
tables = ( { name = "user"; rows = 40; dim = 16; features = ["user"]; },
           { name = "item"; rows = 60; dim = 16; features = ["history", "next"]; pooling = "none"; } );
table_defaults = { optimizer = { kind = "rowwise_adagrad"; lr = 0.1; }; };
model = { layers = (
  { name = "whole";  kind = "prepend";    in = "history"; before = "user"; },
  { name = "looks";  kind = "hstu";       in = "whole"; places = 20; },
  { name = "last";   kind = "attention";  in = "looks"; heads = 2; places = "rotary"; } );
  outputs = ( { name = "next"; in = "last"; loss = "sampled_softmax"; target = "next"; negatives = 20; } ); };
optimizer = { kind = "sgd"; lr = 0.2; };
sharding = { topology = "default"; };
DECK
for ranks in 1 2 4; do check "items, $ranks ranks" train $ranks items$ranks; done
for ranks in 2 4; do check "items: $ranks ranks as one" close_losses items1 items$ranks 1e-6 15; done
of_evaluation() { grep 'evaluation.* samples ' "$1" | tail -n 1 | grep -o 'log loss [0-9.]*'; }
for ranks in 1 3; do
  check "items: eval" ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" eval "$work/small.deck" --set run.output="$work/items1" > "$work/said$ranks"
  of_evaluation "$work/said$ranks" > "$work/loss$ranks"
done
check "items: eval on three ranks" cmp "$work/loss1" "$work/loss3"
awk -F, -v OFS=, 'NR == 40 { n = split($4, x, "|"); $5 = "1|2"; for (k = 0; k < n; k++) $5 = $5 "|3" } 1' "$work/train.csv" > "$work/more.csv"
check "more targets than tokens and vectors" mistake 3 'whose last ones they are to follow: it can have as many at most' --set data.train="$work/more.csv"

# A GPU's memory.
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  check "emulated, eval" "$emulated" eval "$work/small.deck" --set run.output="$work/items1" --set run.backend=emulated > "$work/said"
  of_evaluation "$work/said" > "$work/loss"
  check "emulated, eval: as the host, which looks at the last rows alone" cmp "$work/loss1" "$work/loss"
  cp "$work/click.deck" "$work/small.deck"
  few="--set data.global_batch=24 --set run.steps=6"
  check "few" train 1 few $few
  TESSERA=$emulated few="$few --set run.backend=emulated"
  for graph in auto off; do check "emulated, graphs $graph" train 1 graph-$graph $few --set run.graph=$graph; done
  check "graphs: same bits" same_bits "$(newest graph-auto)" "$(newest graph-off)"
  check "emulated: close" close_losses few graph-auto 1e-6 6
  check "emulated, two ranks" train 2 device $few
  check "emulated, two ranks: close" close_losses few device 1e-6 6
fi
passed
