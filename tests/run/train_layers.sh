#!/bin/sh
# train_layers.sh - a graph with dropout, batch norm, layer norm, prelu and dice,
# which do otherwise in training than in evaluation: other ranks agree, stop and
# resume is a straight run bit for bit, so are all pipelines and both strategies;
# evaluation goes by the running statistics.  seconds: 500  isa: all
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 11; steps = 40; threads = 1; log_every = 1; };
data = { format = "synthetic"; global_batch = 96; synthetic = { samples = 1000; eval_samples = 300; }; };
table_defaults = { dim = 8; optimizer = { kind = "adagrad"; lr = 0.05; }; };
tables = ( { name = "t{0..4}"; features = ["f{0..4}"]; rows = 200; } );
model = {
  dense_features = 3;
  layers = (
    { name = "below"; kind = "mlp"; in = "dense"; units = [16, 8]; norm = "layer"; activation = "prelu"; dropout = 0.1; },
    { name = "gate"; kind = "linear"; in = "below"; units = 5; },
    { name = "open"; kind = "activation"; in = "gate"; activation = "sigmoid"; },
    { name = "gated"; kind = "multiply"; in = ["fields", "open"]; },
    { name = "normed"; kind = "batch_norm"; in = ["below", "gated"]; },
    { name = "some"; kind = "dropout"; in = "normed"; p = 0.2; },
    { name = "deep"; kind = "mlp"; in = "some"; units = [16, 16]; norm = "batch"; activation = "dice"; dropout = 0.2; residual = true; },
    { name = "last"; kind = "linear"; in = "deep"; units = 1; },
    { name = "scaled"; kind = "scale"; in = "last"; learnt = true; } );
};
optimizer = { kind = "momentum"; lr = 0.05; };
sharding = { topology = "default"; };
DECK
for n in 1 2 4; do
  check "straight run on $n" train $n straight$n
  check "first half on $n" train $n half$n --set run.steps=17
  check "second half on $n" train $n half$n
  check "straight = stop + resume on $n ranks" same_bits "$(newest straight$n)" "$(newest half$n)"
  check "1 and $n ranks agree" close_losses straight1 straight$n 1e-6 20
  check "fully_sharded on $n" train $n fs$n --set dense.parallel=fully_sharded
  check "$n ranks: bits of ddp" same_bits "$(newest straight$n)" "$(newest fs$n)"
done
h5ls -r "$(newest straight1)" > "$work/names"
for name in normed.0 deep.0.norm deep.1.norm deep.0.activation; do
  check "the checkpoint has $name.running_var" grep -q "/model/$name.running_var" "$work/names"
done
for kind in sparse_dist fused_sparse_dist prefetch; do
  check "$kind" train 2 $kind --set pipeline.kind=$kind
  check "$kind: bits of base" same_bits "$(newest straight2)" "$(newest $kind)"
done
check "serial lanes" train 2 serial --set run.lanes=serial
check "lanes don't change bits" same_bits "$(newest straight2)" "$(newest serial)"
check "half on 4 under fully_sharded" train 4 moved --set dense.parallel=fully_sharded --set run.steps=10
check "goes on on 2 under ddp" train 2 moved
check "as on one rank" close_losses straight1 moved 1e-6 20
check "micro-batches" train 3 micro --set run.accumulate=2
check "fewer samples than ranks" train 4 tiny --set data.global_batch=3 --set run.steps=5
# The masks differ from step to step, and from epoch to epoch.
same="--set optimizer.lr=0 --set table_defaults.optimizer.lr=0 --set data.synthetic.samples=96"
check "the same batch again and again" train 1 again $same --set run.steps=4
check "drops other numbers in each epoch" test "$(losses again | sort -u | wc -l)" = 4

# Running statistics are among the weights that others begin with.
first_var() { h5dump -d /model/normed.0.running_var "$(newest "$1")" | awk '/\(0\)/ { print $2 + 0; exit }'; }
check "begins with these weights" train 1 begun --set run.steps=1 --set checkpoint.init_from="$(newest straight2)"
check "variances are near those" awk -v was="$(first_var straight2)" -v is="$(first_var begun)" \
  'BEGIN { exit !(was > 0 && was < 0.5 && is > 0.8 * was && is < 1.2 * was) }'

# Evaluation: no batch has a say in another sample's figure, nor has what is dropped.
scores() { # name, options
  name=$1; shift
  "$TESSERA" predict "$work/small.deck" --quiet --checkpoint "$(newest straight2)" --set run.output="$work/p" --out "$work/$name.csv" "$@"
}
check "predicts" scores whole
check "predicts by other batches" scores parts --set data.global_batch=7 --set run.seed=12
check "the same" same_predictions "$work/whole.csv" "$work/parts.csv"
check "on all ranks" train 3 valid --set run.steps=20 --set run.eval_every=10
passed
