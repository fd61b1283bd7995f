#!/bin/sh
# train_graph.sh - a model written as layers trains as the one of that name, bit
# for bit; on any ranks, pipelines, strategies and after a restart.
# seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
sed -i 's/^model = .*//; s/dim = 16; //' "$work/small.deck"
echo 'table_defaults = { dim = 16; };' >> "$work/small.deck"
# model TEXT: what the deck's model is from here on.
model() { sed '/^model = /,$d' "$work/small.deck" > "$work/rest"; { sed '/^$/d' "$work/rest"; printf 'model = {\n%s\n};\noptimizer = { kind = "adam"; lr = 1e-2; };\nsharding = { topology = "default"; };\n' "$1"; } | awk '/^(optimizer|sharding) = / { if (seen[$1]++) next } 1' > "$work/small.deck"; }
top='parameters = "over_arch.model.0._mlp.{i}._linear"; parameter_group = "over_arch";'
bottom='{ name = "b"; kind = "mlp"; in = "dense"; units = [32, 16]; parameters = "dense_arch.model._mlp.{i}._linear"; parameter_group = "dense_arch"; }'
over='{ name = "h"; kind = "mlp"; in = "x"; units = [32, 16]; '$top' },
{ name = "y"; kind = "linear"; in = "h"; units = 1; parameters = "over_arch.model.1"; parameter_group = "over_arch.2"; }'

# The same model under its name and as layers.
model 'kind = "dlrm"; dense_features = 3; dense_arch = [32, 16]; over_arch = [32, 16, 1];'
train 2 named || exit 1
model "dense_features = 3; layers = ( $bottom, { name = \"x\"; kind = \"dot\"; in = [\"b\", \"fields\"]; }, $over );"
train 2 dlrm || exit 1
check "dlrm as layers" same_bits "$(newest named)" "$(newest dlrm)"
model 'kind = "sparsenn"; dense_features = 3; dense_arch = [32, 16]; over_arch = [32, 16, 1];'
sed -i 's/weighted = true; //' "$work/small.deck"
train 2 named2 || exit 1
model "dense_features = 3; layers = ( $bottom, { name = \"x\"; kind = \"concat\"; in = [\"b\", \"embeddings\"]; }, $over );"
train 2 sparsenn || exit 1
check "sparsenn as layers" same_bits "$(newest named2)" "$(newest sparsenn)"

# A graph of its own: values that several layers read, one of a feature, a block.
model 'dense_features = 3; layers = (
  { name = "b";      kind = "mlp";    in = "dense"; units = [16]; },
  { name = "pairs";  kind = "dot";    in = ["b", "fields"]; },
  { name = "second"; kind = "fm";     in = "fields"; },
  { name = "vector"; kind = "fm";     in = "fields"; reduce = false; },
  { name = "one";    kind = "linear"; in = "fb"; units = 1; bias = false; },
  { name = "tower";  kind = "block";  repeat = 2; in = ["b", "embeddings", "pairs", "vector"]; layers = (
    { name = "up";   kind = "mlp"; in = "tower"; units = [24]; },
    { name = "down"; kind = "mlp"; in = "up"; units = [12]; } ); },
  { name = "last";   kind = "linear"; in = "tower"; units = 1; },
  { name = "click";  kind = "add"; in = ["last", "second", "one"]; } );'
for ranks in 1 2 4; do train $ranks g$ranks --set run.steps=20 || exit 1; done
check "two ranks as one" close_losses g1 g2 1e-5 20
check "four ranks as one" close_losses g1 g4 1e-5 20
train 2 again --set run.steps=10 && train 2 again --set run.steps=20 || exit 1
check "restart" same_bits "$(newest again)" "$(newest g2)"
for kind in base sparse_dist fused_sparse_dist; do
  train 2 $kind --set run.steps=20 --set pipeline.kind=$kind || exit 1
  check "pipeline $kind" same_bits "$(newest $kind)" "$(newest g2)"
