"""serve.py FILE - scores lines of standard input by a file of `tessera export
--format serve`: a line has the dense numbers, then a word or id of each feature
("|" between several), parted by commas, in the order that is printed first.
TESSERA_SERVE names the library where it is not in a usual place."""
import ctypes as C
import os
import sys


class Bags(C.Structure):
    _fields_ = [("ids", C.c_void_p), ("words", C.POINTER(C.c_char_p)), ("weights", C.c_void_p),
                ("offsets", C.POINTER(C.c_int64)), ("n_ids", C.c_int64), ("same", C.c_int32)]


class Batch(C.Structure):
    _fields_ = [("n", C.c_int32), ("dense", C.POINTER(C.c_float)), ("same_dense", C.c_int32), ("features", C.POINTER(Bags))]


serve = C.CDLL(os.environ.get("TESSERA_SERVE", "libtessera_serve.so.1"))
for name in "error", "feature", "output":
    getattr(serve, "tserve_" + name).restype = C.c_char_p
check = lambda code: code and sys.exit(serve.tserve_error().decode())
model, scorer = C.c_void_p(), C.c_void_p()
check(serve.tserve_open(C.byref(model), sys.argv[1].encode()))
check(serve.tserve_scorer_open(C.byref(scorer), model, 64, 1))
n_dense, n_features, n_outputs = (getattr(serve, "tserve_n_" + x)(model) for x in ("dense", "features", "outputs"))
print(f"{n_dense} numbers,", *(serve.tserve_feature(model, f).decode() for f in range(n_features)), file=sys.stderr)
lines = [line.rstrip("\n").split(",") for line in sys.stdin]
numbers = [float(x or "nan") for line in lines for x in line[:n_dense]]
bags = (Bags * n_features)()
for f in range(n_features):
    words = [line[n_dense + f].encode().split(b"|") for line in lines]
    ends = [sum(map(len, words[:i])) for i in range(len(lines) + 1)]
    bags[f] = Bags(words=(C.c_char_p * ends[-1])(*sum(words, [])), offsets=(C.c_int64 * len(ends))(*ends), n_ids=ends[-1])
scores = (C.c_float * (len(lines) * n_outputs))()
check(serve.tserve_score(scorer, C.byref(Batch(len(lines), (C.c_float * len(numbers))(*numbers), 0, bags)), scores))
for i in range(len(lines)):
    print(*scores[i * n_outputs:(i + 1) * n_outputs])
