"""quality.py - of jobs/quality: the other models on the samples of tessera's
runs, and the table.

    quality.py OUTPUT SEEDS DATA-SET...

OUTPUT/DATA-SET has train.csv, valid.csv, test.csv and the runs KIND-SEED.  What
PyTorch trains is read from the deck in force of a run: the same columns, model,
widths, initial weights, rates and validations.  Its MLP is what one would write
without having seen the deck's rates: embeddings and numbers side by side, of
sparsenn's widths, Adam at its usual 1e-3 for all."""
import csv
import json
import re
import statistics
import sys

import numpy as np
import scipy.sparse
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder
from torch import nn

KINDS = ["dlrm", "dcnv2", "deepfm", "sparsenn"]
PARTS = ["train", "valid", "test"]


def read_deck(path):
    """A deck in force is JSON but for its signs."""
    text = re.sub(r"(?m)^#.*|;$", lambda m: "," if m[0] == ";" else "", open(path).read())
    text = re.sub(r"(?m)^(\s*)(\w+) = ", r'\1"\2": ', text)
    text = re.sub(r"(?m)\($", "[", re.sub(r"(?m)^\)", "]", text))
    return json.loads("{" + re.sub(r",(\s*[\]}]|\s*$)", r"\1", text) + "}")


class Data:
    """Numbers as the deck has them transformed, words by a vocabulary of the
    training part (0: missing or not in it), labels: of each part."""

    def __init__(self, folder, deck):
        c = deck["data"]["csv"]
        rows = {p: list(csv.DictReader(open(f"{folder}/{p}.csv", newline=""))) for p in PARTS}
        self.names = [f for t in deck["tables"] for f in t["features"]]
        self.dense, self.words, self.x, self.ids, self.y = c["dense"], {}, {}, {}, {}
        for p in PARTS:
            self.y[p] = np.array([r[c["label"]] in (c["label_true"] or ["1"]) for r in rows[p]], "f4")
            self.words[p] = np.array([[r[n] for n in self.names] for r in rows[p]], object)
            x = np.array([[float(r[n]) for n in c["dense"]] for r in rows[p]]).reshape(len(rows[p]), -1)
            self.x[p] = np.log1p(np.maximum(x, 0)) if c["dense_transform"].startswith("log1p") else x
        mean, deviation = self.x["train"].mean(0), self.x["train"].std(0)
        for p in PARTS:
            self.x[p] = ((self.x[p] - mean) / deviation).astype("f4")
            self.ids[p] = np.zeros(self.words[p].shape, "i8")
        self.rows = []
        for k in range(len(self.names)):
            words = sorted(set(self.words["train"][:, k]) - {"", *c["missing"]})
            number = {w: i + 1 for i, w in enumerate(words)}
            self.rows.append(len(words) + 1)
            for p in PARTS:
                self.ids[p][:, k] = [number.get(w, 0) for w in self.words[p][:, k]]

    def tensors(self, part):
        first = np.cumsum([0] + self.rows[:-1])
        return [torch.as_tensor(a) for a in (self.x[part], self.ids[part] + first, self.y[part])]


def mlp(widths, last=True):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*(layers[:-1] if last else layers))


