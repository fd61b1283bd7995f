#!/bin/sh
# ids_averages.sh - tables.ema of dynamic tables: rows' running means as NumPy
# has them, while ids come and go; those of plain tables where none goes; over
# restarts, deltas, smaller tables; predicted with and served.  seconds: 100
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
. "$srcdir/tests/support/ids.sh"
[ -n "$python" ] || { echo "python3 with h5py and numpy is not here"; exit 77; }
deck() { # TABLES
  cat <<DECK
run = { steps = 24; log_every = 1; threads = 1; };
data = { train = "data.h5"; format = "dataset"; global_batch = 64; };
optimizer = { ema = 0.75; };
table_defaults = { dim = 16; ema = true; sharding = "row_wise"; };
tables = ( $1 );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [16, 16]; over_arch = [16, 1]; };
checkpoint = { every = 12; keep = 99; };
sharding = { topology = "default"; };
DECK
}
tables() { # ROWS of a, b, c
  echo "{ name = \"a\"; $1 features = [\"fa\"]; dtype = \"$4\"; }, { name = \"b\"; $2 features = [\"fb\", \"fc\"]; pooling = \"mean\"; optimizer = { kind = \"adam\"; }; }, { name = \"c\"; $3 features = [\"fd\"]; weighted = true; }"
}
dynamic() { echo "rows = \"dynamic\"; capacity = $1; $2"; }
deck "$(tables "rows = 4000;" "rows = 3000;" "rows = 2000;" f32)" > "$work/rows.deck"
deck "$(tables "$(dynamic 4000)" "$(dynamic 3000)" "$(dynamic 2000)" f32)" > "$work/ids.deck"
lost='evict = { kind = "lru"; every = 3; keep = 0.25; };'
deck "$(tables "$(dynamic 1600 "$lost")" "$(dynamic 2500 "$lost admit = { min_count = 2; };")" "$(dynamic 1400 "$lost")" bf16)" > "$work/lost.deck"
go() { n=$1; kind=$2; folder=$3; shift 3; run "$n" train "$work/$kind.deck" --quiet --set run.output="$work/$folder" "$@"; }
of() { kind=$1; run=$2; command=$3; shift 3; "$TESSERA" "$command" "$work/$kind.deck" --set run.output="$work/$run" "$@" > "$work/out" 2>&1 || { cat "$work/out"; return 1; }; }
file() { echo "$work/$1/checkpoints/$2-000000$3.h5"; }
all_same() { for path in /model /optim /dynamic; do h5diff -q "$1" "$2" $path $path || return 1; done; }
check "data" ids_data

cat > "$work/means.py" <<'PY'
import h5py, numpy
D = 0.75
def wide(x):
    x = x[()]
    if x.dtype.kind == "u": x = (x.astype("u4") << 16).view("f4")
    return x.astype("f8")
def name_of(f, table):
    return next(n for n in f["model"] if n.endswith("embedding_bags." + table + ".weight"))
# Of each id its row's mean, its weights, and where they are of the first step.
def rows(f, table):
    n = name_of(f, table)
    w, e = wide(f["model/" + n]), f["optim/%s/ema" % n][()].astype("f8")
    last = f["optim/%s/ema_pass" % n][()].reshape(-1, 1)
    assert (last > 0).all() and (last <= f.attrs["step"]).all()
    return f["dynamic/%s/ids" % table][:], e + (1 - D ** (f.attrs["step"] - last + 1)) * (w - e), w
PY
many="--set checkpoint.every=1"
check "every step" go 2 lost every $many
check "as NumPy has them" env PYTHONPATH="$work" $python - "$work/every/checkpoints" <<'PY'
import glob, h5py, numpy as np, sys
from means import *
files = [h5py.File(f, "r") for f in sorted(glob.glob(sys.argv[1] + "/step-*.h5"))]
assert len(files) == 24
for table in "abc":
    n = back = 0
    ids, mean, w = rows(files[0], table)
    gone = set()
    for f in files[1:]:
        now, m, x = rows(f, table)
        both, i, k = np.intersect1d(ids, now, return_indices=True)
        assert abs(D * mean[i] + (1 - D) * x[k] - m[k]).max(initial=0) < 3e-6, table
        gone |= set(ids) - set(now)
        back += len(gone & (set(now) - set(ids)))
        n += len(both)
        ids, mean, w = now, m, x
    assert n > 1000 and back > 20, (table, n, back)
    assert abs(mean - w).max() > 1e-4, table
