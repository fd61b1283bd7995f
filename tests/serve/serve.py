"""serve.py - libtessera_serve by ctypes, for tests: CSV files become batches.

    serve.py LIB FILE predict CSV [SEPARATOR]   scores of all lines, one a line
"""
import ctypes as C
import math
import sys


class Bags(C.Structure):
    _fields_ = [("ids", C.POINTER(C.c_int64)), ("words", C.POINTER(C.c_char_p)),
                ("weights", C.POINTER(C.c_float)),
                ("offsets", C.POINTER(C.c_int64)), ("n_ids", C.c_int64),
                ("same", C.c_int32)]


class Batch(C.Structure):
    _fields_ = [("n", C.c_int32), ("dense", C.POINTER(C.c_float)),
                ("same_dense", C.c_int32), ("features", C.POINTER(Bags))]


class Failed(Exception):
    pass


class Serve:
    def __init__(self, lib, path, n_max=64, threads=1):
        self.lib = C.CDLL(lib)
        for name in ("error", "feature", "output"):
            getattr(self.lib, "tserve_" + name).restype = C.c_char_p
        for name in ("rows", "step"):
            getattr(self.lib, "tserve_" + name).restype = C.c_int64
        self.model, self.scorer = C.c_void_p(), C.c_void_p()
        self.check(self.lib.tserve_open(C.byref(self.model), path.encode()))
        self.check(self.lib.tserve_scorer_open(C.byref(self.scorer), self.model,
                                               n_max, threads))
        self.features = [self.lib.tserve_feature(self.model, i).decode()
                         for i in range(self.lib.tserve_n_features(self.model))]
        self.n_outputs = self.lib.tserve_n_outputs(self.model)

    def check(self, code):
        if code:
            raise Failed(f"{code}: {self.lib.tserve_error().decode()}")

    def update(self, path):
        self.check(self.lib.tserve_update(self.model, path.encode()))

    def step(self):
        return self.lib.tserve_step(self.model)

    def batch(self, n, dense, features):
        """dense: rows of numbers; features: of each lists of ids, words or
        (id, weight), one a sample, or ("same", list)."""
        keep, bags = [], (Bags * max(1, len(features)))()
        for b, lists in zip(bags, features):
            if isinstance(lists, tuple):
                b.same, lists = 1, [lists[1]]
            flat = [x for one in lists for x in one]
            weights = [x[1] for x in flat if isinstance(x, tuple)]
            ids = [x[0] if isinstance(x, tuple) else x for x in flat]
            at = [0]
            for one in lists:
                at.append(at[-1] + len(one))
            kind = C.c_char_p if ids and isinstance(ids[0], str) else C.c_int64
            values = [x.encode() for x in ids] if kind is C.c_char_p else ids
            arrays = [(kind * (len(ids) + 1))(*values), (C.c_int64 * len(at))(*at),
                      (C.c_float * (len(weights) + 1))(*weights)]
            keep.append(arrays)
            if kind is C.c_char_p:
                b.words = arrays[0]
            else:
                b.ids = arrays[0]
            b.offsets, b.n_ids = arrays[1], len(ids)
            if weights:
                b.weights = arrays[2]
        flat = [x for row in dense for x in row]
        numbers = (C.c_float * (len(flat) + 1))(*flat)
        keep += [bags, numbers]
        return Batch(n, numbers, int(len(dense) == 1 and n > 1), bags), keep

    def score(self, n, dense, features):
        batch, keep = self.batch(n, dense, features)
        out = (C.c_float * (n * self.n_outputs + 1))()
        self.check(self.lib.tserve_score(self.scorer, C.byref(batch), out))
        return [list(out[i * self.n_outputs:(i + 1) * self.n_outputs])
                for i in range(n)]

    def items(self, n, features, output, items, n_items):
        batch, keep = self.batch(n, [], features)
        out = (C.c_float * (n * n_items))()
        ids = (C.c_int64 * n_items)(*items) if items else None
        self.check(self.lib.tserve_items(self.scorer, C.byref(batch), output, ids,
                                         C.c_int64(n_items), out))
        return [list(out[i * n_items:(i + 1) * n_items]) for i in range(n)]

    def vectors(self, n, dense, features, output, items):
        batch, keep = self.batch(n, dense, features)
        dim = self.lib.tserve_vector_dim(self.model, output)
        out = (C.c_float * (n * dim))()
        self.check(self.lib.tserve_vectors(self.scorer, C.byref(batch), output,
                                           items, out))
        return [list(out[i * dim:(i + 1) * dim]) for i in range(n)]

    def close(self):
        self.lib.tserve_scorer_close(self.scorer)
        self.lib.tserve_close(self.model)


