#!/bin/sh
# model_mistakes.sh - mistakes in model.layers: one message that says where and
# what to do, code 2.
# seconds: 200
. "$srcdir/tests/support/common.sh"
n=0
# mistake LAYERS PATTERN [options]: layers of a model that can't be.
mistake() {
  layers=$1; pattern=$2; shift 2
  n=$((n + 1))
  cat > "$work/m.deck" <<DECK
run = { name = "m"; steps = 2; threads = 1; };
data = { format = "synthetic"; global_batch = 8; synthetic = { samples = 100; }; };
tables = ( { name = "t"; rows = 50; dim = 8; features = ["f0", "f1"]; },
           { name = "u"; rows = 50; dim = 4; features = ["g"]; } );
model = { dense_features = 3;
layers = (
$layers
); };
DECK
  "$TESSERA" train "$work/m.deck" --check "$@" > "$work/out" 2> "$work/err"; code=$?
  n_checks=$((n_checks + 1))
  if [ $code != 2 ] || ! grep -qF -- "$pattern" "$work/err"; then
    echo "FAILED: mistake $n gave $code: $layers"; echo "wanted: $pattern"; cat "$work/err"; exit 1
  fi
}
last='{ name = "y"; kind = "linear"; in = "h"; units = 1; }'
h='{ name = "h"; kind = "mlp"; in = ["dense", "embeddings"]; units = [4]; },'