PY
check "without means" go 2 lost plain --set table_defaults.ema=false
check "the same weights" h5diff -q "$(file every step 24)" "$(file plain step 24)" /model /model

# Where no id goes: rows of plain tables, once all ids were met.
for kind in rows ids; do
  check "$kind" go 1 $kind $kind --set run.steps=48 --set checkpoint.every=0
  check "$kind: predicts" of $kind $kind predict --data "$work/data.h5" --out "$work/$kind.csv"
  check "$kind: its means" grep -q 'their averages (optimizer.ema = 0.75)' "$work/out"
  check "$kind: evaluates" of $kind $kind eval --set data.eval="$work/data.h5"
  grep -o 'log loss [0-9.]*' "$work/out" > "$work/$kind.loss"
done
check "predictions of plain tables" cmp "$work/rows.csv" "$work/ids.csv"
check "and losses" cmp "$work/rows.loss" "$work/ids.loss"
check "of the weights" of ids ids eval --set data.eval="$work/data.h5" --set table_defaults.ema=false
check "others" sh -c 'grep -o "log loss [0-9.]*" "$1" | cmp -s - "$2"; test $? = 1' sh "$work/out" "$work/ids.loss"
# In training: as eval has them.
check "looks" go 2 lost looks --set run.eval_every=24 --set data.eval="$work/data.h5"
check "looks: changes nothing" all_same "$(file every step 24)" "$(file looks step 24)"
check "looks: eval" of lost looks eval --set data.eval="$work/data.h5"
eval_of() { grep -o 'evaluation.* samples .*log loss [0-9.]*\|samples.*log loss [0-9.]*' "$1" | tail -n 1 | grep -o 'log loss [0-9.]*'; }
check "looks: $(eval_of "$work/out")" test "$(eval_of "$work/out")" = "$(eval_of "$work/looks/log")"

# Deltas, and restarts.
check "deltas" go 2 lost deltas --set checkpoint.delta_every=2
for step in 10 22; do
  rm -rf "$work/part"; cp -r "$work/deltas" "$work/part"
  for path in "$work/part"/checkpoints/*; do x=${path##*-}; x=${x%.h5}; [ "${x#000000}" -le $step ] || rm "$path"; done
  cp -r "$work/part" "$work/part$step"
  check "step $step compacted" of lost part compact
  check "step $step: as the full one" all_same "$(file every step $step)" "$(file part step $step)"
  check "step $step: going on" go 2 lost part$step
  check "step $step: to the same end" all_same "$(file every step 24)" "$(file part$step step 24)"
done

# Who takes them out of a checkpoint.
for side in delta step; do
  from=$(file deltas $side 22); [ $side = delta ] || from=$(file part step 22)
  check "$side: vectors" of lost deltas predict --embeddings fa,fb --checkpoint "$from" --out "$work/$side.h5"
  check "$side: averages" of lost deltas export --averages --checkpoint "$from" --out "$work/$side.st"
  check "$side: to serve" of lost deltas export --format serve --checkpoint "$from" --out "$work/$side.tsr"
done
check "the same vectors" h5diff -q "$work/delta.h5" "$work/step.h5"
check "the same averages" cmp "$work/delta.st/model.safetensors" "$work/step.st/model.safetensors"
check "the same file" cmp "$work/delta.tsr" "$work/step.tsr"
check "they are means" env PYTHONPATH="$work" $python - "$work/delta.h5" "$(file every step 22)" <<'PY'
import h5py, numpy as np, sys
from means import *
e, f = (h5py.File(x, "r") for x in sys.argv[1:])
for feature, table, limit in (("fa", "a", 2.0 ** -8), ("fb", "b", 1e-6)):
    ids, m, w = rows(f, table)
    g = e["embeddings/" + feature]
    assert np.array_equal(g["ids"][:], ids), feature
    assert (abs(g["vectors"][()] - m) <= limit * (abs(m) + 1e-3)).all(), feature
    assert abs(g["vectors"][()] - w).max() > 1e-4, feature
PY
# In less room: a look leaves the same ids with the same means.
less="--set tables.a.capacity=350 --set tables.b.capacity=560 --set tables.c.capacity=320 --set table_defaults.sharding=table_wise"
cp -r "$work/part" "$work/less"
check "in less room" go 2 lost less $less --set run.steps=22
check "it was saved" test -f "$(file less step 22)"
for run in part less; do check "$run: predicts" of lost $run predict $less --data "$work/data.h5" --out "$work/$run.csv"; done
check "the same predictions in less room" cmp "$work/part.csv" "$work/less.csv"
passed
