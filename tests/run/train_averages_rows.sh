#!/bin/sh
# train_averages_rows.sh - tables.ema in whole runs: rows' running means as NumPy
# has them, in every sharding and tier, in evaluations, predictions and
# embeddings, over restarts and ranks, and from checkpoints that have none.
# seconds: 240
. "$srcdir/tests/support/common.sh"
not_sanitized
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null && python=/usr/bin/python3
$python -c 'import h5py, numpy' 2>/dev/null || { echo "python3 with numpy and h5py is not here"; exit 77; }
ema="--set optimizer.ema=0.75 --set table_defaults.ema=true --set run.steps=20"

cat > "$work/means.py" <<'PY'
import h5py, numpy
def wide(x):
    x = x[()]
    if x.dtype.kind == "u": x = (x.astype("u4") << 16).view("f4")
    return x.astype("f8")
def tables(f):
    return [n for n in f["model"] if "embedding_bags" in n]
def weights(f, name):
    return wide(f["model/" + name])
# A row's mean at the checkpoint's step, by what is kept of it.
def mean(f, name, d=0.75):
    w, e, last = weights(f, name), f["optim/%s/ema" % name][()].astype("f8"), f["optim/%s/ema_pass" % name][()].reshape(-1, 1)
    rest = numpy.where(last > 0, 1 - d ** (f.attrs["step"] - last + 1), 1)
    return e * (last > 0) + rest * (w - e * (last > 0))
PY

# Of every step a checkpoint: e = d e + (1 - d) w, whether a row moved or not.
check "whole" train 2 whole $ema --set checkpoint.every=1 --set checkpoint.keep=100
check "as NumPy has them" env PYTHONPATH="$work" $python - "$work/whole/checkpoints" <<'PY'
import glob, h5py, numpy, sys
from means import *
files = [h5py.File(f, "r") for f in sorted(glob.glob(sys.argv[1] + "/step-*.h5"))]
assert len(files) == 20 and len(tables(files[0])) == 5, len(files)
for name in tables(files[0]):
    e = None
    for f in files:
        # The first was made of rows that no file has: it is taken as it is.
        e = mean(f, name) if e is None else 0.75 * e + 0.25 * weights(f, name)
        assert abs(mean(f, name) - e).max() < 2e-6, name
    w = weights(f, name)
    assert abs(e - w).max() > 1e-5, name
    last = f["optim/%s/ema_pass" % name][()]
    assert last.max() == 20 and (len(last) < 100 or (last == 0).any()), name
PY
check "plain" train 2 plain --set run.steps=20 --set optimizer.ema=0.75
check "weights of a run without" h5diff -q "$(newest whole)" "$(newest plain)" /model /model

# A run in two parts is one run; on other ranks, and sharded otherwise, it is to
# rounding.  Tables of 16 bits round by chance, so they are left out there.
close() { # checkpoint, checkpoint, limit: means are near
  PYTHONPATH="$work" $python - "$@" <<'PY'
import h5py, sys
from means import *
a, b = (h5py.File(f, "r") for f in sys.argv[1:3])
limit = float(sys.argv[3]) if sys.argv[3:] else 2e-5
for name in tables(a):
    if a["model/" + name].dtype.itemsize == 4:
        assert abs(mean(a, name) - mean(b, name)).max() < limit, name
PY
}
check "first part" train 2 parts $ema --set run.steps=9
check "second part" train 2 parts $ema
check "same bits" same_bits "$(newest whole)" "$(newest parts)"
check "moved, first part" train 3 moved $ema --set run.steps=9
check "moved, second part" train 1 moved $ema
check "moved: near" close "$(newest whole)" "$(newest moved)"
for kind in table_wise row_wise column_wise data_parallel; do
  check "$kind" train 2 $kind $ema --set table_defaults.sharding=$kind
  check "$kind: near" close "$(newest whole)" "$(newest $kind)"
done
check "cached" train 2 cached $ema --set table_defaults.sharding=row_wise --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.3 --set run.eval_every=7
check "cached: same bits" same_bits "$(newest row_wise)" "$(newest cached)"
check "accumulated" train 2 accumulated $ema --set run.accumulate=2
check "accumulated: near" close "$(newest whole)" "$(newest accumulated)"

