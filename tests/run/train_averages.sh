#!/bin/sh
# train_averages.sh - optimizer.ema and tables.max_norm in whole runs: averages
# as NumPy has them, in checkpoints, in evaluations and predictions, over
# restarts and ranks, and from checkpoints that have none.  seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null && python=/usr/bin/python3
$python -c 'import h5py, numpy' 2>/dev/null || { echo "python3 with numpy and h5py is not here"; exit 77; }
ema="--set optimizer.ema=0.75 --set run.steps=20"

# Of every step a checkpoint: e = d e + (1 - d) w, from the first weights on.
check "whole" train 2 whole $ema --set checkpoint.every=1 --set checkpoint.keep=100
check "plain" train 2 plain --set run.steps=20
check "as NumPy has them, and the weights of a run without" $python - "$work/whole/checkpoints" "$(newest plain)" <<'PY'
import glob, h5py, numpy, sys
files = [h5py.File(f, "r") for f in sorted(glob.glob(sys.argv[1] + "/step-*.h5"))]
plain = h5py.File(sys.argv[2], "r")
names = []
files[0]["ema"].visititems(lambda name, x: names.append(name) if isinstance(x, h5py.Dataset) else None)
assert len(files) == 20 and len(names) == 10, (len(files), names)
for name in names:
    e = None
    for f in files:
        w, got = f["model/" + name][()].astype("f8"), f["ema/" + name][()]
        # The first was made of weights that no file has: it is taken as it is.
        e = got.astype("f8") if e is None else 0.75 * e + 0.25 * w
        assert abs(got - e).max() < 1e-6, name
    assert abs(got - w).max() > 1e-5, name
    assert (plain["model/" + name][()] == files[-1]["model/" + name][()]).all(), name
PY

same() { same_bits "$1" "$2" && h5diff -q "$1" "$2" /ema /ema; }
# A run in two parts is one run; on other ranks, and sharded, to rounding.
check "first part" train 2 parts $ema --set run.steps=9
check "second part" train 2 parts $ema --set optimizer.in_backward=false
check "same bits" same "$(newest whole)" "$(newest parts)"
check "sharded, first part" train 2 sharded $ema --set run.steps=9 --set dense.parallel=fully_sharded
check "sharded, second part" train 2 sharded $ema --set run.steps=20 --set dense.parallel=fully_sharded
check "sharded: same bits" same "$(newest whole)" "$(newest sharded)"
check "moved, first part" train 3 moved $ema --set run.steps=9
check "moved, second part" train 1 moved $ema
check "moved: same losses" close_losses whole moved 2e-6 20

# Evaluations and `eval` take them, and then the weights are back.
check "evaluates" train 1 looks $ema --set run.eval_every=5
check "evaluates without" train 1 blind --set run.steps=20 --set run.eval_every=5
check "evaluations don't move weights" $python - "$(newest looks)" "$(newest blind)" "$work/looks/metrics.jsonl" "$work/blind/metrics.jsonl" <<'PY'
import h5py, json, sys
a, b = (h5py.File(f, "r") for f in sys.argv[1:3])
a["model"].visititems(lambda name, x: None if not isinstance(x, h5py.Dataset) or (x[()] == b["model/" + name][()]).all() else sys.exit(name))
la, lb = ([r for r in map(json.loads, open(f)) if r.get("eval")] for f in sys.argv[3:5])
assert len(la) == len(lb) == 4
assert all(x["logloss"] != y["logloss"] for x, y in zip(la, lb)), (la, lb)
PY
of_evaluation() { grep 'evaluation.* samples ' "$1" | tail -n 1 | grep -o 'log loss [0-9.]*'; }
look() { # FOLDER, options: its evaluation, as the program says it
  folder=$1; shift
  "$TESSERA" eval "$work/small.deck" --set run.output="$work/$folder" "$@" > "$work/said" 2>&1 || { cat "$work/said"; return 1; }
  of_evaluation "$work/said"
}
last=$(of_evaluation "$work/looks/log")
check "eval takes averages" test "$(look looks $ema)" = "$last"
check "eval says so" grep -q 'their averages (optimizer.ema = 0.75)' "$work/said"
check "eval of the weights" test "$(look looks)" != "$last"
check "eval of the weights: those of a run without" test "$(look looks)" = "$(look blind)"