done
train 2 sharded --set run.steps=20 --set dense.parallel=fully_sharded || exit 1
check "fully sharded" close_losses g2 sharded 1e-5 20
train 2 parts --set run.steps=20 --set run.accumulate=3 || exit 1
check "micro-batches" close_losses g2 parts 1e-5 20
train 2 serial --set run.steps=20 --set run.lanes=serial || exit 1
check "serial lanes" same_bits "$(newest serial)" "$(newest g2)"
# What is in force reads back to the same.
"$TESSERA" train "$work/g1/deck.effective" --quiet --set run.output="$work/effective" --set checkpoint.dir="$work/effective/checkpoints" || exit 1
check "deck.effective" same_bits "$(newest effective)" "$(newest g1)"
check "its blocks are rolled out" grep -q 'name = "tower.1.down"' "$work/g1/deck.effective"
# What it tells.
"$TESSERA" train "$work/small.deck" --check > "$work/table" || exit 1
check "--check: shapes" grep -q 'pairs  *dot  *(B, 37)' "$work/table"
check "--check: sums" grep -Eq 'all  *[0-9]+  *[0-9]+  *[0-9]+$' "$work/table"
"$TESSERA" predict "$work/small.deck" --set run.output="$work/g1" --layer vector --out "$work/v.csv" || exit 1
check "--layer: columns" test "$(head -n 1 "$work/v.csv" | tr ',' '\n' | grep -c '^layer_')" = 16
check "--layer: rows" test "$(wc -l < "$work/v.csv")" = 301
"$TESSERA" predict "$work/small.deck" --set run.output="$work/g2" --layer click --out "$work/click.csv" && "$TESSERA" predict "$work/small.deck" --set run.output="$work/g2" --out "$work/p.csv" || exit 1
check "a layer's values are those of the pass" sh -c "paste -d, '$work/click.csv' '$work/p.csv' | awk -F, 'NR > 1 { d = 1 / (1 + exp(-\$1)) - \$2; if (d < -1e-5 || d > 1e-5) bad = 1 } END { exit bad || NR != 301 }'"
check "a layer that isn't there" sh -c "! '$TESSERA' predict '$work/small.deck' --set run.output='$work/g1' --layer nope --out - 2> '$work/err' && grep -q 'has no such layer' '$work/err'"
"$TESSERA" plot --model "$work/small.deck" -o "$work/m.svg" || exit 1
check "a box for each layer and input" test "$(grep -c '<rect x=' "$work/m.svg")" = 14
for kind in $("$TESSERA" help model | sed -n '/^Kinds/,$p' | awk 'NR > 1 && $1 != "block" { print $1 }'); do
  "$TESSERA" help layer "$kind" > "$work/page" || exit 1
  check "page of $kind" sh -c "grep -q '  in  ' '$work/page' && grep -q '  out  ' '$work/page'"
done
# Graphs that come with the program: trained, stopped, gone on with on other
# ranks, and their predictions.
model 'kind = "nfm"; dense_features = 3;'
n=0
for kind in $("$TESSERA" help model | sed -n '/model.LAYER.KEY/,/^$/p' | sed 1d); do
  case $kind in
  sasrec | hstu | bert4rec | din | bst | two_tower | two_tower_items | youtube_dnn | mf_ccl | simplex) n=$((n + 1)); continue ;; # oracle.sh has data for them
  lr) set -- --set table_defaults.group=wide --set table_defaults.dim=1 ;;
  *) set -- --set table_defaults.wide=$(grep -q fields:wide "$srcdir/input/models/$kind.deck" && echo true || echo false) ;;
  esac
  set -- --set model.kind=$kind "$@"
  train 2 zoo-$kind "$@" --set run.steps=4 && train 3 zoo-$kind "$@" --set run.steps=8 || exit 1
  check "$kind goes on" grep -q '"step":8' "$work/zoo-$kind/metrics.jsonl"
  "$TESSERA" predict "$work/small.deck" "$@" --quiet --set run.output="$work/zoo-$kind" --out "$work/p.csv" || exit 1
  check "$kind predicts" sh -c "awk -F, 'NR > 1 && !(\$1 >= 0 && \$1 <= 1) { exit 1 } END { exit NR != 301 }' '$work/p.csv'"
  n=$((n + 1))
done
check "all of them" test $n = "$(ls "$srcdir/input/models" | wc -l)"
passed
