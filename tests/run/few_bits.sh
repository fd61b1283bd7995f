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
truth() {
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
}
[ -n "${TESSERA_SANITIZED:-}" ] || truth
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
ckpt() { echo "$work/$1/checkpoints/$2-000000$3.h5"; }
rows="--set table_defaults.sharding=row_wise"
deltas="--set run.steps=12 --set checkpoint.keep=99"
check "deltas" train 2 left $few $deltas --set checkpoint.every=6 --set checkpoint.delta_every=2 $rows
check "and full ones" train 2 right $few $deltas --set checkpoint.every=2 $rows
predict() { "$TESSERA" predict "$work/small.deck" --quiet --set run.output="$work/$1" --out "$work/$2.csv" $few; }
check "scores of the last delta's step" predict left left
check "and of the full one" predict right right
check "are the same" cmp "$work/left.csv" "$work/right.csv"
rm -f "$(ckpt left step 12)"
check "compact" ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" compact "$work/small.deck" --set run.output="$work/left" > "$work/out"
check "a delta as a full one" same_bits "$(ls "$work"/left/checkpoints/step-*10.h5 "$work"/left/checkpoints/step-*12.h5 2> /dev/null | tail -n 1)" "$(ckpt right step 10)"
full=$(ckpt right step 12)
check "whole" "$TESSERA" inspect "$full" --verify > "$work/shown"
check "it says what rows are" grep -q 'embedding_bags.a.weight *(50, 16) *int8' "$work/shown"
check "the longest rows" "$TESSERA" inspect "$full" --table b --top 3 > "$work/top"
check "are three" test "$(wc -l < "$work/top")" = 4

check "through MPI-IO" train 2 together $few $rows --set run.steps=12 --set checkpoint.io='"mpio"'
check "and on" train 2 together $few $rows --set run.steps=14 --set checkpoint.io='"mpio"'
check "one that does not stop" train 2 apart $few $rows --set run.steps=14
check "the same bits" same_bits "$(newest together)" "$(newest apart)"
check "compare" "$TESSERA" compare "$work/together" "$work/apart" > "$work/out"
check "no difference" grep -q 'AUC.* +0.00000 .*no difference' "$work/out"

# ---- other dtypes ------------------------------------------------------------
still="--set run.steps=1 --set optimizer.lr=0 --set table_defaults.optimizer.lr=0 --set tables.a.optimizer.lr=0 --set tables.b.optimizer.lr=0 --set tables.c.optimizer.lr=0 --set tables.d.optimizer.lr=0 --set tables.e.optimizer.lr=0"
scores() { run=$1; out=$2; shift 2; "$TESSERA" predict "$work/small.deck" --quiet --set run.output="$work/$run" --out "$work/$out.csv" "$@"; }
apart() { # FILE FILE LIMIT: scores are nearly the same
  paste -d, "$1" "$2" | awk -F, -v limit="$3" 'NR > 1 { n = NF / 2; d = $n - $NF; if (d < 0) d = -d; if (d > most) most = d } END { if (!(NR > 100 && most <= limit)) { print "apart by " most; exit 1 } }'
}
check "rows of f32 out of them" train 2 floats $f32 $still --set checkpoint.init_from="$full" --set tables.b.sharding=column_wise
check "scores of these" scores floats floats $f32
check "are the same, nearly" apart "$work/right.csv" "$work/floats.csv" 1e-5
check "and back" train 2 back $few $still --set checkpoint.init_from="$(newest floats)" $rows
check "scores of these" scores back back $few
check "are near" apart "$work/right.csv" "$work/back.csv" 0.02
check "int4 as int8" train 1 eight $still --set table_defaults.dtype=int8 --set tables.c.dtype=int8 --set tables.d.dtype=int8 --set checkpoint.init_from="$full"

# ---- files that are no good --------------------------------------------------
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py' 2> /dev/null && python=/usr/bin/python3
if $python -c 'import h5py' 2> /dev/null; then
  spoil() { # NAME PYTHON: a copy with other attributes, W the rows of table a
    cp "$full" "$work/$1.h5"
    $python -c "import h5py, sys
with h5py.File(sys.argv[1], 'r+') as f:
    f.attrs.pop('sealed', None)
    w = f['model/sparse_arch.embedding_bag_collection.embedding_bags.a.weight']
    $2" "$work/$1.h5"
    fails 4 "$3" train 1 spoilt $few $still --set checkpoint.init_from="$work/$1.h5"
  }
  check "another dim" spoil dim "w.attrs['dim'] = 20" 'has attributes "dtype" and "dim" that are not those'
  check "a dim beyond all" spoil far "w.attrs['dim'] = 2**40" 'has attributes "dtype" and "dim" that are not those'
  check "no such dtype" spoil type "w.attrs['dtype'] = 'int2'" 'has attributes "dtype" and "dim" that are not those'
  check "a dtype that is a number" spoil number "w.attrs['dtype'] = 8" 'has attributes "dtype" and "dim" that are not those'
  check "the other dtype" spoil other "w.attrs['dtype'] = 'int4'" 'has attributes "dtype" and "dim" that are not those'
  check "bytes alone" spoil bytes "w.attrs.pop('dtype')" 'is (50, 24) in the file and (50, 16) in the deck'
