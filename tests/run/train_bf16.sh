#!/bin/sh
# train_bf16.sh - run.precision "bf16": as good as f32 on data with a planted
# truth, the same bits with and without lanes, f32 where the CPU has no
# instructions for it.  seconds: 400  isa: all
. "$srcdir/tests/support/common.sh"
not_sanitized
cat > "$work/truth.deck" <<'DECK'
run = { name = "truth"; seed = 7; epochs = 1.0; threads = 1; log_every = 100; };
data = { train = "train.h5"; eval = "eval.h5"; global_batch = 1024;
         synthetic = { samples = 200000; eval_samples = 20000; zipf = 1.1; hidden_dim = 4; noise = 0.5; seed = 3; }; };
tables = ( { name = "t{0..7}"; rows = 500; dim = 16; features = ["C{1..8}"]; optimizer = { kind = "rowwise_adagrad"; lr = 0.03; }; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [64, 16]; over_arch = [128, 64, 1]; dcn = { layers = 2; rank = 16; }; };
optimizer = { kind = "adam"; lr = 4e-3; schedule = { kind = "linear"; steps = 196; floor = 0.05; }; };
checkpoint = { dir = "none"; };
DECK
for part in train eval; do
  check "generate $part" "$TESSERA" generate "$work/truth.deck" $part --out "$work/$part.h5" > "$work/log" 2>&1
done
logloss() { sed -n 's/.*"eval":true.*"logloss":\([0-9.]*\).*/\1/p' "$work/$1/metrics.jsonl" | tail -n 1; }
as_good() { # run, run in f32
  echo "$1: log loss $(logloss "$1"), f32 $(logloss "$2")"
  awk -v a="$(logloss "$1")" -v b="$(logloss "$2")" 'BEGIN { exit !(b < 0.6 && a != b && a < 1.001 * b) }'
}
for model in dlrm dcnv2; do
  for p in f32 bf16; do
    check "$model in $p" "$TESSERA" train "$work/truth.deck" --quiet --set run.output="$work/$model.$p" --set model.kind=$model --set run.precision=$p
  done
  lacks=$(grep -c 'no instructions' "$work/$model.bf16/log")
  if grep -q avx512_bf16 /proc/cpuinfo; then
    check "$model: this CPU has instructions for bf16" test "$lacks" = 0
    check "$model: bf16 is as good as f32" as_good $model.bf16 $model.f32
  else
    check "$model: this CPU has none, and the program says so" test "$lacks" = 1
    check "$model: bf16 is f32" test "$(logloss $model.bf16)" = "$(logloss $model.f32)"
  fi
done
check "cross layers of rows that nobody padded" "$TESSERA" train "$work/truth.deck" --quiet --set run.steps=4 --set run.output="$work/flat" --set run.precision=bf16 \
  --set model.dense_arch=[] --set model.over_arch=[1] --set 'model.layers=({name="x";kind="flatten";in=["dense","embeddings"];},{name="c";kind="cross";in="x";},{name="y";kind="linear";in="c";units=1;})'

# As on a CPU without bf16: f32's bits, one note.
export DNNL_MAX_CPU_ISA=AVX2
f32="--set run.steps=10 --set optimizer.kind=adagrad"
check "f32 on such a CPU" train 1 plain $f32
check "bf16 on such a CPU" train 1 noted $f32 --set run.precision=bf16
unset DNNL_MAX_CPU_ISA
check "is f32" same_bits "$(newest plain)" "$(newest noted)"
check "and says so once" [ "$(grep -c 'no instructions' "$work/noted/log")" = 1 ]

for model in dlrm dcnv2; do
  for lanes in parallel serial; do
    check "$model, lanes $lanes" train 2 $model.$lanes $f32 --set run.precision=bf16 --set run.lanes=$lanes --set model.kind=$model
  done
  check "$model: lanes change no bit" same_bits "$(newest $model.parallel)" "$(newest $model.serial)"
done

# Many small layers, whose weights fully sharded ranks exchange in bf16.
parts='--set model.dense_arch=[] --set model.over_arch=[1] --set model.layers=({name="p";kind="project";in=["fields","dense"];dim=8;},{name="w";kind="periodic";in="dense";frequencies=4;dim=8;},{name="y";kind="mlp";in=["p","w"];units=[8,1];last_activation="linear";})'
check "parts" train 2 parts $f32 --set run.precision=bf16 $parts
check "parts in f32" train 2 parts-f32 $f32 $parts
check "they are close" close_losses parts parts-f32 0.02 10
grep -q avx512_bf16 /proc/cpuinfo && check "and not the same" test "$(losses parts)" != "$(losses parts-f32)"
for how in dense.parallel=fully_sharded run.lanes=serial; do
  check "parts, $how" train 2 "$how" $f32 --set run.precision=bf16 $parts --set $how
  check "parts, $how: the same bits" same_bits "$(newest parts)" "$(newest "$how")"
done
passed
