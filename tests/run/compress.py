"""compress.py CHECKPOINT DATA ALL POOLED: rows of tables with `compress`, as
plain Python makes them of a checkpoint's parts, beside what the layers all and
pooled of compress.sh's model gave for each line of DATA.

compress.py columns DATA: DATA with a column for each part's rows, for tables
that say what they are themselves.

compress.py same CHECKPOINT CHECKPOINT: the model's numbers are the same."""
import csv
import sys

import h5py
import numpy as np

M = (1 << 64) - 1


def rows(name):
    file = h5py.File(sys.argv[1])["model"]
    full = "sparse_arch.embedding_bag_collection.embedding_bags.%s.weight"
    return file[full % name][:].astype(float)


def projection(name):
    return h5py.File(sys.argv[1])["model"]["project@%s.0.weight" % name][:].astype(float).T


def mix(x):
    x ^= x >> 33
    x = x * 0xff51afd7ed558ccd & M
    x ^= x >> 33
    x = x * 0xc4ceb9fe1a85ec53 & M
    return x ^ x >> 33


def hashed(x, k):
    return mix(x + 0x9e3779b97f4a7c15 * (k + 1) & M) % 20


def mixed(x):
    if x < 10:
        return rows("mixed_block0")[x]
    k, first = (1, 10) if x < 100 else (2, 100)
    return rows("mixed_block%d" % k)[x - first] @ projection("mixed_block%d" % k)


def both(name, x, c):
    return rows(name + "_quotient")[x // c], rows(name + "_remainder")[x % c]


def columns(path):
    """Rows of id x in parts: None, in none of them."""
    parts = {"q7": lambda x: x // 7, "r7": lambda x: x % 7, "q9": lambda x: x // 9, "r9": lambda x: x % 9}
    for k in range(3):
        parts["h%d" % k] = lambda x, k=k: hashed(x, k)
    for k, (first, end) in enumerate(((0, 10), (10, 100), (100, 200))):
        parts["m%d" % k] = lambda x, a=first, b=end: x - a if a <= x < b else None
    out = None
    for line in csv.DictReader(open(path)):
        for f in ("a", "b", "c", "list"):
            for part, of in parts.items():
                all_of = [of(int(x)) for x in line[f].split("|")]
                line["%s_%s" % (f, part)] = "|".join(str(x) for x in all_of if x is not None)
        if not out:
            out = csv.DictWriter(sys.stdout, line.keys(), lineterminator="\n")
            out.writeheader()
        out.writerow(line)


def same(a, b):
    a, b = h5py.File(a)["model"], h5py.File(b)["model"]
    assert sorted(a) == sorted(b), (list(a), list(b))
    for name in a:
        assert a[name][:].tobytes() == b[name][:].tobytes(), name


if sys.argv[1] in ("columns", "same"):
    globals()[sys.argv[1]](*sys.argv[2:])
    sys.exit()
tables = {
    "product": lambda x: np.prod(both("product", x, 7), 0),
    "sum": lambda x: np.sum(both("sum", x, 7), 0),
    "behind": lambda x: np.concatenate(both("behind", x, 9)),
    "hashed": lambda x: sum(rows("hashed_hash%d" % k)[hashed(x, k)] for k in range(3)),
    "narrow": lambda x: rows("narrow_low_rank")[x] @ projection("narrow_low_rank"),
    "one": lambda x: rows("one_low_rank")[x] @ projection("one_low_rank"),
    "mixed": mixed,
    "tokens": lambda x: np.prod(both("tokens", x, 5), 0),
    "plain": lambda x: rows("plain")[x]}
order = "a@product list@sum a@behind b@behind list@hashed c@hashed d@narrow e@narrow " \
        "c@one list@mixed d@mixed a@plain list@plain".split()
made = [h5py.File(path)["layer"][:] for path in sys.argv[3:]]
cache = {}


def bag(name, text):
    for x in map(int, text.split("|")):
        if (name, x) not in cache:
            cache[name, x] = tables[name](x)
    all_of = [cache[name, int(x)] for x in text.split("|")]
    return np.sum(all_of, 0) / (len(all_of) if name == "sum" else 1)


worst = least = 0
for i, line in enumerate(csv.DictReader(open(sys.argv[2]))):
    want = np.concatenate([bag(table, line[f]) for f, table in (x.split("@") for x in order)])
    token = bag("tokens", line["s"])
    for x, y in ((want, made[0][i]), (token, made[1][i])):
        worst = max(worst, np.abs(x - y).max() / np.abs(x).max())
        least = max(least, np.abs(x).min())
assert len(made[0]) == i + 1
assert 0 < worst < 1e-5 and least > 0, (worst, least)
