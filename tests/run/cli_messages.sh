#!/bin/sh
# cli_messages.sh - exit codes; one message, whatever the number of ranks;
# help of every command and key.
# seconds: 600
set -u
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
failed=0; n_checks=0
fail() { echo "FAILED: $*"; failed=1; }

# expect CODE TEXT COMMAND...: its code, one message, TEXT in it.
expect() {
  n_checks=$((n_checks + 1))
  code=$1 text=$2
  shift 2
  "$@" >"$dir/out" 2>"$dir/err"
  rc=$?
  [ $rc = "$code" ] || fail "$*: code $rc, not $code"
  n=$(grep -c '^tessera: error:' "$dir/err")
  [ "$n" = 1 ] || fail "$*: $n messages"
  grep -qF -- "$text" "$dir/err" || { fail "$*: no \"$text\""; cat "$dir/err"; }
}

cat >"$dir/good.deck" <<'DECK'
run = { steps = 2; name = "cli"; };
data = { format = "synthetic"; batch_per_rank = 4; };
tables = ( { name = "t{0..3}"; rows = 100; dim = 4; features = ["f{0..3}"]; } );
DECK
sed 's/steps/stepz/; s/batch_per_rank = 4/batch_per_rank = -4/' \
  "$dir/good.deck" >"$dir/bad.deck"
printf '@include "loop.deck"\n' >"$dir/loop.deck"
printf '\000\001\002\377garbage' >"$dir/binary.deck"
head -c 20000000 /dev/zero | tr '\0' 'x' >"$dir/huge.deck"

expect 2 'did you mean "train"?' "$TESSERA" trian x
expect 2 'no command' "$TESSERA" qqqqqq
expect 2 'usage: tessera train DECK' "$TESSERA" train
expect 2 'option --nosuch' "$TESSERA" plan x --nosuch
expect 2 'option --set' "$TESSERA" plan x --set
expect 2 'option -x' "$TESSERA" plan -x
expect 2 'usage: tessera plan' "$TESSERA" plan "$dir/good.deck" 4x
expect 2 '--trace-steps 5 is not A:B' "$TESSERA" train "$dir/good.deck" \
  --trace x --trace-steps 5
expect 2 'usage: tessera trace' "$TESSERA" trace
expect 3 'this is no trace of tessera' "$TESSERA" trace summary "$dir/good.deck"
expect 2 'No such file' "$TESSERA" plan "$dir/none.deck"
expect 2 'is not a file' "$TESSERA" plan "$dir"
expect 2 'is not a file' "$TESSERA" plan /dev/zero
expect 2 "loop.deck:1: includes itself: $dir/loop.deck -> $dir/loop.deck" "$TESSERA" plan "$dir/loop.deck"
# Nobody is left to believe that a fault was armed.
expect 2 'TESSERA_FAULT=write:1' env TESSERA_FAULT=write:1 "$TESSERA" version
expect 2 'binary.deck' "$TESSERA" plan "$dir/binary.deck"
expect 2 'are no deck' "$TESSERA" plan "$dir/huge.deck"
expect 2 'bad.deck:1: unknown key "run.stepz"; did you mean "run.steps"?' \
  "$TESSERA" plan "$dir/bad.deck"
[ "$(grep -c 'bad.deck:[12]: ' "$dir/err")" = 2 ] || fail "not all errors at once"
# What is left over is no override (a second deck: commands.sh).
expect 2 '--set optimizer.lr=7 overrides' "$TESSERA" train "$dir/good.deck" optimizer.lr=7
# What is written takes no place of what is read.
expect 2 'good.deck is a file to read' "$TESSERA" generate "$dir/good.deck" --out "$dir/good.deck"
expect 2 'good.deck is a file to read' "$TESSERA" predict "$dir/good.deck" --out "$dir/good.deck" --set run.output="$dir/run"
printf 'y,f0,f1,f2,f3\n1,1,2,3,4\n' > "$dir/a.csv"
printf '@include "good.deck"\n' > "$dir/csv.deck"
expect 2 'a.csv is a file to read' "$TESSERA" convert "$dir/csv.deck" --out "$dir/a.csv" \
  --set data.format=csv --set 'data.train=["*.csv"]' --set 'data.csv={label="y"}'
