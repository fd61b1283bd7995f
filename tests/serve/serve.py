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