def number(text, missing=("", "?")):
    return math.nan if text in missing else float(text)


def read_csv(path, separator=","):
    with open(path) as f:
        lines = [line.rstrip("\n").split(separator) for line in f if line.strip()]
    head = [x.strip() for x in lines[0]]
    return [dict(zip(head, [x.strip() for x in line])) for line in lines[1:]]


# ---- commands ---------------------------------------------------------------


def inputs(s, rows, separator="|"):
    """Of oracle's data: numbers x0 and so on; a feature's column has its name,
    with ids, words or id:weight, and | between them."""
    n_dense = s.lib.tserve_n_dense(s.model)
    dense = [[number(r[f"x{d}"]) for d in range(n_dense)] for r in rows]
    return dense, [[[x for x in r[f].split(separator) if x] for r in rows]
                   for f in s.features]


def predict(s, path, predictions, most):
    import h5py
    rows = read_csv(path)
    got = s.score(len(rows), *inputs(s, rows))
    with h5py.File(predictions) as f:
        want = f["predictions"][:].reshape(len(rows), -1).tolist()
    far = max(abs(a - b) for x, y in zip(got, want) for a, b in zip(x, y))
    assert len(got) == len(rows) and far <= float(most), far
    # one sample is every sample's
    dense, features = inputs(s, rows[:1])
    one = s.score(3, dense, [("same", f[0]) for f in features])
    assert one[0] == one[1] == one[2], one
    assert max(abs(a - b) for a, b in zip(one[0], got[0])) <= float(most), (one, got[0])


def topk(s, path, best):
    rows = read_csv(path)
    dense, features = inputs(s, rows)
    n = s.lib.tserve_rows(s.model, s.features.index("next"))
    scores = s.items(len(rows), features, 0, None, n)
    assert scores == s.items(len(rows), features, 0, list(range(n)), n)
    found = 0
    for own, line in zip(scores, read_csv(best)):
        for i in range(5):
            item = line[f"item_{i}"]
            if item and int(item) >= 0:
                assert abs(own[int(item)] - float(line[f"score_{i}"])) < 1e-5, line
                found += 1
    assert found > len(rows)


def tower_items(s, path, items):
    """Lines of one candidate each, the next ones in turn."""
    rows = read_csv(path)
    with open(items, "w") as f:
        f.write(",".join(rows[0]) + "\n")
        for i, r in enumerate(rows[:12]):
            f.write(",".join([*(dict(r, candidate=str(i + 3)).values())]) + "\n")


def tower(s, path, best):
    """Vectors that layers make, of both sides, compared as topk has."""
    rows, items = read_csv(path), read_csv("items.csv")
    users = s.vectors(len(rows), *inputs(s, rows), 0, 0)
    made = s.vectors(len(items), *inputs(s, items), 0, 1)
    score = {int(r["candidate"]): v for r, v in zip(items, made)}
    found = 0
    for u, line in zip(users, read_csv(best)):
        for i in range(5):
            v = score[int(line[f"item_{i}"])]
            own = sum(a * b for a, b in zip(u, v)) / 0.1
            assert abs(own - float(line[f"score_{i}"])) < 1e-4, (own, line)
            found += 1
    assert found == 5 * len(rows)


# ---- the rules of ids, words and numbers --------------------------------------


