"""bench_serve_auc.py - of jobs/bench_serve --auc: AUC of rows as f32, bf16, int8
and int4 on data.eval of three decks for real data, scored by libtessera_serve
from the words and numbers of the files.

    bench_serve_auc.py OUTPUT TESSERA

MLPerf's rule for rows in few bits: at least 99.9 % of f32's AUC."""
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS, RULE = ("f32", "bf16", "int8", "int4"), 0.999
sys.dont_write_bytecode = True
sys.path.insert(0, f"{TOP}/tests/serve")
import serve

# Deck: label, values of a click, dense columns.
SETS = {"adult": ("income", (">50K", ">50K."), ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")),
        "avazu": ("click", ("1",), ()),
        "ml100k": ("click", ("1",), ("age",))}


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        sys.exit(f"bench_serve: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}")


def data_of(out, name):
    """The folder that the deck's TESSERA_DATA_DIR is, and the file that it evaluates on."""
    given = os.environ.get("TESSERA_DATA_DIR") or sys.exit("bench_serve: TESSERA_DATA_DIR names the folder of the data")
    if name == "adult":
        return given, f"{given}/adult/adult.test"
    folder = f"{out}/{name}.data"
    os.makedirs(folder, exist_ok=True)
    if name == "ml100k":
        run([f"{TOP}/jobs/join-ml100k", f"{given}/ml-100k", folder])
    else:
        train = open(f"{given}/avazu-9k/train.csv").read()
        open(f"{folder}/train.csv", "w").write(train)
        open(f"{folder}/test.csv", "w").write(train.split("\n", 1)[0] + "\n" + open(f"{given}/avazu-9k/test.csv").read())
    return folder, f"{folder}/test.csv"


def auc(scores, clicks):
    """Share of the pairs of a click and another that are in order; equal scores: half."""
    order, at, sum_of_ranks = sorted(range(len(scores)), key=scores.__getitem__), 0, 0.0
    while at < len(order):
        end = at
        while end < len(order) and scores[order[end]] == scores[order[at]]:
            end += 1
        sum_of_ranks += sum(clicks[k] for k in order[at:end]) * (at + end + 1) / 2
        at = end
    n = sum(clicks)
    return (sum_of_ranks - n * (n + 1) / 2) / (n * (len(scores) - n))


def score(lib, path, rows, dense):
    model, scores = serve.Serve(lib, path, n_max=1024), []
    for at in range(0, len(rows), 1024):
        some = rows[at:at + 1024]
        numbers = [[serve.number(row[c]) for c in dense] for row in some]
        words = [[[row[f]] for row in some] for f in model.features]
        scores += [x[0] for x in model.score(len(some), numbers, words)]
    model.close()
    return scores


def compare(out, tessera, name):
    """A line; true where int8 keeps the rule."""
    folder, test = data_of(out, name)
    label, click, dense = SETS[name]
    env = dict(os.environ, TESSERA_DATA_DIR=folder)
    words = [f"{TOP}/input/{name}.deck", "--quiet", "--set", f"run.output={out}/{name}", "--set", "checkpoint.resume=never"]
    run([tessera, "train", *words], env=env)
    lines = map(json.loads, open(f"{out}/{name}/metrics.jsonl"))
    told = [x["auc"] for x in lines if x.get("eval")][-1]
    rows = serve.read_csv(test)
    clicks = [row[label] in click for row in rows]
    found = {}
    for kind in KINDS:
        run([tessera, "export", *words, "--format", "serve", "--tables", kind, "--out", f"{out}/{name}.{kind}"], env=env)
        found[kind] = auc(score(f"{os.path.dirname(tessera)}/libtessera_serve.so", f"{out}/{name}.{kind}", rows, dense), clicks)
    shares = [f"{kind} {100 * found[kind] / found['f32']:.4f} %" for kind in KINDS[1:]]
    print(f"{name}: AUC {told:.6f} of tessera eval, {found['f32']:.6f} of f32 rows ({len(rows):,} samples, {sum(clicks):,} of them clicks); " + ", ".join(shares), flush=True)
    if abs(told - found["f32"]) > 2e-6:
        print(f"{name}: f32's is not that of the evaluation")
        return False
    return found["int8"] >= RULE * found["f32"]


def main():
    out, tessera = map(os.path.abspath, sys.argv[1:3])
    kept = [compare(out, tessera, name) for name in SETS]
    print("int8 has at least 99.9 % of f32's AUC" + ("" if all(kept) else ": NOT everywhere"))
    return not all(kept)


if __name__ == "__main__":
    sys.exit(main())
