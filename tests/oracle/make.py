"""Makes the cases of tests/run/oracle.sh with PyTorch: for each graph of
input/models a deck, and what a model of models.py makes of tessera's own
initial weights in 20 steps of SGD, in double.  jobs/oracle calls it."""
import csv
import glob
import os
import random
import subprocess
import tempfile
from types import SimpleNamespace

import h5py
import torch
import torch.nn.functional as F

import models
import sequences

STEPS, BATCH, LR, DENSE = 20, 16, 0.2, 3
# Name, rows, features; f3 comes as bags, which are summed.
TABLES = [("a", 7, ["f0"]), ("b", 11, ["f1", "f2"]), ("c", 5, ["f3"])]
ROWS = {f: rows for _, rows, features in TABLES for f in features}
LABELS = {"ctr": (("ctr", "ctr"),), "both": (("ctr", "ctr"), ("cvr", "cvr")),
          "entire": (("ctr", "ctr"), ("ctcvr", "ctcvr"))}


def case(model, *change, labels="ctr", dim=4, **sizes):
    return SimpleNamespace(model=model, change=change, labels=LABELS[labels],
                           n=DENSE, fields=len(ROWS), dim=dim, **sizes)


DEEP = '{ name = "deep"; units = [8, 6]; }'
CASES = {
    "lr": case(models.Lr, dim=1),
    "fm": case(models.Fm),
    "wide_deep": case(models.WideDeep, DEEP, units=[8, 6]),
    "deepfm_wide": case(models.DeepFm, DEEP, units=[8, 6]),
    "nfm": case(models.Nfm, DEEP, units=[8, 6], dim=6),
    "dcnv2_moe": case(models.DcnMoe, DEEP, '{ name = "cross"; layers = 2; '
                      'rank = 3; experts = 3; }', units=[8, 6], rank=3),
    "xdeepfm": case(models.XDeepFm, DEEP, units=[8, 6], maps=[32, 32]),
    "autoint": case(models.AutoInt, *(
        f'{{ name = "{n}"; dim = 3; }}' for n in ("first", "second", "third")),
        heads=2, head_dim=3),
    "fibinet": case(models.FiBiNet, DEEP,
                    '{ name = "senet"; reduction = 2; }', units=[8, 6],
                    reduction=2),
    "pnn": case(models.Pnn, DEEP, units=[8, 6], dim=8),
    "gdcn": case(models.Gdcn, DEEP, units=[8, 6]),
    "masknet": case(models.MaskNet, '{ name = "first"; units = 7; }',
                    '{ name = "second"; units = 7; }',
                    '{ name = "deep"; units = [6]; }', units=[6], mask_units=7),
    "finalmlp": case(models.FinalMlp, '{ name = "left"; units = [8, 6]; }',
                     '{ name = "right"; units = [7, 4]; }', left=[8, 6],
                     right=[7, 4]),
    "mmoe": case(models.Mmoe,
                 '{ name = "mix"; experts = 3; units = [6, 5]; }',
                 '{ name = "tower_ctr"; units = [4]; }',
                 '{ name = "tower_cvr"; units = [4]; }', labels="both",
                 expert=[6, 5], tower=[4]),
    "ple": case(models.Ple, '{ name = "low"; units = [6]; }',
                '{ name = "top"; units = [5]; }',
                '{ name = "tower_ctr"; units = [4]; }',
                '{ name = "tower_cvr"; units = [4]; }', labels="both", low=6,
                high=5, tower=[4]),
    "esmm": case(models.Esmm, '{ name = "deep_ctr"; units = [8, 6]; }',
                 '{ name = "deep_cvr"; units = [8, 6]; }', labels="entire",
                 units=[8, 6]),
}


def deck(name, c):
    labels = "".join(f'    {{ name = "{n}"; kind = "label"; from = "{f}"; }},\n'
                     for n, f in c.labels)
    wide = "wide = true; " if c.model.WIDE else ""
    if c.dim == 1:  # there is nothing else
        wide = 'group = "wide"; '
    tables = ",\n  ".join(
        f'{{ name = "{t}"; features = [{", ".join(chr(34) + f + chr(34) for f in features)}]; '
        f'rows = {rows}; dim = {c.dim}; {wide}optimizer = {{ kind = "sgd"; lr = {LR}; }}; }}'
        for t, rows, features in TABLES)
    dense = 0 if name == "fm" else DENSE
    x = (f'    {{ name = "x{{0..{DENSE - 1}}}"; kind = "dense"; }},\n'
         if dense else "")
    change = "".join(f"\n    {s}," for s in c.change).rstrip(",")
    change = f" change = ({change} );" if change else ""
    return f"""# Made by jobs/oracle: tests/run/oracle.sh gives the data.
run = {{ name = "{name}"; seed = 5; steps = {STEPS}; threads = 1; log_every = 1; }};
data = {{ format = "csv"; global_batch = {BATCH};
  columns = (
{labels}{x}    {{ name = "f{{0..{len(ROWS) - 1}}}"; kind = "ids"; encoding = "none"; list_separator = "|"; }} ); }};
tables = (
  {tables} );
model = {{ kind = "{name}"; dense_features = {dense};{change} }};
optimizer = {{ kind = "sgd"; lr = {LR}; }};
"""


def write_data(path):
    rng = random.Random(3)
    with open(path, "w") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["ctr", "cvr", "ctcvr"]
                     + [f"x{k}" for k in range(DENSE)] + list(ROWS))
        for _ in range(STEPS * BATCH):
            x = [round(rng.uniform(-1, 1), 3) for _ in range(DENSE)]
            ids = {f: [rng.randrange(n) for _ in
                       range(rng.randrange(4) if f == "f3" else 1)]
                   for f, n in ROWS.items()}
            ctr = int(rng.random() < 0.3 + 0.1 * (ids["f0"][0] % 3) + 0.2 * x[0])
            cvr = int(rng.random() < 0.4 + 0.3 * (ids["f1"][0] % 2))
            out.writerow([ctr, cvr, ctr * cvr] + x
                         + ["|".join(map(str, ids[f])) for f in ROWS])