# Names.
mistake "$h { name = \"y\"; kind = \"linear\"; in = \"hh\"; units = 1; }" 'it reads "hh": there is no input or layer of that name; did you mean "h"?'
mistake "{ name = \"h\"; kind = \"mlp\"; in = \"deep\"; units = [4]; }, { name = \"deep\"; kind = \"mlp\"; in = \"embeddings\"; units = [4]; }, $last" 'which stands below it (line 7): a layer reads inputs and layers above it'
mistake "$h { name = \"h\"; kind = \"mlp\"; in = \"dense\"; units = [4]; }, $last" 'there are two layers named "h": the other is in line 7'
mistake "{ name = \"a.b\"; kind = \"mlp\"; in = \"dense\"; units = [4]; }, $h $last" '"a.b" is no name for a layer'
mistake "{ name = \"a@b\"; kind = \"mlp\"; in = \"dense\"; units = [4]; }, $h $last" '"a@b" is no name for a layer'
mistake "{ name = \"f0\"; kind = \"mlp\"; in = \"dense\"; units = [4]; }, $h $last" '"f0" is the name of an input'
mistake "{ name = \"dense\"; kind = \"mlp\"; in = \"embeddings\"; units = [4]; }, $last" '"dense" is the name of an input'
mistake "{ kind = \"mlp\"; in = \"embeddings\"; units = [4]; }, $last" 'a layer has no name'
mistake "{ name = \"h\"; in = \"embeddings\"; units = [4]; }, $last" 'a layer has no kind'
mistake "{ name = \"h\"; kind = \"mlpp\"; in = \"embeddings\"; units = [4]; }, $last" 'there is no kind "mlpp"; there are: concat, linear, mlp'
mistake "$h $last" 'model.kind and model.layers are both given by --set' --set model.kind=fm --set 'model.layers=()'
# What nobody reads.
mistake "{ name = \"i\"; kind = \"mlp\"; in = \"dense\"; units = [4]; }, $h $last" 'nothing reads "i"'
mistake "{ name = \"h\"; kind = \"mlp\"; in = [\"f0\", \"f1\"]; units = [4]; }, $last" 'no layer reads feature g of table u'
mistake "$h { name = \"y\"; kind = \"linear\"; in = \"h\"; units = 2; }" 'it is the last one and gives (B, 2), but there are 1 tasks'
# Keys.
mistake "{ name = \"h\"; kind = \"mlp\"; in = \"embeddings\"; unit = [4]; }, $last" 'kind "mlp" has no key "unit"; did you mean "units"?'
mistake "{ name = \"h\"; kind = \"mlp\"; in = \"embeddings\"; }, $last" 'layer h (mlp): the key units is missing'
mistake "{ name = \"h\"; kind = \"mlp\"; in = \"embeddings\"; units = []; }, $last" 'units is empty'
mistake "{ name = \"h\"; kind = \"mlp\"; in = \"embeddings\"; units = [0]; }, $last" 'units = 0 is out of range'
mistake "{ name = \"h\"; kind = \"mlp\"; in = \"embeddings\"; units = \"many\"; }, $last" 'units takes an integer'
mistake "{ name = \"h\"; kind = \"mlp\"; in = \"embeddings\"; units = [4]; over = 3; }, $last" 'kind "mlp" has no key "over"'
mistake "{ name = \"h\"; kind = \"mlp\"; in = 3; units = [4]; }, $last" 'in takes texts in quotes'
mistake "{ name = \"h\"; kind = \"mlp\"; units = [4]; in = [] }, $last" 'it takes 1 input in `in`, it has 0'
mistake "{ name = \"h\"; kind = \"mlp\"; in = \"embeddings\"; query = \"dense\"; units = [4]; }, $last" 'it does not take the key query'
# Shapes.
mistake "{ name = \"h\"; kind = \"fm\"; in = \"fields\"; }, $last" 'it takes fields (B, F, d), or several vectors of one width, but "fields" is (B, 20)'
mistake "{ name = \"s\"; kind = \"fm\"; in = \"dense\"; }, $h $last" '"dense" is (B, 3)'
mistake "{ name = \"h\"; kind = \"dot\"; in = [\"dense\", \"f0\", \"f1\", \"g\"]; }, $last" 'products of pairs need vectors of one width'
mistake "{ name = \"h\"; kind = \"dot\"; in = \"f0\"; }, { name = \"i\"; kind = \"mlp\"; in = [\"f1\", \"g\", \"h\"]; units = [3]; }, { name = \"y\"; kind = \"linear\"; in = \"i\"; units = 1; }" 'one vector makes no pair'
mistake "$h { name = \"z\"; kind = \"mlp\"; in = \"h\"; units = [3]; }, { name = \"y\"; kind = \"add\"; in = [\"h\", \"z\"]; }" '"h" is (B, 4), but "z" is (B, 3): its inputs must be of one shape'
mistake "{ name = \"h\"; kind = \"fm\"; in = [\"f0\", \"f1\"]; over = \"all\"; reduce = false; }, { name = \"i\"; kind = \"mlp\"; in = [\"h\", \"g\"]; units = [3]; }, { name = \"y\"; kind = \"linear\"; in = \"i\"; units = 1; }" 'reduce = false is for over = "coordinate"'
# Inputs that are not there.
mistake "$h { name = \"w\"; kind = \"wide\"; in = \"fields:wide\"; }, { name = \"l\"; kind = \"linear\"; in = \"h\"; units = 1; }, { name = \"y\"; kind = \"add\"; in = [\"w\", \"l\"]; }" 'no table has group = "wide"'
mistake "$h $last" 'but model.dense_features is 0; "dense?" is left out then' --set model.dense_features=0
mistake "{ name = \"w\"; kind = \"mlp\"; in = \"g@t\"; units = [2]; }, $h { name = \"y\"; kind = \"linear\"; in = [\"w\", \"h\"]; units = 1; }" 'it reads "g@t": there is no input or layer of that name'
# Sequences: table u read id by id.
each='--set tables.u.pooling=none --set data.max_tokens=99'
mistake "$h { name = \"e\"; kind = \"mlp\"; in = [\"g\", \"h\"]; units = [4]; }, { name = \"p\"; kind = \"pool\"; in = \"e\"; }, { name = \"y\"; kind = \"linear\"; in = \"p\"; units = 1; }" '"h" is (B, 4), but it takes tokens beside tokens' $each
mistake "$h { name = \"e\"; kind = \"mlp\"; in = [\"h\", \"g\"]; units = [4]; }, { name = \"p\"; kind = \"pool\"; in = \"e\"; }, { name = \"y\"; kind = \"linear\"; in = \"p\"; units = 1; }" '"h" is (B, 4) and "g" (T, 4): tokens go beside tokens' $each
mistake "$h { name = \"p\"; kind = \"pool\"; in = \"h\"; }, { name = \"y\"; kind = \"linear\"; in = [\"p\", \"g\"]; units = 1; }" '"h" is (B, 4), but it takes tokens (T, d)' $each
mistake "$h { name = \"p\"; kind = \"batch_norm\"; in = \"g\"; }, { name = \"y\"; kind = \"linear\"; in = [\"p\", \"h\"]; units = 1; }" '"g" is (T, 4), a row for each of a sample'\''s tokens, which it does not take: kind pool makes a vector of them' $each
mistake "$h { name = \"p\"; kind = \"attention\"; in = \"g\"; heads = 3; }, { name = \"q\"; kind = \"pool\"; in = \"p\"; }, { name = \"y\"; kind = \"linear\"; in = [\"q\", \"h\"]; units = 1; }" 'heads = 3 does not divide the 4 numbers of a token: give dim, of one head' $each
mistake "$h { name = \"y\"; kind = \"linear\"; in = \"g\"; units = 1; }" 'it is the last one and gives a row for each token' $each
for key in 'norm = "batch"' 'activation = "dice"'; do
  mistake "$h { name = \"e\"; kind = \"mlp\"; in = \"g\"; units = [4]; $key; }, { name = \"p\"; kind = \"pool\"; in = \"e\"; }, { name = \"y\"; kind = \"linear\"; in = [\"p\", \"h\"]; units = 1; }" 'batch norm and dice have statistics of samples, not of tokens: take norm = "layer" or "rms"' $each
