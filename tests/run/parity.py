"""Runs one case (data.h5, init.h5, expect.h5) and compares: every loss to
1e-5 relative, every final weight to 1e-4 absolute.  TESSERA_BACKEND names
run.backend; that of a GPU, whose products add in another order, may be off by
1e-4 in losses and 1e-3 in weights.
usage: parity.py CASE_DIR TESSERA [RANKS [SHARDINGS]]   (lists with commas)"""
import ast
import glob
import json
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np

RANKS = (1, 2, 3, 4)
BACKEND = os.environ.get("TESSERA_BACKEND", "host")
LOSS, WEIGHT = (1e-5, 1e-4) if BACKEND == "host" else (1e-4, 1e-3)
SHARDINGS = ("table_wise", "row_wise", "data_parallel", "column_wise",
             "table_row_wise", "table_column_wise", "grid")


def quoted(words):
    return "[" + ", ".join(json.dumps(w) for w in words) + "]"


def table(case, i, spec, sharding):
    rows, features, kind, lr = spec
    eps = "" if kind == "sgd" else " eps = 1e-8;"
    return (f'{{ name = "t{i}"; rows = {rows}; dim = {case["dim"]}; '
            f'features = {quoted(features)}; pooling = "{case["pooling"]}"; '
            f'weighted = {str(i in case.get("weighted", [])).lower()}; '
            f'sharding = "{sharding}"; optimizer = {{ kind = "{kind}"; '
            f'lr = {float(lr)};{eps} }}; }}')


def model(case):
    kind = case["model"]
    tasks = ", ".join(f'{{ name = "y{k}"; weight = {w}; }}'
                      for k, w in enumerate(case.get("tasks", [1.0])))
    text = (f'kind = "{kind}"; dense_features = {case["dense"]}; '
            f'tasks = ( {tasks} ); ')
    if kind == "deepfm":
        return text + (f'deepfm = {{ hidden = {case["hidden"]}; '
                       f'fm_dim = {case["fm_dim"]}; fm = "flat"; }};')
    if kind == "dcnv2":
        text += (f'dcn = {{ layers = {case["dcn_layers"]}; '
                 f'rank = {case["dcn_rank"]}; }}; ')
    return text + (f'dense_arch = {list(case["bottom"])}; '
                   f'over_arch = {list(case["top"])};')


def deck(case, folder, out, sharding):
    tables = ",\n".join(table(case, i, t, sharding)
                        for i, t in enumerate(case["tables"]))
    eps = {"adagrad": " eps = 1e-10;", "adam": " eps = 1e-8;"}
    return f"""
run = {{ output = "{out}"; backend = "{BACKEND}"; steps = {case["steps"]}; threads = 1; log_every = 1; }};
data = {{ train = "{folder}/data.h5"; global_batch = {case["batch"]}; }};
tables = ( {tables} );
model = {{ {model(case)} }};
sharding = {{ min_column = 4; ranks_per_node = 2; topology = "default"; }};
optimizer = {{ kind = "{case["dense_opt"]}"; lr = {float(case["dense_lr"])};{eps.get(case["dense_opt"], "")} }};
checkpoint = {{ init_from = "{folder}/init.h5"; resume = "never"; }};
"""


def expected(path):
    weights = {}

    def take(name, item):
        if isinstance(item, h5py.Dataset):
            weights[name] = item[:]

    with h5py.File(path) as f:
        f["model"].visititems(take)
        return ast.literal_eval(f.attrs["case"]), f["losses"][:], weights


def compare(out, losses, weights):
    got = {}
    for line in open(f"{out}/metrics.jsonl"):
        entry = json.loads(line)
        if "loss" in entry and not entry.get("eval"):
            got[entry["step"]] = entry["loss"]
    got = np.array([got[k] for k in sorted(got)])
    if got.shape != losses.shape:
        return np.inf, np.inf
    worst = 0.0
    newest = sorted(glob.glob(f"{out}/checkpoints/step-*.h5"))[-1]
    with h5py.File(newest) as f:
        for name, w in weights.items():
            d = f["model/" + name][:].astype(np.float64) - w
            worst = max(worst, float(np.abs(d).max()))
    return float(np.max(np.abs(got - losses) / losses)), worst


def main():
    folder, tessera = os.path.abspath(sys.argv[1]), sys.argv[2]
    case, losses, weights = expected(f"{folder}/expect.h5")
    more = [a.split(",") for a in sys.argv[3:]]
    all_ranks = [int(r) for r in more[0]] if more else RANKS
    shardings = more[1] if len(more) > 1 else SHARDINGS
    passed = failed = 0
    for ranks in all_ranks:
        for sharding in shardings:
            with tempfile.TemporaryDirectory() as d:
                path = f"{d}/case.deck"
                with open(path, "w") as f:
                    f.write(deck(case, folder, f"{d}/run", sharding))
                mpirun = os.environ.get("MPIRUN", "mpirun")
                run = subprocess.run(
                    [mpirun, "-q", "-n", str(ranks), tessera, "train", path],
                    stdin=subprocess.DEVNULL, capture_output=True, text=True,
                    timeout=120)
                if run.returncode:
                    print(run.stdout[-500:], run.stderr[-500:])
                    loss = weight = np.inf
                else:
                    loss, weight = compare(f"{d}/run", losses, weights)
            good = loss <= LOSS and weight <= WEIGHT
            passed += good
            failed += not good
            print(f"{os.path.basename(folder)} {ranks} ranks {sharding}: "
                  f"losses off by {loss:.1e}, weights by {weight:.1e}"
                  f"{'' if good else '  FAILED'}")
    n = passed + failed
    print(f"{100 * passed // n}%: Checks: {n}, Failures: {failed}, Errors: 0")
    return failed > 0


sys.exit(main())
