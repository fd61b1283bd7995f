#!/bin/sh
# few_bits.sh - tables of dtype int8 and int4: training is near that of f32, in
# every way to shard rows, on host and slow memory, with dynamic ids, on 1 to 4
# ranks; checkpoints start training to the bit, are read as other dtypes and by
# every command; column shards are refused.  seconds: 500
. "$srcdir/tests/support/common.sh"
few="--set tables.a.dtype=int8 --set tables.b.dtype=int4 --set tables.c.dtype=int8 --set tables.d.dtype=int4 --set tables.e.dtype=int8 --set checkpoint.every=20"
f32="--set tables.c.dtype=f32 --set tables.d.dtype=f32"
fails() { # CODE TEXT command...
  code=$1; text=$2; shift 2
  "$@" > "$work/out" 2>&1; [ $? = "$code" ] && grep -q "$text" "$work/out" || { cat "$work/out"; return 1; }
}

# Means of the losses of the last 20 steps, as far apart as LIMIT at most: the
# batches are small, so two runs part soon.
near() { # RUN LIMIT
  for run in wide "$1"; do losses $run | tail -n 20 | awk '{ s += $1 } END { print s / NR }'; done |
    awk -v limit="$2" 'NR == 1 { x = $1 } END { d = $1 / x - 1; if (d < 0) d = -d; if (!(d <= limit)) { print x, $1; exit 1 } }'
}

# ---- training ----------------------------------------------------------------
cat > "$work/truth.deck" <<'DECK'
run = { name = "truth"; seed = 7; epochs = 1.0; threads = 1; log_every = 100; };
data = { train = "train.h5"; eval = "eval.h5"; global_batch = 1024;
         synthetic = { samples = 200000; eval_samples = 20000; zipf = 1.1; hidden_dim = 4; noise = 0.5; seed = 3; }; };
tables = ( { name = "t{0..7}"; rows = 500; dim = 16; features = ["C{1..8}"]; optimizer = { kind = "rowwise_adagrad"; lr = 0.03; }; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [64, 16]; over_arch = [128, 64, 1]; };
optimizer = { kind = "adam"; lr = 4e-3; schedule = { kind = "linear"; steps = 196; floor = 0.05; }; };
checkpoint = { dir = "none"; };
DECK
for part in train eval; do
  check "generate $part" "$TESSERA" generate "$work/truth.deck" $part --out "$work/$part.h5" > "$work/log" 2>&1
done
logloss() { sed -n 's/.*"eval":true.*"logloss":\([0-9.]*\).*/\1/p' "$work/$1/metrics.jsonl" | tail -n 1; }
for dtype in f32 int8 int4; do
  check "planted truth in $dtype" "$TESSERA" train "$work/truth.deck" --quiet --set run.output="$work/truth.$dtype" --set table_defaults.dtype=$dtype
  echo "$dtype: log loss $(logloss truth.$dtype)"
done
as_good() { awk -v a="$(logloss truth.$1)" -v b="$(logloss truth.f32)" -v most="$2" 'BEGIN { exit !(b < 0.6 && a != b && a < most * b) }'; }
check "int8 is as good as f32" as_good int8 1.001
check "int4 nearly" as_good int4 1.01
check "f32" train 1 wide $f32
check "small rows" train 1 one $few
check "again" train 1 again $few
check "the same bits" same_bits "$(newest one)" "$(newest again)"
for kind in data_parallel table_wise row_wise table_row_wise; do
  check "$kind on 2 ranks" train 2 $kind $few --set table_defaults.sharding=$kind
  check "$kind: near" near $kind 0.15
done
for n in 3 4; do
  check "$n ranks" train $n ranks$n $few --set table_defaults.sharding=row_wise
  check "$n ranks: near" near ranks$n 0.15
done
for kernel in cached host; do
  check "kernel $kernel" train 1 $kernel $few --set table_defaults.kernel=$kernel
  check "kernel $kernel: the same bits" same_bits "$(newest one)" "$(newest $kernel)"
done
for kind in column_wise table_column_wise grid; do
  check "no $kind" fails 2 "table a: dtype int8 is not with sharding $kind" train 2 no $few --set tables.a.sharding=$kind
done
check "not without an optimizer" fails 2 "needs rows of dtype f32" train 1 no $few --set tables.a.optimizer.kind=none

# ---- checkpoints -------------------------------------------------------------
for n in 1 2 4; do
  check "$n ranks go on" train $n go$n $few --set table_defaults.sharding=row_wise --set run.steps=20
  check "$n ranks go on" train $n go$n $few --set table_defaults.sharding=row_wise
  check "$n ranks do not stop" train $n stay$n $few --set table_defaults.sharding=row_wise
  check "$n ranks: the same bits" same_bits "$(newest go$n)" "$(newest stay$n)"
done
passed