fi

# ---- commands ----------------------------------------------------------------
command() { what=$1; shift; "$TESSERA" $what "$work/small.deck" --quiet --set run.output="$work/right" $few "$@"; }
check "eval" command eval > "$work/out"
check "embeddings" command predict --embeddings fb --out "$work/vectors.csv"
check "export" command export --out "$work/exported"
check "tensors of f32 start a run" train 1 tensors $f32 $still --set checkpoint.init_from="$work/exported/model.safetensors"
check "scores of these" scores tensors tensors $f32
check "are the same" apart "$work/right.csv" "$work/tensors.csv" 1e-5
check "to serve" command export --format serve --tables int8 --out "$work/right.serve"

# ---- ids, means --------------------------------------------------------------
cat > "$work/ids.deck" <<'DECK'
run = { steps = 24; log_every = 1; threads = 1; };
data = { train = "data.h5"; format = "dataset"; global_batch = 64; };
table_defaults = { dim = 16; rows = "dynamic"; admit = { min_count = 2; window_steps = 7; };
                   evict = { kind = "lfu"; every = 3; keep = 0.25; }; };
tables = ( { name = "a"; capacity = 1600; features = ["fa"]; dtype = "int8"; },
  { name = "b"; capacity = 2500; features = ["fb", "fc"]; pooling = "mean"; dtype = "int4";
    optimizer = { kind = "adam"; }; admit = { min_count = 1; window_steps = 0; }; },
  { name = "c"; capacity = 1400; features = ["fd"]; weighted = true; dtype = "int8";
    evict = { kind = "lru"; every = 4; keep = 0.2; }; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [16, 16]; over_arch = [16, 1]; };
checkpoint = { every = 12; keep = 99; };
sharding = { topology = "default"; };
DECK
. "$srcdir/tests/support/ids.sh"
check "ids" ids_data
ids() { n=$1; folder=$2; shift 2; run "$n" train "$work/ids.deck" --quiet --set run.output="$work/$folder" "$@"; }
for n in 1 2 4; do
  check "dynamic rows on $n ranks" ids $n ids$n
  check "a stop" ids $n stop$n --set run.steps=12
  check "and on" ids $n stop$n
  check "the same bits" same_bits "$(newest ids$n)" "$(newest stop$n)"
done
means="--set optimizer.ema=0.9 --set table_defaults.ema=true"
check "means" train 1 means $few $means
check "near" near means 0.15
check "means, scores" scores means means $few $means
check "means of ids" ids 2 ids-means $means

# ---- emulated GPUs -----------------------------------------------------------
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ] && [ -z "${TESSERA_SANITIZED:-}" ]; then
  host=$TESSERA; short="--set run.steps=8 $few"
  for n in 1 2; do
    for more in run.lanes=serial tables.c.kernel=cached tables.c.cache.load_factor=0.3; do
      set="--set $more"; [ $more = run.lanes=serial ] || set="--set tables.c.kernel=cached --set $more"
      TESSERA=$host; check "host, $more" train $n host-$n $short $set $rows; rm -rf "$work/gpu-$n"
      TESSERA=$emulated; check "emulated, $more" train $n gpu-$n $short $set $rows --set run.backend=emulated
      check "the same losses" close_losses host-$n gpu-$n 1e-6 8; rm -rf "$work/host-$n"
    done
  done
  check "a run that stops" train 2 halt --set run.backend=emulated $short --set run.steps=5
  check "and goes on" train 2 halt --set run.backend=emulated $short --set run.steps=12
  check "one that does not" train 2 through --set run.backend=emulated $short --set run.steps=12
  check "ends with the same bits" same_bits "$(newest halt)" "$(newest through)"
  check "ids" ids 2 ids-gpu --set run.backend=emulated --set run.steps=6
  check "means" train 1 means-gpu --set run.backend=emulated $short $means
  TESSERA=$host
  check "ids on the host" ids 2 ids-host --set run.steps=6
  check "have the same losses" close_losses ids-host ids-gpu 1e-6 6
  check "means on the host" train 1 means-host $short $means
  check "have the same losses" close_losses means-host means-gpu 1e-6 8
fi
passed
