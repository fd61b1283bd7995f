"""item_tower.py WORK ITEMS K - looks at what tests/run/item_tower.sh has ranked:
ITEMS, of `tessera topk`, against all scores of who.h5 and item.h5, the vectors of
a.csv's users and of all.csv's items, in NumPy; prints hit rate, NDCG, MRR and
recall at K of the same lists with what is wanted among them."""
import csv, sys
import h5py
import numpy as np

work, name, k = sys.argv[1], sys.argv[2], int(sys.argv[3])


def vectors(name):
    with h5py.File(f"{work}/{name}") as f:
        x = f["layer"][()].astype(float)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


samples = list(csv.DictReader(open(work + "/a.csv")))
ids = np.array([int(r["next"]) for r in csv.DictReader(open(work + "/all.csv"))])
Q, V = vectors("who.h5"), vectors("item.h5")
V, ids = V[ids >= 2], ids[ids >= 2]
with h5py.File(f"{work}/{name}") as f:
    items, scores = f["items"][()], f["scores"][()]
assert items.shape == (len(samples), k) and len(set(ids)) == len(ids) > 50


def ranked(q, out):
    kept = ~np.isin(ids, list(out))
    s = V[kept] @ q / 0.2
    at = np.lexsort((ids[kept], -s))[:k]
    return ids[kept][at], s[at]


sums = np.zeros(4)
for r, q, got, score in zip(samples, Q, items, scores):
    seen = {int(x) for x in r["seen"].split("|") if x}
    want, s = ranked(q, seen)
    assert np.allclose(score, s, atol=2e-5), (score, s)
    assert set(got) == set(want) or np.abs(np.diff(s)).min() < 1e-4, (got, want)
    wanted = int(r["next"])
    found = list(ranked(q, seen - {wanted})[0])
    if wanted in found:
        at = found.index(wanted)
        sums += [1, 1 / np.log2(at + 2), 1 / (at + 1), 1]
sums /= len(samples)
assert sums[0] > 0.1, sums
print("%.4f %.5f %.5f %.4f" % tuple(sums))