# Evaluations take them and leave all as it is; so does `eval`, and all say so.
check "evaluates" train 1 looks $ema --set run.eval_every=5
check "evaluates without" train 1 blind --set run.steps=20 --set run.eval_every=5 --set optimizer.ema=0.75
check "does not evaluate" train 1 never $ema
check "evaluations change nothing" same_bits "$(newest looks)" "$(newest never)"
of_evaluation() { grep 'evaluation.* samples ' "$1" | tail -n 1 | grep -o 'log loss [0-9.]*'; }
look() { # FOLDER, options: its evaluation, as the program says it
  folder=$1; shift
  "$TESSERA" eval "$work/small.deck" --set run.output="$work/$folder" "$@" > "$work/said" 2>&1 || { cat "$work/said"; return 1; }
  of_evaluation "$work/said"
}
last=$(of_evaluation "$work/looks/log")
check "other than without" test "$last" != "$(of_evaluation "$work/blind/log")"
check "eval takes averages" test "$(look looks $ema)" = "$last"
check "eval says so" grep -q 'weights: their averages (optimizer.ema = 0.75)' "$work/said"
check "eval of the rows" test "$(look looks --set optimizer.ema=0.75)" = "$(of_evaluation "$work/blind/log")"
cached=$(of_evaluation "$work/cached/log")
check "cached: evaluated" test -n "$cached"
check "cached: eval" test "$(look cached $ema)" = "$cached"

# The best step's rows, taken back later, have the means that they had then.
check "goes back" train 2 back $ema --set run.steps=60 --set run.valid_every=6 --set run.stop.patience=2 --set table_defaults.optimizer.lr=0.5
check "went back" grep -q 'the weights are those of step' "$work/back/log"
check "means of then" env PYTHONPATH="$work" $python - "$work/back/checkpoints/best.h5" "$(newest back)" <<'PY'
import h5py, sys
from means import *
a, b = (h5py.File(f, "r") for f in sys.argv[1:])
assert a.attrs["step"] + 6 <= b.attrs["step"], (a.attrs["step"], b.attrs["step"])
for name in tables(a):
    assert (weights(a, name) == weights(b, name)).all(), name
    assert abs(mean(a, name) - mean(b, name)).max() < 1e-6, name
PY

# Rows as they are predicted with, out of a checkpoint.
check "embeddings" "$TESSERA" predict "$work/small.deck" --quiet --set run.output="$work/looks" $ema --embeddings fb,fd --out "$work/e.h5"
check "embeddings are means" env PYTHONPATH="$work" $python - "$work/e.h5" "$(newest looks)" <<'PY'
import h5py, sys
from means import *
e, f = (h5py.File(x, "r") for x in sys.argv[1:])
for feature, table, limit in (("fb", "b", 1e-6), ("fd", "c", 2.0 ** -8)):
    name = next(n for n in tables(f) if n.endswith("." + table + ".weight") or n.endswith(".t_" + table + ".weight"))
    x, m = e["embeddings/%s/vectors" % feature][()], mean(f, name)
    assert (abs(x - m) <= limit * (abs(m) + 1e-3)).all(), feature
    assert abs(x - weights(f, name)).max() > 1e-4, feature
PY

# From before: a row's mean begins as the row, and a NOTE says so.
check "without" train 2 old --set run.steps=9 --set optimizer.ema=0.75
check "eval of one without" test "$(look old $ema)" = "$(look old --set optimizer.ema=0.75)"
look old $ema > /dev/null
check "eval of one without: note" grep -q 'lacks averages of 5 of 15 parameters.*their weights are taken' "$work/said"
check "goes on with" train 2 old $ema --set checkpoint.every=1 --set checkpoint.keep=100
check "from the rows on" env PYTHONPATH="$work" $python - "$work/old/checkpoints" <<'PY'
import h5py, sys
from means import *
a, b = (h5py.File(sys.argv[1] + "/step-%08d.h5" % step, "r") for step in (9, 10))
for name in tables(a):
    assert abs(mean(b, name) - (0.75 * weights(a, name) + 0.25 * weights(b, name))).max() < 1e-6, name
PY
check "note" grep -q 'lacks averages of 5 of 15 parameters.*they begin as' "$work/old/log"

# A GPU's memory.
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  host=$TESSERA TESSERA=$emulated
  check "emulated" train 2 emulated $ema --set run.backend=emulated --set run.eval_every=20
  check "emulated: near" close "$(newest whole)" "$(newest emulated)" 2e-4
  last=$(of_evaluation "$work/emulated/log")
  check "emulated: eval" test "$(look emulated $ema --set run.backend=emulated)" = "$last"
  check "emulated, cached" train 2 device $ema --set run.backend=emulated --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.3 --set run.eval_every=20
  check "emulated, cached: near" close "$(newest whole)" "$(newest device)" 2e-4
  check "emulated, cached: evaluated" test "$(of_evaluation "$work/device/log" | cut -c 1-14)" = "$(echo "$last" | cut -c 1-14)"
  TESSERA=$host
fi
passed
