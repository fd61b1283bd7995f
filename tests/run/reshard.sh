#!/bin/sh
# reshard.sh - saved under one plan and number of ranks, gone on with under
# another: losses and the last checkpoint are those of the run that stayed as
# it was; files are whole and of the same shape whatever the plan.  seconds: 600
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }

# eps: Adam near zero magnifies rounding.
cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 5; steps = 12; threads = 1; log_every = 1; };
data = { format = "synthetic"; global_batch = 40;
         synthetic = { samples = 480; eval_samples = 40; pooling = [1, 3, 2, 1, 4, 2, 1]; }; };
table_defaults = { dim = 32; };
tables = ( { name = "a"; rows = 50; features = ["fa"]; optimizer = { kind = "rowwise_adagrad"; lr = 0.05; }; },
           { name = "b"; rows = 300; features = ["fb", "fc"]; pooling = "mean"; optimizer = { kind = "adam"; lr = 0.01; eps = 1e-5; }; },
           { name = "c"; rows = 131; features = ["fd"]; weighted = true; optimizer = { kind = "partial_rowwise_lamb"; lr = 0.01; eps = 1e-5; }; },
           { name = "d"; rows = 77; features = ["fe"]; pooling = "mean"; optimizer = { kind = "rowwise_adagrad"; lr = 0.05; }; },
           { name = "e"; rows = 3; features = ["ff"]; optimizer = { kind = "adam"; lr = 0.01; eps = 1e-5; }; },
           { name = "f"; rows = 203; features = ["fg"]; optimizer = { kind = "partial_rowwise_lamb"; lr = 0.01; eps = 1e-5; }; } );
model = { kind = "dlrm"; dense_features = 3; dense_arch = [32, 32]; over_arch = [32, 16, 1]; };
optimizer = { kind = "adagrad"; lr = 1e-2; };
sharding = { min_column = 8; ranks_per_node = 2; topology = "default"; };
checkpoint = { every = 6; keep = 9; };
DECK

# A plan is a kind, or two: every other table has the second.
plan() {
  first=${1%+*}; second=${1#*+}
  echo "--set table_defaults.sharding=$first --set tables.b.sharding=$second --set tables.d.sharding=$second --set tables.f.sharding=$second"
}
middle() { echo "$work/$1/checkpoints/step-00000006.h5"; }
whole() { "$TESSERA" inspect "$1" --verify > "$work/out" && ! grep -q DAMAGED "$work/out"; }
shapes() { h5ls -r "$1" | grep -E '^/(model|optim)/.*Dataset'; }
# The same names and shapes as the first file of all: rows of the whole table,
# and one number a row of row-wise states.
same_shapes() { shapes "$1" > "$work/x"; cmp "$work/shapes" "$work/x"; }
near() { h5diff -q -d "$3" "$1" "$2" /model /model && h5diff -q -d "$3" "$1" "$2" /optim /optim; }
check_files() { # run, file...
  of_file="$1 file"; shift
  for file; do
    check "$of_file is whole" whole "$file"
    check "$of_file: shapes" same_shapes "$file"
  done
}

# straight NAME PLAN RANKS [options]: twelve steps under one plan.
straight() {
  name=$1; of=$(plan "$2"); n=$3; about="$2 on $3"; shift 3
  check "$about" train "$n" "$name" $of "$@"
  [ -f "$work/shapes" ] || shapes "$(middle "$name")" > "$work/shapes"
  check_files "$about" "$(middle "$name")" "$(newest "$name")"
  [ "$name" = bf16 ] || check "$about: as table_wise on 1" near "$(middle tw)" "$(middle "$name")" 1e-5
}
# moved NAME PLAN RANKS LIMIT [options]: the last six under another.
n_moved=0
moved() {
  from=$1; of=$(plan "$2"); n=$3; limit=$4; about="$1 to $2 on $3"; shift 4
  n_moved=$((n_moved + 1)); name=moved$n_moved
  mkdir -p "$work/$name/checkpoints"
  cp "$(middle "$from")" "$work/$name/checkpoints/"
  check "$about" train "$n" "$name" $of "$@"
  losses "$from" | tail -n 6 > "$work/$from/last"
  mkdir -p "$work/$from-last"
  sed 's/\(.*\)/{"step":1,"loss":\1}/' "$work/$from/last" > "$work/$from-last/metrics.jsonl"
  check "$about: losses" close_losses "$from-last" "$name" "$limit" 6
  check "$about: six steps" test "$(losses "$name" | wc -l)" = 6
  check_files "$about" "$(newest "$name")"
  [ "$limit" = 1e-6 ] && check "$about: weights and states" near "$(newest "$from")" "$(newest "$name")" 1e-5
}

mpio="--set checkpoint.io=mpio"
train 1 probe --set run.steps=1 $mpio 2>&1 | grep -q 'needs parallel HDF5' && mpio=

straight tw table_wise 1
check "row-wise states have one number a row" test "$(grep -cE '^/optim/.*\{(50|77|131|203)\}$' "$work/shapes")" = 4
moved tw column_wise 3 1e-6
moved tw grid 4 1e-6
moved tw data_parallel 2 1e-6
straight rw row_wise 4
moved rw table_wise 2 1e-6
moved rw table_row_wise 4 1e-6 $mpio
moved rw column_wise+row_wise 3 1e-6
straight cw column_wise 3 $mpio
moved cw row_wise 2 1e-6
moved cw table_column_wise 4 1e-6 $mpio
moved cw column_wise 2 1e-6
straight grid grid 4
moved grid table_wise 1 1e-6
moved grid column_wise 4 1e-6
moved grid table_row_wise+data_parallel 3 1e-6
straight trw table_row_wise 3
moved trw grid 3 1e-6 $mpio
moved trw data_parallel 4 1e-6
straight tcw table_column_wise 4
moved tcw table_row_wise 2 1e-6
moved tcw table_wise+grid 4 1e-6
straight dp data_parallel 2
moved dp grid 4 1e-6
straight mixed table_wise+grid 4 $mpio
moved mixed table_column_wise+column_wise 3 1e-6
moved mixed table_wise+grid 2 1e-6

# A row of 16 bits that is rounded the other way once is another row.
narrow="--set tables.a.dtype=bf16 --set tables.b.dtype=bf16 --set tables.f.dtype=bf16"
straight bf16 column_wise+table_row_wise 4 $narrow
moved bf16 row_wise+column_wise 3 1e-3 $narrow
moved bf16 grid 4 1e-3 $narrow $mpio

# Columns are put together in turns of 16 MiB of rows: here four on two ranks.
large="--set tables.a.rows=450000 --set tables.a.optimizer.kind=sgd --set run.steps=1"
check "large table" train 1 large1 $(plan table_wise) $large
check "large table by columns" train 2 large2 $(plan column_wise) $large
check "large table by columns: whole" whole "$(newest large2)"
check "large table by columns: the same" near "$(newest large1)" "$(newest large2)" 1e-5
passed