expect 2 'b.csv: csv is read and not written' "$TESSERA" convert "$dir/good.deck" --out "$dir/b.csv"
expect 2 'b.npy: npy is read and not written' "$TESSERA" generate "$dir/good.deck" --out "$dir/b.npy"
[ ! -e "$dir/b.csv" ] && [ ! -e "$dir/b.npy" ] || fail "a refused file is there"
"$TESSERA" help deck > /dev/full 2> "$dir/err"; rc=$?
[ $rc = 1 ] || fail "output that is lost is code $rc"
grep -q 'the output is incomplete' "$dir/err" || fail "output is lost without a word"
expect 2 'did you mean "run.seed"?' "$TESSERA" help run.sead
# A DLRM of one feature has nothing to multiply.
expect 2 'feature and no model.dense_features make no pair' "$TESSERA" train \
  "$dir/good.deck" --set model.kind=dlrm --set model.over_arch=[1] \
  --set model.dense_features=0 --set model.dense_arch=[] \
  --set 'tables=({name="t";rows=9;dim=4;features=["f"];})'

expect 2 'unknown key "dtpe"; did you mean "dtype"?' \
  "$TESSERA" bench tbe dtpe=f32
expect 2 '"rows" is not key=value' "$TESSERA" bench tbe rows
expect 2 'dtype = "f8" is none of f32|bf16|f16' "$TESSERA" bench tbe dtype=f8
expect 2 'pool = "3x" is no number' "$TESSERA" bench tbe pool=3x
expect 2 'batch = "0" is no number in 1 to' "$TESSERA" bench tbe batch=0
expect 2 'no optimizer "x"' "$TESSERA" bench tbe optimizer=x
# Without a GPU, built with CUDA or not; with one it runs.
"$TESSERA" bench tbe --backend cuda tables=2 rows=100 dim=8 batch=8 pool=3 \
  iters=4 >"$dir/out" 2>"$dir/err"
rc=$?
if [ $rc != 0 ]; then
  expect 2 'run.backend' "$TESSERA" bench tbe --backend cuda
  [ "$(wc -l <"$dir/err")" = 1 ] || fail "bench tbe --backend cuda: not one line"
fi
expect 2 'run.backend: "none" is not in this build' "$TESSERA" bench tbe \
  backend=none
expect 2 'bench attention has no deck for --set' "$TESSERA" bench attention --set run.seed=1
expect 2 'unknown key "itrs"' "$TESSERA" bench step "$dir/good.deck" itrs=9

"$TESSERA" bench tbe tables=2 rows=100 dim=6 batch=8 pool=3 iters=4 zipf=1 \
  dtype=f16 optimizer=adam pooling=mean weighted=1 >"$dir/out" || fail "bench tbe"
grep -q '^2 tables x 100 x 6 f16, batch 8, pooling 3, mean, weighted, .*adam' \
  "$dir/out" || fail "bench tbe: header"
# Shares of so few bytes are noise, and may be less than nothing.
grep -Eq '^ref +zipf( +[0-9.]+){6}( +-?[0-9]+%){2}( +[0-9.]+){3} +-?[0-9]+%( +[0-9.]+)$' "$dir/out" ||
  fail "bench tbe: line"
# Output and gradient: 2 x 2 x 8 x 6 floats.
grep -Eq '^  output and gradient +768 B +2.00 x$' "$dir/out" ||
  fail "bench tbe: memory"

"$TESSERA" bench tbe tables=2 rows=100 batch=8 iters=4 sweep=1 >"$dir/out" ||
  fail "bench tbe: sweep"
[ "$(grep -Ec '^ *(32|64|128|256) (f32|bf16) +[0-9]+ (uniform|zipf 1.[01]5) .*%' \
  "$dir/out")" = 72 ] || fail "bench tbe: not 72 shapes"