# From before: they begin as the weights, and a NOTE says so.
check "without" train 2 old --set run.steps=9
check "goes on with" train 2 old $ema --set checkpoint.every=1 --set checkpoint.keep=100
check "from the weights on" $python - "$work/old/checkpoints" <<'PY'
import h5py, sys
a, b = (h5py.File(sys.argv[1] + "/step-%08d.h5" % step, "r") for step in (9, 10))
def look(name, x):
    if not isinstance(x, h5py.Dataset): return
    v, w = (f["model/" + name][()].astype("f8") for f in (a, b))
    assert abs(x[()] - (0.75 * v + 0.25 * w)).max() < 1e-6, name
b["ema"].visititems(look)
PY
check "note" grep -q 'lacks averages of 10 of 10 parameters.*they begin as' "$work/old/log"
check "eval of one without" test "$(look blind $ema)" = "$(look blind)"
look blind $ema > /dev/null
check "eval of one without: note" grep -q 'lacks averages .*their weights are taken' "$work/said"

# A run that goes back goes back with them; pipelines and graphs change nothing.
for more in "pipeline.kind=base" "pipeline.kind=fused_sparse_dist" "run.lanes=serial"; do
  check "$more" train 1 other $ema --set $more
  check "$more: as it was" same "$(newest looks)" "$(newest other)"
  rm -rf "$work/other"
done

# A GPU's memory, graphs of steps, and evaluations between them.
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ] && [ -z "${TESSERA_SANITIZED:-}" ]; then
  host=$TESSERA TESSERA=$emulated
  for graph in auto off; do
    check "emulated, graphs $graph" train 1 graph-$graph $ema --set run.backend=emulated --set run.graph=$graph --set run.eval_every=5
  done
  check "graphs: same bits" same "$(newest graph-auto)" "$(newest graph-off)"
  check "emulated: as on the host" test "$(of_evaluation "$work/graph-auto/log" | cut -c 1-14)" = "$(echo "$last" | cut -c 1-14)"
  for half in looks blind; do
    every=5; [ $half = looks ] || every=0
    check "emulated, bf16" train 1 half-$half $ema --set run.backend=emulated --set run.precision=bf16 --set run.graph=off --set run.eval_every=$every
  done
  check "emulated, bf16: evaluations don't move weights" same "$(newest half-looks)" "$(newest half-blind)"
  check "emulated, first part" train 2 device $ema --set run.steps=9 --set run.backend=emulated --set dense.parallel=fully_sharded
  check "emulated, second part" train 2 device $ema --set run.backend=emulated
  check "emulated, whole" train 2 device2 $ema --set run.backend=emulated
  check "emulated: same bits" same "$(newest device)" "$(newest device2)"
  TESSERA=$host
fi

# Rows are never longer than they may be once they were trained, in any type.
check "norms" train 2 norms --set run.steps=20 --set table_defaults.max_norm=0.1
check "norms of rows" $python - "$(newest norms)" "$(newest plain)" <<'PY'
import h5py, numpy, sys
a, b = (h5py.File(f, "r")["model"] for f in sys.argv[1:3])
n = 0
for name in a:
    if "embedding_bags" not in name: continue
    x, y = (t[name][()] for t in (a, b))
    if x.dtype.kind in "ui": x, y = ((v.astype("u4") << 16).view("f4") for v in (x, y))
    x, y = x.astype("f8"), y.astype("f8")
    n += (numpy.linalg.norm(y, axis=1) > 0.101).sum()
    # Rows without an id keep what they were drawn as; 16 bits round.
    assert (numpy.linalg.norm(x[abs(x - y).max(axis=1) > 0], axis=1) < 0.1 * (1 + 2**-7)).all(), name
assert n > 10, n
PY
passed