def rules_data(s, path):
    import random
    r = random.Random(3)
    words, some = ["red", "blue", "green", "NA", "", "rare"], lambda a: r.choice(a)
    with open(path, "w") as f:
        f.write("label,x0,x1,x2,x3,word,hashed,number,bucket,time,list,weighted,plain\n")
        for i in range(120):
            number = some(["7", "-3", "-1", "18446744073709551610", "45", "NA", "123456789012"])
            time = some(["NA", f"2024-01-{i % 28 + 1:02d} {some(['03', '10', '23'])}:00:00"])
            items = some(["", "NA", "a", "a|b", "a||c", "NA|b", "c|b|a|d", "d|a"])
            weighted = some(["", "p:0.5", "q", "NA", "p:2", "r:0"])
            x = [some(["", "NA", f"{r.random() * 9:.3f}", "2", "0"]) for _ in range(4)]
            f.write(",".join([str(i % 2), *x, some(words), some(["u", "v", "NA", "w,"[:1], "-1"]), number,
                              some(["", "NA", f"{r.random():.2f}"]), time, items, weighted, some(["0", "8", "5", "5"])]) + "\n")


def rules(s, path, predictions, most="1e-6", delta=None):
    import h5py
    rows = read_csv(path)
    if delta:
        s.update(delta)

    def one(r, name):
        if name == "both":
            return [r["word"] + "\t" + r["hashed"]]
        if name == "hour":
            return [r["time"]]
        if name in ("list", "last", "places"):
            return [] if r["list"] in ("", "NA", "-1", "8") else r["list"].split("|")
        if name == "weighted":
            word, _, w = r[name].partition(":")
            return [(word, float(w) if w else 1.0)]
        return [r[name]]
    dense = [[number(r[f"x{d}"], ("", "NA", "-1", "8")) for d in range(4)] for r in rows]
    features = [[one(r, name) for r in rows] for name in s.features]
    want = h5py.File(predictions)["predictions"][:].tolist()
    got = [x[0] for x in s.score(len(rows), dense, features)]
    bad = [(i, a, b) for i, (a, b) in enumerate(zip(got, want)) if abs(a - b) > float(most)]
    assert len(want) == len(got) == 120 and not bad, (bad[0], rows[bad[0][0]], len(bad))
    # numbers that the words are
    at = s.features.index("number")
    small = [r for r in rows if r["number"] in ("7", "-3", "-1", "45")]
    parts = [[one(r, name) for r in small] for name in s.features]
    d = [[number(r[f"x{k}"], ("", "NA", "-1", "8")) for k in range(4)] for r in small]
    words = s.score(len(small), d, parts)
    parts[at] = [[int(r["number"])] for r in small]
    assert words == s.score(len(small), d, parts)
    plain = s.features.index("plain")
    parts[plain] = [[int(r["plain"])] for r in small]
    assert words == s.score(len(small), d, parts)


def dataset_data(s, path):
    import h5py, random
    r = random.Random(5)
    n, ids, at = 120, [], [0]
    for i in range(n):
        ids += [r.choice([3, 17, 59, 60, 1 << 40, 5, -2]) for _ in range(r.randrange(4))]
        at.append(len(ids))
    with h5py.File(path, "w") as f:
        f.attrs["format"], f.attrs["version"], f.attrs["num_samples"] = "tessera-dataset", 1, n
        f["labels"] = [[float(i % 2)] for i in range(n)]
        f["dense"] = [[r.random()] for _ in range(n)]
        f["sparse/f/values"], f["sparse/f/offsets"] = ids, at
        f["sparse/g/values"] = [r.randrange(100) for _ in range(n)]
        for name in ("labels", "dense"):
            data = f[name][:].astype("f4")
            del f[name]
            f[name] = data


def dataset(s, path, predictions):
    import h5py
    with h5py.File(path) as f:
        n, at, ids = len(f["labels"]), f["sparse/f/offsets"][:], f["sparse/f/values"][:].tolist()
        lists = [[ids[at[i]:at[i + 1]] for i in range(n)], [[int(x)] for x in f["sparse/g/values"][:]]]
        dense = f["dense"][:].tolist()
    want = h5py.File(predictions)["predictions"][:].tolist()
    got = [x[0] for x in s.score(n, dense, lists)]
    bad = [(i, a, b, lists[0][i]) for i, (a, b) in enumerate(zip(got, want)) if abs(a - b) > 1e-6]
    assert not bad, (bad[0], len(bad))


def main():
    lib, path, command, *rest = sys.argv[1:]
    s = Serve(lib, path)
    if command == "is_items":
        sys.exit(s.lib.tserve_vector_dim(s.model, 0) == 0)
    globals()[command](s, *rest)
    s.close()


if __name__ == "__main__":
    main()