# JSON instead of the text (bench.sh has its rows).
"$TESSERA" bench tbe tables=2 rows=100 dim=6 batch=8 iters=4 --json --out "$dir/rows" >"$dir/out" &&
  [ ! -s "$dir/out" ] || fail "bench tbe --json --out"
expect 1 'No such file' "$TESSERA" bench tbe rows=100 --out "$dir/none/rows"

"$TESSERA" plan "$dir/good.deck" 3 >"$dir/out" || fail "plan"
[ "$(grep -c '^rank ' "$dir/out")" = 3 ] || fail "plan: not 3 ranks"
# For GPUs, where there is none: their figures say what they have.
gpu_memory() { sed -n 's/.* of \([0-9.]*\) left/\1/p' "$dir/out"; }
for comm in auto nccl; do
  "$TESSERA" plan "$dir/good.deck" 4 --topology "$srcdir/input/topology_h200" --set run.backend=cuda --set comm.backend=$comm \
    >"$dir/out" || fail "plan for GPUs"
  [ "$(gpu_memory)" = 120985.6 ] || fail "plan for GPUs: $(gpu_memory)"
done
for backend in cuda host; do
  "$TESSERA" plan "$dir/good.deck" 4 --topology "$srcdir/input/topology_h200" --set run.backend=$backend --json >"$dir/$backend" || fail "plan, $backend"
done
cmp -s "$dir/cuda" "$dir/host" && fail "a plan for GPUs is that for CPUs"
# 3 peers of 3.28 GB / 7 for each of NCCL's communicators: of ids, of the dense
# layers, and some for the tables; MPI has none.
bytes_of() { # file
  sed -n 's/.*"memory_bytes": *\([0-9.]*\).*/\1/p' "$1" | head -n 1
}
"$TESSERA" plan "$dir/good.deck" 4 --topology "$srcdir/input/topology_h200" --set run.backend=cuda --set comm.backend=mpi --json >"$dir/mpi" || fail "plan, mpi"
echo "$(bytes_of "$dir/cuda") $(bytes_of "$dir/mpi")" | awk '
  { n = ($1 - $2) / (3 * 3.28e9 / 7); off = n - int(n + 0.5); if (off < 0) off = -off; exit !(n > 2.5 && n < 12 && off < 1e-3) }' ||
  fail "memory of NCCL: $(bytes_of "$dir/cuda") and $(bytes_of "$dir/mpi")"
expect 2 'topology FILE (as input/topology_h200)' env CUDA_VISIBLE_DEVICES=-1 "$TESSERA" plan "$dir/good.deck" --set run.backend=cuda

# The decks that come along are without faults.
for deck in "$srcdir"/input/*.deck; do
  case $deck in */mlperf_dlrm_dcnv2.deck) ranks=64 ;; */mlperf_hstu.deck) ranks=256 ;; *) ranks=2 ;; esac
  TESSERA_DATA_DIR=/data TESSERA_OUTPUT=/out "$TESSERA" plan "$deck" "$ranks" --set sharding.memory_gib=64 >/dev/null ||
    fail "$deck"
done

"$TESSERA" >/dev/null 2>&1
[ $? = 2 ] || fail "no command: code is not 2"
"$TESSERA" --help >"$dir/out" || fail "--help"
[ "$(wc -l <"$dir/out")" -le 30 ] || fail "--help is longer than 30 lines"
grep -q "$(printf '\033')" "$dir/out" && fail "--help has colours"
"$TESSERA" version >"$dir/out" || fail "version"
for word in MPI HDF5 libconfig compiler; do
  grep -q "$word" "$dir/out" || fail "version: no $word"
done
for command in $("$TESSERA" --help | sed -n 's/^  \([a-z-]\{1,\}\) .*/\1/p') version; do
  "$TESSERA" help "$command" >"$dir/out" || fail "help $command"
  grep -q "usage: tessera $command" "$dir/out" || fail "help $command: no usage"
  "$TESSERA" "$command" --help >/dev/null || fail "$command --help"
done