def read_data(path):
    with open(path) as f:
        rows = list(csv.DictReader(f))
    # An id's weight in a sample is how often it is in the bag.
    counts = {f: torch.zeros(len(rows), n, dtype=torch.float64)
              for f, n in ROWS.items()}
    for i, row in enumerate(rows):
        for f in ROWS:
            for k in filter(None, row[f].split("|")):
                counts[f][i, int(k)] += 1
    column = {n: torch.tensor([float(r[n]) for r in rows], dtype=torch.float64)
              for n in rows[0] if n not in ROWS}
    x = torch.stack([column[f"x{k}"] for k in range(DENSE)], 1)
    return x, counts, column


def initial(tessera, deck_path, data, tables):
    """Parameters of a run whose rates are 0."""
    with tempfile.TemporaryDirectory() as folder:
        rates = ['--set', 'optimizer.lr=0.0']
        for t in tables:
            rates += ['--set', f'tables.{t}.optimizer.lr=0.0']
        subprocess.run([tessera, "train", deck_path, "--quiet", "--set",
                        f"data.train={data}", "--set", f"run.output={folder}",
                        "--set", "run.steps=1"] + rates, check=True)
        path, = glob.glob(folder + "/checkpoints/*.h5")
        with h5py.File(path) as f:
            return {n: torch.tensor(f["model"][n][()], dtype=torch.float64)
                    for n in f["model"]}


def table_of(params, name):
    key, = [k for k in params if k.split(".")[-2] == name]
    return key


def load(net, params):
    """Copies the dense ones: all of them, on both sides."""
    across = getattr(net, "ACROSS", ())
    left = dict(net.named_parameters())
    for ours, theirs in net.NAMES.items():
        at, dim = 0, int(ours in across)
        for name in theirs:
            p = left.pop(name)
            n = p.shape[dim]
            part = params[ours].narrow(dim, at, n)
            p.data = part.reshape(p.shape).clone()
            at += n
        assert at == params[ours].shape[dim], (ours, theirs)
    assert not left, left.keys()
    dense = {n for n in params if not n.startswith("sparse_arch.")}
    assert dense == set(net.NAMES), dense ^ set(net.NAMES)


def losses_of(net, outputs, column, labels, at):
    probability = getattr(net, "PROBABILITY", (False, False))
    total = 0
    for z, (name, _), p in zip(outputs, labels, probability):
        y = column[name][at:at + BATCH, None]
        total = total + (F.binary_cross_entropy(z, y) if p else
                         F.binary_cross_entropy_with_logits(z, y))
    return total


def train(c, params, data):
    x, counts, column = read_data(data)
    net = c.model(c).double()
    load(net, params)
    tables = {k: p.clone().requires_grad_() for k, p in params.items()
              if k.startswith("sparse_arch.")}
    features = [(f, t) for t, _, fs in TABLES for f in fs]
    sgd = torch.optim.SGD(list(net.parameters()) + list(tables.values()), lr=LR)
    losses = []
    for at in range(0, STEPS * BATCH, BATCH):
        def pooled(suffix):
            return torch.stack([counts[f][at:at + BATCH]
                                @ tables[table_of(params, t + suffix)]
                                for f, t in features], 1)
        inputs = [x[at:at + BATCH], pooled("")]
        if c.model.WIDE:
            inputs.append(pooled("" if c.dim == 1 else "_wide").squeeze(2))
        sgd.zero_grad()
        loss = losses_of(net, net(*inputs), column, c.labels, at)
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    own = dict(net.named_parameters())
    across = getattr(net, "ACROSS", ())
    after = {ours: torch.cat([own[n] for n in theirs], int(ours in across))
             for ours, theirs in net.NAMES.items()}
    return losses, {**after, **tables}


def sums(p):
    """The sum, that of squares, and that with weights 1 / n .. n / n."""
    w = p.detach().reshape(-1)
    k = torch.arange(1, len(w) + 1, dtype=torch.float64) / len(w)
    return w.sum().item(), (w * w).sum().item(), (k * w).sum().item()


def make(name, tessera, folder):
    lists = name in sequences.CASES
    data = f"{folder}/{'sequences' if lists else 'data'}.csv"
    path = f"{folder}/{name}.deck"
    with open(path, "w") as f:
        f.write(sequences.deck(name) if lists else deck(name, CASES[name]))
    if lists:
        other = [sequences.TABLE[o] for o in (sequences.CASES[name][3] or "").split()]
        params = initial(tessera, path, data, ["items"] + other)
        losses, after = sequences.train(name, params, data)
    else:
        params = initial(tessera, path, data, [t for t, _, _ in TABLES])
        losses, after = train(CASES[name], params, data)
    with open(f"{folder}/{name}.txt", "w") as f:
        for k, loss in enumerate(losses):
            f.write(f"loss {k + 1} {loss:.9g}\n")
        for key in sorted(after):
            f.write(f"{key} " + " ".join(f"{v:.9g}" for v in sums(after[key]))
                    + "\n")


def make_all(tessera, folder, names):
    os.makedirs(folder, exist_ok=True)
    write_data(f"{folder}/data.csv")
    sequences.write_data(f"{folder}/sequences.csv")
    for name in names:
        make(name, tessera, folder)
        print("made", name, flush=True)
