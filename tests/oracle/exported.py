"""Weights that tessera has trained and exported under TorchRec's names, loaded
strictly by PyTorch modules of these names: their predictions are tessera's to
1e-6.  What PyTorch saves of them jobs/from_torch turns into the same tensors,
to the bit.  jobs/oracle calls it; nothing of it is kept."""
import json
import os
import struct
import subprocess
import sys
import tempfile

import h5py
import torch
import torch.distributed.checkpoint as dcp
from torch import nn

import make

FROM_TORCH = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "..", "..", "jobs", "from_torch")

DIM = 4
MODELS = {
    "dlrm": "dense_arch = [8, 4]; over_arch = [8, 6, 1];",
    "dcnv2": "dense_arch = [8, 5]; over_arch = [8, 6, 1]; "
             "dcn = { layers = 2; rank = 3; };",
    "deepfm": 'deepfm = { hidden = 7; fm_dim = 5; fm = "flat"; };',
}


def mlp(widths):
    """TorchRec's MLP: ReLU on all."""
    return nn.ModuleDict({"_mlp": nn.ModuleList(
        nn.ModuleDict({"_linear": nn.Linear(a, b)})
        for a, b in zip(widths, widths[1:]))})


def run(layers, x):
    for layer in layers["_mlp"]:
        x = layer["_linear"](x).relu()
    return x


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        n, fields = make.DENSE, len(make.ROWS)
        bags = nn.ModuleDict({t: nn.EmbeddingBag(rows, DIM)
                              for t, rows, _ in make.TABLES})
        self.sparse_arch = nn.ModuleDict(
            {"embedding_bag_collection": nn.ModuleDict({"embedding_bags": bags})})
        self.kind = kind
        if kind == "deepfm":
            below = nn.Sequential(nn.Linear(n, 7), nn.ReLU(), nn.Linear(7, DIM),
                                  nn.ReLU())
            deep = nn.Sequential(nn.Linear(DIM * (fields + 1), 5), nn.ReLU())
            self.inter_arch = nn.ModuleDict(
                {"deep_fm": nn.ModuleDict({"dense_module": deep})})
            above = nn.Sequential(nn.Linear(DIM + 5 + 1, 1))
        else:
            width = DIM + (fields + 1) * fields // 2
            if kind == "dcnv2":
                width = 5 + DIM * fields
                cross = {"W_kernels": (width, 3), "V_kernels": (3, width),
                         "bias": (width,)}
                self.inter_arch = nn.ModuleDict({"crossnet": nn.ModuleDict({
                    k: nn.ParameterList(torch.empty(s) for _ in range(2))
                    for k, s in cross.items()})})
            below = mlp([n, 8, 5 if kind == "dcnv2" else DIM])
            above = nn.ModuleList([mlp([width, 8, 6]), nn.Linear(6, 1)])
        self.dense_arch = nn.ModuleDict({"model": below})
        self.over_arch = nn.ModuleDict({"model": above})

    def forward(self, x, counts):
        bags = self.sparse_arch["embedding_bag_collection"]["embedding_bags"]
        e = [counts[f] @ bags[t].weight for t, _, fs in make.TABLES for f in fs]
        below, above = self.dense_arch["model"], self.over_arch["model"]
        if self.kind == "deepfm":
            b = below(x)
            flat = torch.cat([b] + e, 1)
            deep = self.inter_arch["deep_fm"]["dense_module"](flat)
            fm = (flat.sum(1) ** 2 - (flat ** 2).sum(1)) / 2
            return above(torch.cat([b, deep, fm[:, None]], 1))
        b = run(below, x)
        if self.kind == "dcnv2":
            x0 = y = torch.cat([b] + e, 1)
            c = self.inter_arch["crossnet"]
            for w, v, bias in zip(c["W_kernels"], c["V_kernels"], c["bias"]):
                y = x0 * (y @ v.T @ w.T + bias) + y
        else:
            v = torch.stack([b] + e, 1)
            i, j = torch.triu_indices(len(e) + 1, len(e) + 1, 1)
            y = torch.cat([b, (v @ v.transpose(1, 2))[:, i, j]], 1)
        return above[1](run(above[0], y))


def read(folder):
    """What safetensors' own reader would give."""
    tensors, index = {}, f"{folder}/model.safetensors.index.json"
    where = None
    if os.path.exists(index):
        with open(index) as f:
            where = json.load(f)["weight_map"]
    for name in set(where.values()) if where else ["model.safetensors"]:
        with open(f"{folder}/{name}", "rb") as f:
            header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            data = bytearray(f.read())
        for key, t in header.items():
            if key != "__metadata__":
                assert t["dtype"] == "F32" and (not where or where[key] == name)
                a, z = t["data_offsets"]
                tensors[key] = torch.frombuffer(
                    data[a:z], dtype=torch.float32).reshape(t["shape"])
    assert not where or tensors.keys() == where.keys()
    return tensors


def check_saved(state, folder):
    """STATE by torch.save, wrapped, and by DCP."""
    torch.save({"model": {"module.model." + k: v for k, v in state.items()}},
               f"{folder}/x.pt")
    dcp.save({"model": state}, checkpoint_id=f"{folder}/dcp")
    for path in ("x.pt", "dcp"):
        subprocess.run([sys.executable, FROM_TORCH, f"{folder}/{path}",
                        f"{folder}/{path}-w"], check=True, capture_output=True)
        back = read(f"{folder}/{path}-w")
        assert back.keys() == state.keys()
        assert all(torch.equal(back[k], state[k]) for k in state), path


def check(tessera, data):
    """Returns the largest difference."""
    x, counts, _ = make.read_data(data)
    far = 0
    for kind, sizes in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            text = make.deck(kind, make.case(make.models.Pnn, dim=DIM))
            dense = f"dense_features = {make.DENSE};"
            with open(f"{folder}/x.deck", "w") as f:
                f.write(text.replace(dense, f"{dense} {sizes}")
                        .replace(f'"sgd"; lr = {make.LR}', '"adam"; lr = 0.02'))
            for words in (["train"], ["export", "--out", f"{folder}/w", "--names",
                                      "torchrec", "--max-file", "900"],
                          ["predict", "--out", f"{folder}/p.h5"]):
                subprocess.run(
                    [tessera, words[0], f"{folder}/x.deck", *words[1:], "--quiet",
                     "--set", "run.steps=200", "--set",
                     f"run.output={folder}/run", "--set",
                     f"data.train={data}", "--set", f"data.eval={data}"],
                    check=True)
            model = Model(kind)
            model.load_state_dict(read(f"{folder}/w"))
            check_saved(model.state_dict(), folder)
            y = model.double()(x, counts).sigmoid().reshape(-1)
            with h5py.File(f"{folder}/p.h5") as f:
                p = torch.tensor(f["predictions"][:], dtype=torch.float64)
            assert len(p) == len(y) and p.max() - p.min() > 0.1
            far = max(far, (p.reshape(-1) - y).abs().max().item())
    return far