# Each option of the table is in some command's help, and a benchmark's help has
# the keys that it takes, and their defaults.
for command in $("$TESSERA" --help | sed -n 's/^  \([a-z-]\{1,\}\) .*/\1/p'); do "$TESSERA" "$command" --help; done >"$dir/help"
for option in $(sed -n 's/^    {"\(-[-a-z]*\)".*/\1/p' "$srcdir/src/commands/options.c"); do
  n_checks=$((n_checks + 1))
  grep -q "^  $option " "$dir/help" || fail "no help on $option"
done
"$TESSERA" plan --help >"$dir/out"
for option in --world --ranks-per-node --topology --save --sweep --measure --json --set; do
  grep -q "^  $option " "$dir/out" || fail "plan --help: no $option"
done
grep -q -- '--checkpoint' "$dir/out" && fail "plan --help has what plan has not"
"$TESSERA" bench --help >"$dir/out"
for bench in $(sed -n 's/.*{"\([a-z]*\)", ts_bench_.*/\1/p' "$srcdir/src/commands/bench.c"); do
  n_checks=$((n_checks + 1))
  grep -q "^  $bench " "$dir/out" || fail "bench --help: no $bench"
  $MPIRUN -q -n 2 "$TESSERA" bench "$bench" --help >"$dir/keys" 2>"$dir/err" || fail "bench $bench --help"
  [ "$(grep -c '^usage: tessera bench' "$dir/keys")" = 1 ] && [ ! -s "$dir/err" ] || fail "bench $bench --help: not once"
  for key in $(sed -n 's/.*TS_BENCH_[A-Z]*("\([a-z_]*\)", .*/\1/p' "$srcdir/src/commands/bench_$bench.c"); do
    n_checks=$((n_checks + 1))
    grep -q "^  $key=" "$dir/keys" || fail "bench $bench --help: no $key"
  done
done
grep -q '^  dtype=f32  *of rows (f32|bf16|f16|int8|int4)$' "$dir/keys" || fail "bench tbe --help: dtype"
expect 2 'usage: tessera bench read DECK' "$TESSERA" bench read
expect 2 'usage: tessera bench NAME' "$TESSERA" bench nope --help
expect 2 'unknown key "x"' "$TESSERA" bench read "$dir/good.deck" x=1

# Every key that `help deck` names has help of its own.
"$TESSERA" help deck >"$dir/deck" || fail "help deck"
n=0
for key in $(grep -E '^[a-z_]+(\.[a-z0-9_]+)+$' "$dir/deck"); do
  "$TESSERA" help "$key" >"$dir/out" || fail "help $key"
  head -n 1 "$dir/out" | grep -qxF "$key" || fail "help $key: another key"
  n=$((n + 1))
done
[ $n -gt 100 ] || fail "help deck names only $n keys"
expect 2 'usage: tessera help' "$TESSERA" help --texinfo
expect 2 '--texinfo is of' "$TESSERA" help run --texinfo

# The benchmark of checkpoints verifies what it reads, and cleans up.
mkdir "$dir/bench"
for io in pwrite auto; do
  $MPIRUN -q -n 2 "$TESSERA" bench checkpoint mb=3 dir="$dir/bench" io=$io cold=1 >"$dir/out" ||
    fail "bench checkpoint"
  [ "$(grep -cE '^(write|read) +[0-9.]+ GB/s' "$dir/out")" = 2 ] || fail "bench checkpoint: rows"
done
[ -z "$(ls -A "$dir/bench")" ] || fail "bench checkpoint leaves files"
expect 2 'none of auto|pwrite|mpio' "$TESSERA" bench checkpoint io=both
expect 1 'No such file' $MPIRUN -q -n 2 "$TESSERA" bench checkpoint dir="$dir/none"

# One message from four ranks, and the code of the fault.
for command in "train $dir/bad.deck" "eval $dir/none.deck" "trian x" \
  "train" "plan $dir/bad.deck"; do
  # shellcheck disable=SC2086
  expect 2 '' $MPIRUN -q -n 4 "$TESSERA" $command
done
[ $failed = 0 ] && echo "100%: Checks: $n_checks, Failures: 0, Errors: 0"
exit $failed
