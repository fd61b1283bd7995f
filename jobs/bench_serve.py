"""bench_serve.py - of jobs/bench_serve: models and batches, all programs in
turns, and what PyTorch and ONNX Runtime run.

    bench_serve.py all OUTPUT TESSERA TURNS
    bench_serve.py torch|onnx FOLDER THREADS

The model is a DLRM under TorchRec's names: rows of a bag are summed (one id: are
the row), with weights in tables w0 to w9, then products of all pairs."""
import json
import os
import struct
import subprocess
import sys
import time

BATCHES, THREADS, STEPS, WARM = (1, 64, 1024), (1, 2), 20, 20
SECONDS = float(os.environ.get("SECONDS_EACH", 1))
MODELS = {"bench_bags": 10, "bench_ctr": 1}  # ids a feature
PROGRAMS = ("int8", "f32", "torch", "onnx")
ABOUT = """
The best of the turns, of each figure.  int8 and f32 are tessera's, by rows; "of the better" is P99
of int8 over that of PyTorch or ONNX Runtime, whichever is less.  A call of
PyTorch or ONNX Runtime has its arrays ready; what Python adds to it, some
microseconds, is in its time."""


def run(command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"bench_serve: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


# ---- what is scored ---------------------------------------------------------

def weights_of(folder):
    """{name: array}, mapped."""
    import numpy as np
    names, index = ["model.safetensors"], f"{folder}/model.safetensors.index.json"
    if os.path.exists(index):
        names = sorted(set(json.load(open(index))["weight_map"].values()))
    found = {}
    for name in names:
        with open(f"{folder}/{name}", "rb") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            head = json.loads(f.read(n))
        for key, t in head.items():
            if key != "__metadata__":
                found[key] = np.memmap(f"{folder}/{name}", "<f4", "r", 8 + n + t["data_offsets"][0], tuple(t["shape"]))
    return found


def parts_of(folder):
    """Tables in their order, (weight, bias) of the layers below and above."""
    w = weights_of(f"{folder}/weights")
    names = sorted((k for k in w if "embedding_bags" in k), key=lambda k: (k.split(".")[-2][0], int(k.split(".")[-2][1:])))
    tables = [(k.split(".")[-2], w[k]) for k in names]
    layers = lambda start: [(w[k], w[k[:-6] + "bias"]) for k in sorted(w) if k.startswith(start) and k.endswith("weight")]
    return tables, layers("dense_arch"), layers("over_arch")


def batches_of(folder, n):
    """[(ids (features, n, each), weights, dense)], scores of f32 rows."""
    import numpy as np
    read = lambda name: np.load(f"{folder}/f32.batches/{name}_{n}.npy")
    return list(zip(read("ids"), read("weights"), read("dense"))), read("out")


# ---- PyTorch ----------------------------------------------------------------

def torch_calls(folder, threads):
    """{n: [function that scores a batch]}"""
    import numpy as np
    import torch
    from torch import nn
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    tables, below, above = parts_of(folder)
    tensor = lambda x: torch.from_numpy(np.array(x))

    def linear(w, b):
        layer = nn.Linear(w.shape[1], w.shape[0])
        layer.load_state_dict({"weight": tensor(w), "bias": tensor(b)})
        return layer

    class Model(nn.Module):
        def __init__(self, one):
            super().__init__()
            kind = (lambda w: nn.Embedding.from_pretrained(w)) if one else (lambda w: nn.EmbeddingBag.from_pretrained(w, mode="sum"))
            self.bags = nn.ModuleList(kind(tensor(w)) for _, w in tables)
            self.below = nn.Sequential(*(x for layer in below for x in (linear(*layer), nn.ReLU())))
            self.above = nn.Sequential(*(x for layer in above for x in (linear(*layer), nn.ReLU())))
            self.above[-1] = nn.Sigmoid()
            f = len(tables) + 1
            i, j = torch.triu_indices(f, f, 1)
            self.pairs = i * f + j

        def forward(self, dense, inputs):
            b = self.below(dense)
            v = torch.stack([b] + [bag(*x) for bag, x in zip(self.bags, inputs)], 1)
            dots = torch.bmm(v, v.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
            return self.above(torch.cat([b, dots], 1))

    def call(model, ids, weights, dense):
        one = ids.shape[2] == 1
        inputs = [(tensor(i[:, 0]),) if one else (tensor(i), None, tensor(w) if name[0] == "w" else None)
                  for (name, _), i, w in zip(tables, ids, weights)]
        dense = tensor(dense)

        def score():
            with torch.inference_mode():
                return model(dense, inputs).numpy()
        return score

    model = Model(batches_of(folder, 1)[0][0][0].shape[2] == 1).eval()
    return {n: [call(model, *b) for b in batches_of(folder, n)[0]] for n in BATCHES}


# ---- ONNX Runtime -----------------------------------------------------------

def onnx_file(folder, one):
    """The graph, written by hand; weights lie in a file beside it."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
    tables, below, above = parts_of(folder)
    nodes, constants, inputs = [], [], []

    def constant(name, x):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(x), name))
        return name

    def node(kind, out, *names, **more):
        nodes.append(helper.make_node(kind, list(names), [out], **more))
        return out

    def given(name, kind, *shape):
        inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def mlp(x, layers, name, last):
        for k, (w, b) in enumerate(layers):
            x = node("Gemm", f"{name}{k}", x, constant(f"{name}{k}.w", w), constant(f"{name}{k}.b", b), transB=1)
            x = node(last if k == len(layers) - 1 else "Relu", f"{name}{k}.y", x)
        return x

    b = mlp(given("dense", onnx.TensorProto.FLOAT, "n", below[0][0].shape[1]), below, "below", "Relu")
    axis, vectors = constant("axis", np.array([1])), []
    for name, w in tables:
        shape = ("n",) if one else ("n", "each")
        rows = node("Gather", f"{name}.rows", constant(name, w), given(f"{name}.ids", onnx.TensorProto.INT64, *shape))
        if name[0] == "w":  # (n, 1, each) x (n, each, dim)
            k = node("Unsqueeze", f"{name}.k", given(f"{name}.weights", onnx.TensorProto.FLOAT, *shape), axis)
            vectors.append(node("MatMul", f"{name}.v", k, rows))
        elif one:
            vectors.append(node("Unsqueeze", f"{name}.v", rows, axis))
        else:
            vectors.append(node("ReduceSum", f"{name}.v", rows, axis, keepdims=1))
    v = node("Concat", "v", node("Unsqueeze", "b", b, axis), *vectors, axis=1)
    dots = node("MatMul", "dots", v, node("Transpose", "vt", v, perm=[0, 2, 1]))
    flat = node("Flatten", "flat", dots, axis=1)
    f = len(tables) + 1
    i, j = np.triu_indices(f, 1)
    pairs = node("Gather", "pairs", flat, constant("places", i * f + j), axis=1)
    y = mlp(node("Concat", "x", b, pairs, axis=1), above, "above", "Sigmoid")
    graph = helper.make_graph(nodes, "dlrm", inputs, [helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, ("n", 1))], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = f"{folder}/model.onnx"
    if os.path.exists(f"{path}.data"):
        os.remove(f"{path}.data")
    onnx.save_model(model, path, save_as_external_data=True, location="model.onnx.data")
    return path


def onnx_calls(folder, threads):
    import numpy as np
    import onnxruntime
    one = batches_of(folder, 1)[0][0][0].shape[2] == 1
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    path = f"{folder}/model.onnx"
    if not os.path.exists(path):
        onnx_file(folder, one)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [x.name[:-4] for x in session.get_inputs() if x.name.endswith(".ids")]

    def call(ids, weights, dense):
        feeds = {"dense": np.array(dense)}
        for name, i, w in zip(names, ids, weights):
            feeds[f"{name}.ids"] = np.ascontiguousarray(i[:, 0] if one else i)
            if name[0] == "w":
                feeds[f"{name}.weights"] = np.array(w)
        return lambda: session.run(None, feeds)[0]

    return {n: [call(*b) for b in batches_of(folder, n)[0]] for n in BATCHES}


# ---- a peer's figures -------------------------------------------------------

def measure(calls):
    import numpy as np
    clock, took = time.perf_counter, []
    for k in range(WARM):
        calls[k % len(calls)]()
    begin = before = clock()
    while before - begin < SECONDS or len(took) < 100:
        calls[len(took) % len(calls)]()
        now = clock()
        took.append(now - before)
        before = now
    return {"p50_us": 1e6 * float(np.median(took)), "p99_us": 1e6 * float(np.quantile(took, 0.99)), "calls_per_s": len(took) / (before - begin)}


def peer(program, folder, threads):
    import numpy as np
    all_calls = {"torch": torch_calls, "onnx": onnx_calls}[program](folder, threads)
    for n, calls in all_calls.items():
        out = batches_of(folder, n)[1]
        far = max(float(np.abs(call() - own).max()) for call, own in zip(calls, out))
        x = measure(calls)
        print(json.dumps(dict(batch=n, samples_per_s=n * x.pop("calls_per_s"), far=far, **x)), flush=True)


# ---- turns ------------------------------------------------------------------

def make(out, tessera, name, each):
    """Trained, exported, its batches scored: a folder."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folder = os.path.join(os.path.abspath(out), name)
    os.makedirs(folder, exist_ok=True)
    words = [f"{top}/input/{name}.deck", "--quiet", "--set", "data.train=[]", "--set", "data.format=synthetic", "--set", f"run.output={folder}/run",
             "--set", f"checkpoint.dir={folder}/run/saved", "--set", f"run.steps={STEPS}"]
    run([tessera, "train", *words])
    run([tessera, "export", *words, "--names", "torchrec", "--out", f"{folder}/weights"])
    for rows in "int8", "f32":
        run([tessera, "export", *words, "--format", "serve", "--tables", rows, "--out", f"{folder}/{rows}"])
        for n in BATCHES:
            run([tessera, "serve-bench", rows, "--batch", str(n), "--ids", str(each), "--seconds", "0", "--dump", f"{rows}.batches"], cwd=folder)
    return folder


def ours(tessera, folder, rows, each):
    """{(batch, threads, scorers): figures}"""
    text = run([tessera, "serve-bench", rows, "--ids", str(each), "--seconds", str(SECONDS), "--json"], cwd=folder)
    lines = [x for x in map(json.loads, text.splitlines()) if x["table"] == "serve"]
    return {(x["batch"], x["threads"], x["scorers"]): x for x in lines}


def theirs(program, folder):
    found = {}
    for threads in THREADS:
        for line in run([sys.executable, __file__, program, folder, str(threads)]).splitlines():
            x = json.loads(line)
            found[x["batch"], threads, 1] = x
    return found


def tell(name, found, rows_far):
    """FOUND: {program: [figures of a turn]}"""
    best = lambda program, key, what: (max if what == "samples_per_s" else min)(turn[key][what] for turn in found[program])
    print(f"\n{name}:\n\n| batch | threads | " + " | ".join(f"{p} P50 us | P99 | samples/s" for p in PROGRAMS) + " | P99 of the better |")
    print("|---" * (3 + 3 * len(PROGRAMS)) + "|")
    for n in BATCHES:
        for key in [(n, t, 1) for t in THREADS]:
            cells = [f"{best(p, key, 'p50_us'):,.1f} | {best(p, key, 'p99_us'):,.1f} | {best(p, key, 'samples_per_s'):,.0f}" for p in PROGRAMS]
            better = min(best(p, key, "p99_us") for p in ("torch", "onnx"))
            print(f"| {n:,} | {key[1]} | " + " | ".join(cells) + f" | {best('int8', key, 'p99_us') / better:.2f} |")
    for n in BATCHES:
        rates = [f"{p} {best(p, (n, 1, 2), 'samples_per_s'):,.0f}" for p in PROGRAMS[:2]]
        print(f"batch {n:,}, two scorers of a thread each, samples/s: " + ", ".join(rates))
    far = {p: max(x["far"] for turn in found[p] for x in turn.values()) for p in ("torch", "onnx")}
    print(f"predictions are off f32's by at most: PyTorch {far['torch']:.1e}, ONNX Runtime {far['onnx']:.1e}, int8 {rows_far:.1e}")


def compare(out, tessera, turns):
    import numpy as np
    tessera = os.path.abspath(tessera)
    for name, each in MODELS.items():
        folder = make(out, tessera, name, each)
        rows_far = max(float(np.abs(np.load(f"{folder}/int8.batches/out_{n}.npy") - np.load(f"{folder}/f32.batches/out_{n}.npy")).max()) for n in BATCHES)
        found = {p: [] for p in PROGRAMS}
        for _ in range(turns):
            for p in PROGRAMS:
                found[p].append(ours(tessera, folder, p, each) if p in PROGRAMS[:2] else theirs(p, folder))
        tell(name, found, rows_far)
    print(ABOUT)


def main():
    if sys.argv[1] == "all":
        return compare(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    peer(sys.argv[1], sys.argv[2], int(sys.argv[3]))


if __name__ == "__main__":
    main()
