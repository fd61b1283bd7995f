#!/bin/sh
# serve_bench.sh - tessera serve-bench: its figures hang together, and the
# batches that it writes have the scores that it writes; input/serve.py has
# them, too.  seconds: 120
. "$srcdir/tests/support/common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
cd "$work" || exit 99
sed -i 's/steps = 40/steps = 3/' small.deck
check "training" "$TESSERA" train small.deck --quiet --set checkpoint.dir=ck
check "an export" "$TESSERA" export small.deck --set checkpoint.dir=ck --format serve --tables int8 --out file
bench() { "$TESSERA" serve-bench file --seconds 0.05 "$@"; }

check "figures" bench --json --out rows
check "its lines" holds serve 'column("batch") == [1] * 3 + [64] * 3 + [1024] * 3 and column("scorers") == [1, 1, 2] * 3 and column("threads") == [1, 2, 1] * 3'
check "latencies" holds serve '0 < r["p50_us"] <= r["p99_us"] and r["calls"] >= 100 * r["scorers"]'
# The mean of a call is at least half of the median.
check "rates" holds serve '0 < r["samples_per_s"] <= 2e6 * r["batch"] * r["scorers"] / r["p50_us"]'
check "the model" holds model 'r["step"] == 3 and r["open_ms"] > 0 and r["bytes"] > 0'
bench --threads 1 --batch 5 --json > rows
check "one line" holds serve 'len(rows) == 1 and rows[0]["batch"] == 5 and rows[0]["threads"] == 1'

check "files" bench --batch 7 --threads 2 --ids 3 --zipf 0 --dump dumped
# Python can't load a library with sanitizers, which want to be there first.
[ -z "${TESSERA_SANITIZED:-}" ] || { passed; exit; }
cat > compare.py <<'PY'
import array, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
import serve
def read(name, kind):
    data = open(f"dumped/{name}_7.npy", "rb").read()
    assert data[:10] == b"\x93NUMPY\1\0\x76\0"
    shape = eval(data[10:128])["shape"]
    return shape, array.array(kind, data[128:])
(batches, features, n, each), ids = read("ids", "q")
same, weights = read("weights", "f")
(_, _, n_dense), dense = read("dense", "f")
out_shape, out = read("out", "f")
model = serve.Serve(sys.argv[2], "file")
assert same == (batches, features, n, each) == (16, len(model.features), 7, 3)
assert out_shape == (16, 7, model.n_outputs)
assert all(0 <= x < 1 for x in dense) and all(0.5 <= x < 1.5 for x in weights)
assert len(set(ids)) > 30 and len(dense) == 16 * 7 * n_dense
for b in range(batches):
    at = lambda f, i: ((b * features + f) * n + i) * each
    lists = [[[(ids[k], weights[k]) for k in range(at(f, i), at(f, i) + each)] for i in range(n)] for f in range(features)]
    rows = [dense[(b * n + i) * n_dense:(b * n + i + 1) * n_dense] for i in range(n)]
    scores = [x for row in model.score(n, rows, lists) for x in row]
    assert scores == list(out[b * len(scores):(b + 1) * len(scores)]), b
assert len(set(out)) > 50
# Pieces of two samples; what is no row, and no weight, is told with its place.
assert scores == [x for row in serve.Serve(sys.argv[2], "file", n_max=2).score(n, rows, lists) for x in row]
def told(f, k, pair):
    changed = [[list(one) for one in of] for of in lists]
    changed[f][k // each][k % each] = pair
    try:
        model.score(n, rows, changed)
    except serve.Failed as why:
        return str(why)
table_rows = [model.lib.tserve_rows(model.model, f) for f in range(features)]
weighted = 0
for f in range(features):
    assert told(f, 9, (table_rows[f] - 1, 1.0)) is None
    assert f"id 9 of the batch is {table_rows[f]}: no row" in told(f, 9, (table_rows[f], 1.0))
    assert "id 20 of the batch is -1: no row" in told(f, 20, (-1, 1.0))
    weighted += "weight 8 of the batch is not finite" in (told(f, 8, (0, float("nan"))) or "")
assert weighted, "no table is weighted"
# The example takes no weights.
lists = [[[str(i * 7 % 5) for i in range(1 + f + k)] for k in range(n)] for f in range(features)]
text = "".join(",".join([repr(x) for x in rows[k]] + ["|".join(of[k]) for of in lists]) + "\n" for k in range(n))
said = subprocess.run([sys.executable, sys.argv[3], "file"], input=text, capture_output=True, text=True, check=True,
                      env=dict(os.environ, TESSERA_SERVE=sys.argv[2])).stdout
assert [float(x) for x in said.split()] == [x for row in model.score(n, rows, lists) for x in row], said
PY
check "their scores" env PYTHONDONTWRITEBYTECODE=1 python3 compare.py "$srcdir/tests/serve" "${TESSERA%/*}/libtessera_serve.so" "$srcdir/input/serve.py"

fails() { # CODE TEXT command...
  code=$1 text=$2; shift 2
  "$@" > out 2> err
  test $? = "$code" && grep -qF -- "$text" err && test "$(wc -l < err)" = 1
}
check "no file" fails 2 'usage: tessera serve-bench FILE' "$TESSERA" serve-bench
check "no such file" fails 4 'none: No such file' "$TESSERA" serve-bench none
check "no threads" fails 2 '--threads 0 is no number in 1 to 256' bench --threads 0
check "no law" fails 2 '--zipf x is no number in 0 to 10' bench --zipf x
check "no folder" fails 1 'file/ids_1.npy: Not a directory' bench --batch 1 --dump file
passed