class Net(nn.Module):
    """The manual's Models, and "mlp"."""

    def __init__(self, kind, deck, rows):
        super().__init__()
        m, dim = deck["model"], deck["tables"][0]["dim"]
        n_dense = m["dense_features"]
        self.kind, self.field = kind, m["deepfm"]["fm"] == "field"
        self.table = nn.Embedding(sum(rows), dim, sparse=kind != "mlp")
        scale = [deck["tables"][0]["init"]["scale"] or 1 / n**0.5 for n in rows for _ in range(n)]
        with torch.no_grad():
            self.table.weight.uniform_(-1, 1).mul_(torch.tensor(scale)[:, None])
        below = [m["deepfm"]["hidden"], dim] if kind == "deepfm" else m["dense_arch"]
        self.below = mlp([n_dense, *below], last=False) if n_dense and kind != "mlp" else nn.Identity()
        wide = (n_dense if kind == "mlp" else below[-1] if n_dense else 0) + dim * len(rows)
        n, b = len(rows) + (n_dense > 0), dim if n_dense else 0
        above = wide
        if kind == "dlrm":
            self.pairs = torch.triu_indices(n, n, 1)
            above = b + n * (n - 1) // 2
        if kind == "dcnv2":
            r, layers = m["dcn"]["rank"], range(m["dcn"]["layers"])
            self.v = nn.ModuleList([nn.Linear(wide, r, bias=False) for _ in layers])
            self.w = nn.ModuleList([nn.Linear(r, wide) for _ in layers])
            for v, w in zip(self.v, self.w):
                nn.init.xavier_normal_(v.weight), nn.init.xavier_normal_(w.weight), nn.init.zeros_(w.bias)
        if kind == "deepfm":
            self.deep = mlp([wide, m["deepfm"]["fm_dim"]], last=False)
            above = b + m["deepfm"]["fm_dim"] + 1
        self.above = mlp([above, *m["over_arch"]])

    def forward(self, x, ids):
        b, e = self.below(x), self.table(ids)
        z = torch.cat([b, e.flatten(1)], 1)
        if self.kind == "dlrm":
            v = z.view(len(z), -1, e.shape[2])
            z = torch.cat([b, (v @ v.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]], 1)
        if self.kind == "dcnv2":
            x0 = z
            for v, w in zip(self.v, self.w):
                z = x0 * w(v(z)) + z
        if self.kind == "deepfm":
            v = z.view(len(z), -1, e.shape[2]) if self.field else z[:, :, None]
            fm = ((v.sum(1) ** 2 - (v**2).sum(1)) / 2).sum(1, keepdim=True)
            z = torch.cat([b, self.deep(z), fm], 1)
        return self.above(z)[:, 0]


