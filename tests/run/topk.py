"""topk.py DATA CHECKPOINT ITEMS K OPTIONS.. - looks at what tests/run/topk.sh has
ranked: ITEMS, a CSV or HDF5 file of `tessera topk`, against all scores in NumPy;
prints hit rate, NDCG, MRR and recall at K of the same lists with what is wanted
among them, as src/train/ranking.h has them.  ITEMS "-": of targets among the
negatives that the data give, given=N behind each."""
import csv, sys
import h5py
import numpy as np

data, checkpoint, out, k = sys.argv[1:4] + [int(sys.argv[4])]
o = dict(by="tokens", first=0, exclude=0, normalise=0, temperature=1.0, given=0, looks=0)
o.update((a, type(o[a])(v)) for a, v in (x.split("=") for x in sys.argv[5:]))
BAGS = "model/sparse_arch.embedding_bag_collection.embedding_bags.%s.weight"
with h5py.File(checkpoint) as f:
    E = f[BAGS % "item"][()].astype(float)
    U = f[BAGS % "user"][()].astype(float) if BAGS % "user" in f else E
    P = {n: f["model/" + n][()].astype(float) for n in f["model"] if n.startswith(("before.", "looks."))}


def ids_of(text):
    return [int(x) for x in text.split("|")] if text else []


def unit(x):
    return x / max(np.linalg.norm(x), 1e-12) if o["normalise"] else x


def rows_of(seen):
    """Of the tokens, with what each sees of itself and those before it added."""
    x = E[seen]
    if not o["looks"] or not seen:
        return x
    h = x - x.mean(1, keepdims=True)
    h = h / np.sqrt((h * h).mean(1, keepdims=True) + 1e-5) * P["before.0.weight"] + P["before.0.bias"]
    q, key, v = np.split(h @ P["looks.0.weight"].T + P["looks.0.bias"], 3, axis=1)
    s = np.exp(np.where(np.tri(len(x)) > 0, q @ key.T / np.sqrt(x.shape[1]), -np.inf))
    return x + (s / s.sum(1, keepdims=True)) @ v @ P["looks.1.weight"].T + P["looks.1.bias"]


V = np.array([unit(x) for x in E])
samples = [(int(r["user"]), ids_of(r["item"]), ids_of(r["next"])) for r in csv.DictReader(open(data))]
def among_given():
    sums, n = np.zeros(3), 0
    for user, seen, ids in samples:
        groups = [ids[i:i + 1 + o["given"]] for i in range(0, len(ids), 1 + o["given"])]
        for j, group in enumerate(groups):
            q = unit(rows_of(seen)[len(seen) - len(groups) + j] if o["by"] == "tokens" else U[user])
            s = V[group] @ q
            r = (s[1:] > s[0]).sum() + 0.5 * (s[1:] == s[0]).sum()
            sums += [r < k, (r < k) / np.log2(r + 2), 1 / (r + 1)]
            n += 1
    hit, ndcg, mrr = sums / n
    print("%.4f %.5f %.5f %.4f" % (hit, ndcg, mrr, hit))


if out == "-":
    among_given()
    sys.exit()
if out.endswith(".h5"):
    with h5py.File(out) as f:
        items, scores = f["items"][()], f["scores"][()]
else:
    rows = list(csv.DictReader(open(out)))
    items = np.array([[int(r["item_%d" % i]) for i in range(k)] for r in rows])
    scores = np.array([[float(r["score_%d" % i]) for i in range(k)] for r in rows])
assert items.shape == (len(samples), k), items.shape


def ranked(user, seen, wanted):
    if o["by"] == "tokens":
        q = unit(rows_of(seen)[-1]) if seen else np.zeros(E.shape[1])
    else:
        q = unit(U[user])
    s = V @ q / o["temperature"]
    out = (set(seen) if o["exclude"] else set()) - set(wanted)
    s[list(out)] = -np.inf
    s[:o["first"]] = -np.inf
    order = sorted(range(len(s)), key=lambda i: (-s[i], i))
    return [i for i in order if s[i] > -np.inf], s


sums = np.zeros(4)
n = 0
for b, (user, seen, wanted) in enumerate(samples):
    order, s = ranked(user, seen, [])
    best = order[:k]
    for i in range(k):
        if i >= len(best):
            assert items[b][i] == -1, (b, i)
            continue
        assert abs(s[items[b][i]] - s[best[i]]) < 1e-5, (b, i, items[b], best)
        assert abs(scores[b][i] - s[best[i]]) < 1e-5 * max(1, abs(s[best[i]])), (b, i)
    assert len(set(items[b][items[b] >= 0])) == min(k, len(best)), (b, items[b])
    if not wanted:
        continue
    order, s = ranked(user, seen, wanted)
    places = [i for i in range(min(k, len(order))) if order[i] in wanted]
    different = len(set(wanted))
    n += 1
    sums += [len(places) > 0, sum(1 / np.log2(i + 2) for i in places) / sum(1 / np.log2(i + 2) for i in range(min(k, different))),
             1 / (1 + places[0]) if places else 0, len(places) / different]
print("%.4f %.5f %.5f %.4f" % tuple(sums / n))
