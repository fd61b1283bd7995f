"""items.py DATA CHECKPOINT LOSS STEPS OUT KEY=VALUE.. - what tests/run/items.sh
trains, in double: an output over items whose vectors are the embeddings of the
tokens before them (`in` a feature of the table itself) or those of a sample's
user, SGD, from the tables of CHECKPOINT.  Negatives are drawn as io/targets.h
says.  Writes the losses to OUT.txt and the tables to OUT.npz."""
import csv, sys
import h5py
import numpy as np
from negatives import alias, draw, hidden

data, checkpoint, loss, n_steps, out = sys.argv[1:4] + [int(sys.argv[4]), sys.argv[5]]
o = dict(negatives=3, temperature=1.0, normalise=False, margin=0.9, weight=1.0, first=0, exclude="", log_q=0, frequency=0, together=0, masked=0.0, mask=0, by="tokens", seed=7,
         batch=16, lr=0.5)
o.update((k, type(o[k])(eval(v)) if not isinstance(o[k], str) else v) for k, v in (x.split("=") for x in sys.argv[6:]))
def sp(x):
    return np.logaddexp(0, x)


def sg(x):
    return 1 / (1 + np.exp(-x))


def pair(s, ids):  # the loss of scores s, and its derivatives
    n, g = len(s) - 1, np.zeros(len(s))
    on = np.array([k > 0 and ids[k] != ids[0] for k in range(n + 1)])
    if loss == "sampled_bce":
        g[0], g[on] = -sg(-s[0]), sg(s[on]) / n
        return sp(-s[0]) + sp(s[on]).sum() / n, g
    if loss == "bpr":
        g[on] = sg(s[on] - s[0]) / n
        g[0] = -g[on].sum()
        return sp(s[on] - s[0]).sum() / n, g
    if loss in ("sampled_softmax", "full_softmax"):
        on[0] = True
        e = np.exp(s[on] - s.max())
        g[on] = e / e.sum()
        g[0] -= 1
        return np.log(e.sum()) + s.max() - s[0], g
    on &= s > o["margin"]
    g[0], g[on] = -1, o["weight"] / n
    return 1 - s[0] + o["weight"] / n * (s[on] - o["margin"]).sum(), g


def ids_of(text):
    return [int(x) for x in text.split("|")] if text else []


BAGS = "sparse_arch.embedding_bag_collection.embedding_bags.%s.weight"
with h5py.File(checkpoint) as f:
    E, U = (np.array(f["model"][BAGS % k], dtype=float) if BAGS % k in f["model"] else np.zeros((1, 1)) for k in ("item", "user"))
rows = len(E)
samples = [(int(r["user"]), ids_of(r["item"]), ids_of(r["next"]), None) for r in csv.DictReader(open(data))]
counts = np.bincount([v for s in samples for v in (s[1] if o["masked"] else s[2])], minlength=rows)
law = alias([int(c) for c in counts[o["first"]:]]) if o["frequency"] else None
if law:  # entries, two words each, give an item its share
    share = np.bincount(law[1], [1 - k / 2**32 for k in law[0]], len(law[0])) + np.array(law[0]) / 2**32
    assert abs(share / len(share) - counts[o["first"]:] / counts[o["first"]:].sum()).max() < 1e-8
log_q = np.log(np.where(counts > 0, counts, 0.5) / counts[o["first"]:].sum()) * o["log_q"]
with open(out + ".txt", "w") as losses:
    per = -(-len(samples) // o["batch"])
    for step in range(n_steps):
        epoch, first = step // per, step % per * o["batch"]
        part = [(u, i, [i[k] for k in at], at) for b, (u, i, _, _) in enumerate(samples[first:first + o["batch"]])
                for at in [hidden(o["seed"], epoch, first + b, len(i), o["masked"])]] if o["masked"] else samples[first:first + o["batch"]]
        n = sum(len(s[2]) for s in part)
        dE, dU, total = np.zeros_like(E), np.zeros_like(U), 0
        for b, (user, items, nexts, at) in enumerate(part):
            barred = set(nexts) | (set(items) if o["by"] == "tokens" else set()) if o["exclude"] else set()
            for j, wanted in enumerate(nexts):
                ids = [wanted] + ([v for v in range(o["first"], rows) if v != wanted] if loss == "full_softmax" else
                                  [v for s in part for v in s[2] if v != wanted] if o["together"] else
                                  draw(o["seed"], epoch, first + b, j, wanted, barred, o["first"], rows, o["negatives"], law))
                table, row, grad = (E, o["mask"] if at else items[len(items) - len(nexts) + j], dE) if o["by"] == "tokens" else (U, user, dU)
                q, e = table[row], E[ids]
                nq, ne = (np.linalg.norm(q), np.linalg.norm(e, axis=1)) if o["normalise"] else (1.0, np.ones(len(ids)))
                s = e @ q / (nq * ne) / o["temperature"] - log_q[ids]
                x, g = pair(s, ids)
                total += x
                g = g / (n * o["temperature"])
                dq, de = g @ (e / ne[:, None]), np.outer(g, q / nq)
                if o["normalise"]:
                    u, v = q / nq, e / ne[:, None]
                    dq = (dq - u * (u @ dq)) / nq
                    de = (de - v * (v * de).sum(1)[:, None]) / ne[:, None]
                grad[row] += dq
                np.add.at(dE, ids, de)
        E -= o["lr"] * dE
        U -= o["lr"] * dU
        losses.write("%.10g\n" % (total / n if n else 0))
np.savez(out, item=E, user=U)