class RowwiseAdagrad(torch.optim.Optimizer):
    """One sum of squares a row, as FBGEMM has it."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad.coalesce()
                row, g = g.indices()[0], g.values()
                m = self.state[p].setdefault("sum", torch.zeros(len(p)))
                m[row] += (g**2).mean(1)
                p[row] -= group["lr"] * g / (m[row].sqrt() + 1e-8)[:, None]


def optimizers(net, kind, deck):
    if kind == "mlp":
        return [torch.optim.Adam(net.parameters())]
    table, dense = deck["tables"][0]["optimizer"], deck["optimizer"]
    rows = {"adam": torch.optim.SparseAdam,
            "rowwise_adagrad": lambda p, lr: RowwiseAdagrad(p, {"lr": lr})}[table["kind"]]
    others = [p for name, p in net.named_parameters() if name != "table.weight"]
    return [rows([net.table.weight], lr=table["lr"]),
            {"adam": torch.optim.Adam}[dense["kind"]](others, lr=dense["lr"])]


@torch.no_grad()
def predict(net, data, part):
    x, ids, _ = data.tensors(part)
    return torch.sigmoid(net(x, ids)).double().numpy()


def pytorch(kind, deck, data, seed):
    """As tessera trains: the best of the validations, after patience."""
    torch.manual_seed(seed)
    run, schedule = deck["run"], deck["optimizer"]["schedule"]
    net = Net(kind, deck, data.rows)
    opts = optimizers(net, kind, deck)
    rates = [g["lr"] for o in opts for g in o.param_groups]
    x, ids, y = data.tensors("train")
    step, since, best, loss = 0, 0, None, nn.BCEWithLogitsLoss()
    epochs = (torch.randperm(len(y)) for _ in range(int(run["epochs"])))
    for batch in (b for order in epochs for b in order.split(deck["data"]["global_batch"])):
        linear = kind != "mlp" and schedule["kind"] == "linear"
        for group, lr in zip((g for o in opts for g in o.param_groups), rates):
            group["lr"] = lr * max(0, 1 - step / schedule["steps"]) if linear else lr
        net.zero_grad()
        loss(net(x[batch], ids[batch]), y[batch]).backward()
        for o in opts:
            o.step()
        step += 1
        if step % run["valid_every"]:
            continue
        value, since = log_loss(data.y["valid"], predict(net, data, "valid")), since + 1
        if best is None or value < best:
            best, since = value, 0
            kept = {k: v.clone() for k, v in net.state_dict().items()}
        if since == run["stop"]["patience"]:
            break
    net.load_state_dict(kept)
    return predict(net, data, "test")


def boosting(data, seed):
    """Columns of up to 254 words as such, others as the mean label of a word,
    and numbers as numbers alone."""
    words = [k for k, name in enumerate(data.names) if name not in data.dense]
    few, many = ([k for k in words if (data.rows[k] < 255) == is_few] for is_few in (True, False))
    code = make_column_transformer(
        (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan), few),
        (TargetEncoder(cv=StratifiedKFold(5, shuffle=True, random_state=seed)), many))
    x = {"train": code.fit_transform(data.words["train"], data.y["train"])}
    x.update({p: code.transform(data.words[p]) for p in PARTS[1:]})
    x = {p: np.hstack([x[p], data.x[p]]).astype("f8") for p in PARTS}
    model = HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=2000, early_stopping=True, n_iter_no_change=20,
        categorical_features=list(range(len(few))), random_state=seed)
    model.fit(x["train"], data.y["train"], X_val=x["valid"], y_val=data.y["valid"])
    return model.predict_proba(x["test"])[:, 1]


def logistic(data):
    """One column a word, numbers beside them; C by the validation part."""
    code = OneHotEncoder(handle_unknown="ignore").fit(data.words["train"])
    x = {p: scipy.sparse.hstack([code.transform(data.words[p]), data.x[p]]).tocsr() for p in PARTS}
    models = [LogisticRegression(C=c, max_iter=2000).fit(x["train"], data.y["train"])
              for c in (0.01, 0.03, 0.1, 0.3, 1, 3)]
    loss = [log_loss(data.y["valid"], m.predict_proba(x["valid"])[:, 1]) for m in models]
    return models[int(np.argmin(loss))].predict_proba(x["test"])[:, 1]


def of_run(folder):
    lines = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    line = [line for line in lines if line.get("eval")][-1]
    return line["auc"], line["logloss"]


def figures(folder, seeds):
    """{model: [(AUC, log loss) of each seed]}"""
    deck = {k: read_deck(f"{folder}/{k}-1/deck.effective") for k in KINDS}
    data = Data(folder, deck["dlrm"])
    of = lambda q: (roc_auc_score(data.y["test"], q), log_loss(data.y["test"], q))
    all_of = {}
    for k in KINDS:
        all_of["tessera " + k] = [of_run(f"{folder}/{k}-{s}") for s in seeds]
        all_of["PyTorch " + k] = [of(pytorch(k, deck[k], data, s)) for s in seeds]
    all_of["PyTorch MLP"] = [of(pytorch("mlp", deck["sparsenn"], data, s)) for s in seeds]
    all_of["gradient boosting"] = [of(boosting(data, s)) for s in seeds]
    all_of["logistic regression"] = [of(logistic(data))]
    return all_of


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def main():
    torch.set_num_threads(1)
    out, seeds, names = sys.argv[1], range(1, int(sys.argv[2]) + 1), sys.argv[3:]
    found = {n: figures(f"{out}/{n}", seeds) for n in names}
    print("| model | " + " | ".join(f"{n}, AUC | {n}, log loss" for n in names) + " |")
    print("|---" * (1 + 2 * len(names)) + "|")
    for model in found[names[0]]:
        cells = [f"{statistics.mean(v):.4f} ± {spread(v):.4f}" for n in names for v in zip(*found[n][model])]
        print(f"| {model} | " + " | ".join(cells) + " |")
    worse = 0
    for n in names:
        for kind, other in [("sparsenn", "PyTorch MLP")] + [(k, "PyTorch " + k) for k in KINDS]:
            for i, what, sign in (0, "AUC", 1), (1, "log loss", -1):
                ours, theirs = ([v[i] for v in found[n][m]] for m in ("tessera " + kind, other))
                error = ((spread(ours) ** 2 + spread(theirs) ** 2) / len(seeds)) ** 0.5
                allowed = spread(theirs) if other == "PyTorch MLP" else 3 * error
                if sign * (statistics.mean(ours) - statistics.mean(theirs)) < -allowed:
                    worse = 1
                    print(f"{n}: {what} of tessera {kind} is worse than that of {other}")
    return worse


sys.exit(main())
