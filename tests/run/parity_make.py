"""Makes cases for parity.py with torch and torchrec: a data set, initial
weights, and what TorchRec's models make of them in 20 steps.
usage: parity_make.py FOLDER [CASE]..."""
import os
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F
from torchrec import (EmbeddingBagCollection, EmbeddingBagConfig,
                      KeyedJaggedTensor, PoolingType)
from torchrec.models import deepfm, dlrm

TABLES = [(64, ["f0"], "sgd", 0.5), (33, ["f1", "f2"], "rowwise_adagrad", 0.02),
          (500, ["f3"], "sgd", 0.1), (128, ["f4"], "rowwise_adagrad", 0.1)]
COMMON = dict(dense=4, dim=16, maxlen=6, batch=48, steps=20, pooling="sum",
              tables=TABLES, weighted=[], tasks=[1.0], dense_opt="adam",
              dense_lr=0.01)
CASES = {
    "dcnv2": dict(model="dcnv2", seed=3, bottom=[12, 16], top=[24, 12, 1],
                  dcn_layers=3, dcn_rank=20),
    "dcnv2_tasks": dict(model="dcnv2", seed=4, bottom=[16], top=[24, 3],
                        dcn_layers=2, dcn_rank=7, pooling="mean",
                        tasks=[1.0, 0.5, 2.0]),
    "deepfm": dict(model="deepfm", seed=5, hidden=20, fm_dim=5),
    "sparsenn": dict(model="sparsenn", seed=6, bottom=[12, 8], top=[24, 1],
                     weighted=[0, 2]),
}


class SparseNN(torch.nn.Module):
    """The same arches around embeddings side by side, two collections."""

    def __init__(self, plain, weighted, c):
        super().__init__()
        self.sparse_arch = torch.nn.Module()
        self.sparse_arch.embedding_bag_collection = plain
        self.sparse_arch.weighted_embedding_bag_collection = weighted
        self.dense_arch = dlrm.DenseArch(c["dense"], c["bottom"])
        n = sum(len(t[1]) for t in c["tables"]) * c["dim"]
        self.over_arch = dlrm.OverArch(c["bottom"][-1] + n, c["top"])

    def forward(self, x, kjt):
        a = self.sparse_arch
        return self.over_arch(torch.cat([
            self.dense_arch(x), a.embedding_bag_collection(kjt).values(),
            a.weighted_embedding_bag_collection(kjt).values()], 1))


def collection(c, weighted, which):
    pool = PoolingType
    return EmbeddingBagCollection(is_weighted=weighted, tables=[
        EmbeddingBagConfig(
            name=f"t{i}", num_embeddings=t[0], feature_names=t[1],
            embedding_dim=c["dim"],
            pooling=pool.SUM if c["pooling"] == "sum" else pool.MEAN)
        for i, t in enumerate(c["tables"]) if which(i)])


def build(c):
    if c["model"] == "sparsenn":
        return SparseNN(collection(c, False, lambda i: i not in c["weighted"]),
                        collection(c, True, lambda i: i in c["weighted"]), c)
    ebc = collection(c, False, lambda i: True)
    if c["model"] == "deepfm":
        net = deepfm.SimpleDeepFMNN(c["dense"], ebc, c["hidden"], c["fm_dim"])
        net.over_arch.model[1] = torch.nn.Identity()  # logits
        return net
    return dlrm.DLRM_DCN(ebc, c["dense"], c["bottom"], c["top"],
                         c["dcn_layers"], c["dcn_rank"])