done
# Blocks, and changes.
mistake "{ name = \"b\"; kind = \"block\"; repeat = 2; in = \"embeddings\"; }, $last" 'a block has a name, repeat, in, and layers'
mistake "{ name = \"b\"; kind = \"block\"; repeat = 0; in = \"embeddings\"; layers = ( { name = \"x\"; kind = \"mlp\"; in = \"b\"; units = [3]; } ); }, $last" 'repeat = 0 is out of range'
mistake "$h $last" 'there is no layer "deep"' --set 'model.change=({name="deep"; units=[3];})'
mistake "$h $last" 'unknown key "model.deep.units"' --set 'model.deep.units=[3]'
mistake "\"h\", $last" 'model.layers is a list of groups'
# Models that keys of their own describe: sets of the small deck.
named() { # pattern, options
  pattern=$1; shift
  "$TESSERA" train "$work/small.deck" --check "$@" > "$work/out" 2> "$work/err"; code=$?
  check "$pattern" test $code = 2 && check "it says so: $pattern" grep -qF -- "$pattern" "$work/err"
}
named 'leave `in` out, the model has one logit for each' --set 'model.outputs=({name="label";in="fa";})'
named 'with weighted tables sparsenn takes no "@" and ":" in names' --set model.kind=sparsenn --set 'tables.a.features=["f:a"]'
# Too much of it.
many=$(awk 'BEGIN { for (i = 0; i < 10000; i++) printf "{ name = \"l%d\"; kind = \"mlp\"; in = \"embeddings\"; units = [2]; }, ", i }')
mistake "$many $last" 'a model has 4096 layers at most'
mistake "{ name = \"h\"; kind = \"mlp\"; in = [$(awk 'BEGIN { for (i = 0; i < 900; i++) printf "%s\"z\"", i ? ", " : "" }')]; units = [4]; }, { name = \"z\"; kind = \"mlp\"; in = \"embeddings\"; units = [1000000]; }, $last" 'stands below it'
mistake "{ name = \"z\"; kind = \"mlp\"; in = \"embeddings\"; units = [1000000]; }, { name = \"h\"; kind = \"mlp\"; in = [$(awk 'BEGIN { for (i = 0; i < 900; i++) printf "%s\"z\"", i ? ", " : "" }')]; units = [4]; }, $last" 'but a sample has 16777216 numbers at most'
check "30 mistakes" test $n -ge 30
passed