def draw(c, rng):
    n = c["batch"] * c["steps"]
    features = [f for t in c["tables"] for f in t[1]]
    weighted = [f for i in c["weighted"] for f in c["tables"][i][1]]
    rows = {f: t[0] for t in c["tables"] for f in t[1]}
    d = {"x": rng.standard_normal((n, c["dense"])).astype(np.float32),
         "y": (rng.random((n, len(c["tasks"]))) < 0.4).astype(np.float32)}
    for f in features:
        lengths = rng.integers(0, c["maxlen"] + 1, n)
        values = rng.integers(0, rows[f], lengths.sum())
        weights = rng.random(len(values)).astype(np.float32) + np.float32(0.5)
        d[f] = lengths, values, weights if f in weighted else None
    return features, d


def kjt_of(features, d, at, n):
    lengths, values, weights = [], [], []
    for f in features:
        all_lengths, v, w = d[f]
        first = all_lengths[:at].sum()
        here = all_lengths[at:at + n]
        lengths.append(here)
        values.append(v[first:first + here.sum()])
        weights.append(np.ones(here.sum(), np.float32) if w is None
                       else w[first:first + here.sum()])
    return KeyedJaggedTensor(
        features, torch.tensor(np.concatenate(values)),
        torch.tensor(np.concatenate(weights)),
        lengths=torch.tensor(np.concatenate(lengths)))


def update(param, spec, state):
    """Of a table: sgd, or one Adagrad sum a row."""
    _, _, kind, lr = spec
    if kind == "sgd":
        param.data -= lr * param.grad
        return
    state += (param.grad ** 2).mean(1)
    param.data -= lr * param.grad / (state.sqrt() + 1e-8)[:, None]


def train(net, c, features, d):
    tables = {int(k.split(".t")[1].split(".")[0]): p
              for k, p in net.named_parameters() if "embedding_bags" in k}
    dense = [p for k, p in net.named_parameters() if "embedding_bags" not in k]
    optimizer = torch.optim.Adam(dense, lr=c["dense_lr"])
    state = {i: torch.zeros(p.shape[0]) for i, p in tables.items()}
    weight, losses = torch.tensor(c["tasks"]), []
    for step in range(c["steps"]):
        at, n = step * c["batch"], c["batch"]
        net.zero_grad()
        z = net(torch.tensor(d["x"][at:at + n]), kjt_of(features, d, at, n))
        y = torch.tensor(d["y"][at:at + n])
        each = F.binary_cross_entropy_with_logits(z, y, reduction="none")
        loss = (each * weight).sum(1).mean()
        loss.backward()
        optimizer.step()
        for i, p in tables.items():
            update(p, c["tables"][i], state[i])
        losses.append(loss.item())
    return losses


def save_model(path, net):
    with h5py.File(path, "w") as f:
        f.attrs["format"], f.attrs["version"] = "tessera-checkpoint", 1
        f.attrs["step"], f.attrs["complete"] = 0, 1
        for name, w in net.state_dict().items():
            f["model/" + name] = w.numpy()


def make(folder, c):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(c["seed"])
    features, d = draw(c, np.random.default_rng(c["seed"]))
    net = build(c)
    with h5py.File(f"{folder}/data.h5", "w") as f:
        f.attrs["format"], f.attrs["version"] = "tessera-dataset", 1
        f.attrs["num_samples"] = len(d["x"])
        f["dense"] = d["x"]
        f["labels"] = d["y"][:, 0] if len(c["tasks"]) == 1 else d["y"]
        for name in features:
            lengths, values, weights = d[name]
            f[f"sparse/{name}/values"] = values
            f[f"sparse/{name}/offsets"] = np.append(0, np.cumsum(lengths))
            if weights is not None:
                f[f"sparse/{name}/weights"] = weights
    save_model(f"{folder}/init.h5", net)
    losses = train(net, c, features, d)
    save_model(f"{folder}/expect.h5", net)
    with h5py.File(f"{folder}/expect.h5", "a") as f:
        f["losses"] = np.array(losses)
        f.attrs["case"] = repr(c)
    print(folder, losses[0], losses[-1])


for case in sys.argv[2:] or CASES:
    make(f"{sys.argv[1]}/{case}", {**COMMON, **CASES[case]})
