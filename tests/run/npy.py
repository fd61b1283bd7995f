"""npy.py - files of NumPy's arrays for npy.sh.

    npy.py make FOLDER         the same samples in every way, and as HDF5
    npy.py adult FROM FOLDER   UCI Adult as arrays
    npy.py hostile FOLDER      damaged files; prints NAME, a tab, what is said of it"""
import csv, io, os, struct, sys, zipfile
import h5py
import numpy as np

HOTNESS = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]


def jagged(lengths):
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def write_h5(path, n, labels, dense, features, weights=None):
    """features: name -> (values, offsets or None, weights or None)."""
    with h5py.File(path, "w") as f:
        f.attrs["format"] = "tessera-dataset"
        f.attrs["version"] = np.int64(1)
        f.attrs["num_samples"] = np.int64(n)
        f["labels"] = np.asarray(labels, "f4")
        f["dense"] = np.asarray(dense, "f4")
        if weights is not None:
            f["sample_weights"] = np.asarray(weights, "f4")
        for name, (values, offsets, w) in features.items():
            f["sparse/%s/values" % name] = np.asarray(values, "i8")
            if offsets is not None:
                f["sparse/%s/offsets" % name] = np.asarray(offsets, "i8")
            if w is not None:
                f["sparse/%s/weights" % name] = np.asarray(w, "f4")


def own(folder, rnd):
    """Arrays of one's own: each shape of ids, and types that are not those of
    the program."""
    n = 500
    lc, ld = rnd.integers(0, 5, n), rnd.integers(0, 3, n)
    x = {
        "labels": rnd.integers(0, 2, (n, 1)).astype("i4"),
        "dense": rnd.integers(-50, 50, (n, 3)).astype("f4") / 8,
        "sample_weights": rnd.integers(0, 3, n).astype("u1"),
        "a": rnd.integers(0, 50, n).astype("i4"),
        "b": rnd.integers(0, 50, (n, 3)).astype("i8"),
        "c_values": rnd.integers(0, 50, lc.sum()).astype("u4"),
        "c_offsets": jagged(lc),
        "d_values": rnd.integers(0, 50, ld.sum()).astype("u2"),
        "d_lengths": ld.astype("i1"),
        "e": rnd.integers(0, 50, (n, 1)).astype("u8"),
        "e_weights": rnd.integers(1, 9, (n, 1)).astype("f8") / 4,
        "f": rnd.integers(0, 50, (n, 2)).astype("i2"),
        "key": np.arange(n, dtype="i8") * 10,
        "half": (rnd.integers(0, 10, n) < 3),
    }
    np.savez(folder + "/own.npz", **x)
    np.savez_compressed(folder + "/packed.npz", **x)
    for name, array in x.items():
        np.save("%s/own_%s.npy" % (folder, name), array)
    # Numbers of 32 bits, two side by side, that are no ids.
    numbers = rnd.integers(-50, 50, (n, 2)).astype("i4")
    np.savez(folder + "/pairs.npz", labels=x["labels"], dense=numbers, a=x["a"], c=x["key"] % 50)
    write_h5(folder + "/pairs.h5", n, x["labels"], numbers, {"a": (x["a"], None, None), "c": (x["key"] % 50, None, None)})
    # Two parts, cut at sample 170.
    for part, (begin, end) in enumerate([(0, 170), (170, n)]):
        y = {k: v[begin:end] for k, v in x.items() if k[:2] not in ("c_", "d_")}
        y.update(c_values=x["c_values"][jagged(lc)[begin]:jagged(lc)[end]], c_lengths=lc[begin:end],
                 d_values=x["d_values"][jagged(ld)[begin]:jagged(ld)[end]], d_offsets=jagged(ld[begin:end]).astype("u4"))
        (np.savez if part else np.savez_compressed)("%s/part-%d.npz" % (folder, part), **y)
    # Columns are arrays of their own, of other types and names.
    y = {k: v for k, v in x.items() if k not in ("dense", "labels")}
    y.update(clicked=x["labels"][:, 0].astype(bool), one=x["dense"][:, 0].astype("f2"), two=x["dense"][:, 1].astype("f8"), three=x["dense"][:, 2])
    np.savez(folder + "/columns.npz", **y)
    y = {k: v for k, v in x.items() if k != "labels"}
    np.savez(folder + "/unlabelled.npz", **y)
    write_h5(folder + "/own.h5", n, x["labels"][:, 0], x["dense"], {
        "a": (x["a"], None, None), "b": (x["b"].ravel(), np.arange(n + 1) * 3, None),
        "c": (x["c_values"], x["c_offsets"], None), "d": (x["d_values"], jagged(ld), None),
        "e": (x["e"].ravel(), None, x["e_weights"].ravel()), "f": (x["f"].ravel(), np.arange(n + 1) * 2, None)}, x["sample_weights"])


def days(folder, rnd):
    """MLPerf's preprocessed Criteo, of few samples: two days."""
    every = []
    for day, n in enumerate([130, 90]):
        labels = rnd.integers(0, 2, (n, 1)).astype("i4")
        dense = np.log1p(rnd.integers(0, 100, (n, 13))).astype("f4")
        sparse = rnd.integers(0, 40, (n, 26)).astype("i4")
        hot = {str(k): rnd.integers(0, 40, (n, HOTNESS[k])).astype("i4") for k in range(26)}
        for kind in ("one", "multi", "packed"):
            os.makedirs("%s/%s" % (folder, kind), exist_ok=True)
            at = "%s/%s/day_%d_" % (folder, kind, day)
            np.save(at + "labels.npy", labels)
            np.save(at + "dense.npy", dense)
            if kind == "one":
                np.save(at + "sparse.npy", sparse)
            else:
                (np.savez if kind == "multi" else np.savez_compressed)(at + "sparse_multi_hot.npz", **hot)
        every.append((labels, dense, sparse, hot))
    n = 220
    labels, dense, sparse = (np.concatenate([d[i] for d in every]) for i in range(3))
    write_h5(folder + "/one.h5", n, labels[:, 0], dense, {"cat_%d" % k: (sparse[:, k], None, None) for k in range(26)})
    write_h5(folder + "/multi.h5", n, labels[:, 0], dense, {
        "cat_%d" % k: (np.concatenate([d[3][str(k)] for d in every]).ravel(), np.arange(n + 1) * HOTNESS[k], None) for k in range(26)})


def adult(source, folder):
    """Words become their row by the training file: in sorted order from 1 on."""
    rows = {p: [[c.strip() for c in r] for r in csv.reader(open("%s/adult/adult.%s" % (source, p))) if r] for p in ("data", "test")}
    header = rows["data"][0]
    rows["data"] = rows["data"][1:]
    rows["test"] = rows["test"][1:] if rows["test"][0] == header else rows["test"]
    numbers = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    words = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country", "age",
             "capital-gain", "capital-loss", "hours-per-week"]
    for part, lines in rows.items():
        x = {"labels": np.array([r[header.index("income")].rstrip(".") == ">50K" for r in lines])}
        x["dense"] = np.array([[float(r[header.index(c)]) for c in numbers] for r in lines], "f8")
        for c in words:
            k = header.index(c)
            known = sorted({r[k].encode() for r in rows["data"]} - {b"?"})
            row = {w: i + 1 for i, w in enumerate(known)}
            x["id_" + c] = np.array([row.get(r[k].encode(), 0) for r in lines], "i4")
        (np.savez_compressed if part == "test" else np.savez)("%s/adult-%s.npz" % (folder, part), **x)


# ---- damaged files -----------------------------------------------------------

def header(text, data=b"", version=1):
    text = text.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def npy(array):
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def archive(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members.items():
            z.writestr(name + ".npy", data)
    return out.getvalue()


def patched(data, at, fmt, value):
    new = struct.pack(fmt, value)
    return data[:at] + new + data[at + len(new):]


def hostile(folder):
    n = 20
    good = {"labels": npy(np.arange(n, dtype="i4") % 2), "dense": npy(np.ones((n, 1), "f4")), "a": npy(np.arange(n, dtype="i4"))}
    literal = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n"

    def case(name, said, data):
        with open("%s/%s.npz" % (folder, name), "wb") as f:
            f.write(data)
        print("%s\t%s" % (name, said))

    def member(name, said, data, of="a", method=zipfile.ZIP_STORED):
        case(name, said, archive({**good, of: data}, method))

    def array(name, said, x, of="a"):
        member(name, said, npy(x), of)

    data = np.arange(n, dtype="i4").tobytes()
    case("right", "", archive(good))
    member("empty", "a is no array that can be read: it doesn't begin as one", b"")
    member("magic", "it doesn't begin as one", b"\x93NUMPX" + good["a"][6:])
    member("version", "it doesn't begin as one", patched(good["a"], 6, "B", 9))
    member("cut-header", "its header is too long, or its end missing", good["a"][:60])
    member("long-header", "its header is too long, or its end missing", b"\x93NUMPY\2\0" + struct.pack("<I", 1 << 31) + good["a"][12:])
    member("no-shape", "the header has no shape", header("{'descr': '<i4', 'fortran_order': False}\n", data))
    member("negative", "the header's shape is none", header(literal % ("<i4", "False", "(-20,)"), data))
    member("overflow", "more elements than there can be", header(literal % ("<i4", "False", "(4611686018427387904, 4)"), data))
    member("too-many", "the header's shape is none", header(literal % ("<i4", "False", "(99999999999999999999,)"), data))
    member("dims", "the header's shape is none", header(literal % ("<i4", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 20)"), data))
    member("large", "don't fill its 80 bytes of data", header(literal % ("<i4", "False", "(2000000000,)"), data))
    member("short", "don't fill its 76 bytes of data", good["a"][:-4])
    member("longer", "don't fill its 84 bytes of data", good["a"] + b"abcd")
    member("no-order", "does not say fortran_order", header("{'descr': '<i4', 'shape': (20,)}\n", data))
    member("many", "and not of so many elements", header(literal % ("<i4", "False", "(1152921504606846976, 0)")))
    array("fortran", "np.ascontiguousarray gives rows", np.asfortranarray(np.zeros((n, 2), "i4")))
    array("object", "its type is |O: astype gives one of numbers", np.array([None] * n, dtype=object))
    array("text", "its type is <U1: astype gives one of numbers", np.array(["a"] * n))
    array("structure", "its type is a structure", np.zeros(n, [("x", "i4"), ("y", "f4")]))
    array("complex", "its type is <c16", np.zeros(n, complex))
    array("big-endian", 'type >i4 is big-endian: astype("<i4") is not', np.arange(n, dtype=">i4"))
    array("floats", "of type <f4, and not of integers: astype(np.int64)", np.zeros(n, "f4"))
    array("wide", "labels is (20) of type <f16, and not of numbers", np.zeros(n, np.longdouble), "labels")
    array("text-labels", "labels is no array that can be read: its type is |S1", np.array([b"1"] * n), "labels")
    array("cube", "a is (20, 1, 1) of type <i4, and not (N) or (N, K)", np.zeros((n, 1, 1), "i4"))
    array("scalar", "a is () of type <i4, and not (N) or (N, K)", np.int32(3))
    array("fewer", "a has 19 rows, 20 are expected", np.zeros(n - 1, "i4"))
    array("fewer-dense", "dense has 21 rows, 20 are expected", np.zeros((n + 1, 1), "f4"), "dense")
    array("two-dense", "the data has 2 dense features", np.zeros((n, 2), "f4"), "dense")
    array("two-labels", "the data has 2 labels per sample", np.zeros((n, 2), "f4"), "labels")
    array("negative-id", "sample 7, feature a: id -3 is not a row", np.where(np.arange(n) == 7, -3, 0).astype("i8"))
    array("large-id", "sample 9, feature a: id 50 is not a row", np.where(np.arange(n) == 9, 50, 0).astype("u1"))
    array("huge-id", "row 3: 18446744073709551615 is no id below 2^63", (np.arange(n) == 3) * np.uint64(2**64 - 1))
    array("nan", "sample 5: dense feature 0 is not a number", np.where(np.arange(n) == 5, np.nan, 0).reshape(n, 1), "dense")
    array("label", 'sample 4: label "label" is 2, neither 0 nor 1', (np.arange(n) == 4) * 2, "labels")
    case("no-ids", "has no array a, nor a_values, nor a column of sparse for it", archive({k: v for k, v in good.items() if k != "a"}))
    case("no-labels", "has no array label", archive({k: v for k, v in good.items() if k != "labels"}))
    case("none", "has none of the arrays that the deck names", archive({"x": good["a"]}))

    def bags(name, said, **more):
        rest = {k: v for k, v in good.items() if k != "a"}
        case(name, said, archive({**rest, "a_values": npy(np.zeros(30, "i4")), **{k: npy(v) for k, v in more.items()}}))

    step = np.minimum(np.arange(n + 1) * 2, 30)
    bags("no-offsets", "a_values has neither a_offsets nor a_lengths")
    bags("few-offsets", "a_offsets has 20 rows, 21 are expected", a_offsets=step[1:])
    bags("backwards", "sample 3: offsets go backwards", a_offsets=np.where(np.arange(n + 1) == 4, 1, step))
    bags("leave", "offsets of sample 9 leave the values", a_offsets=np.where(np.arange(n + 1) == 10, 31, step))
    bags("end", "a_offsets go from 0 to 29, and there are 30 ids", a_offsets=np.where(np.arange(n + 1) == 20, 29, step))
    bags("below", "a_offsets go from -1 to 30, and there are 30 ids", a_offsets=np.where(np.arange(n + 1) == 0, -1, step))
    bags("lengths", "a_lengths add up to 20, and there are 30 ids", a_lengths=np.ones(n, "i4"))
    bags("negative-length", "a_lengths of sample 2 is -1", a_lengths=np.where(np.arange(n) == 2, -1, 1))
    bags("long-length", "a_lengths of sample 2 is 9223372036854775807", a_lengths=np.where(np.arange(n) == 2, 2**63 - 1, 1))
    bags("float-offsets", "a_offsets is (21) of type <f8, and not of integers", a_offsets=step.astype("f8"))

    z = archive(good)
    packed = archive(good, zipfile.ZIP_DEFLATED)
    end, entry = z.rfind(b"PK\5\6"), z.find(b"PK\1\2")
    last, last_packed = z.rfind(b"PK\1\2"), packed.rfind(b"PK\1\2")  # of a
    end_packed = packed.rfind(b"PK\5\6")
    case("cut", "it has no directory", z[:-5])
    case("half", "it has no directory", z[:len(z) // 2])
    case("nothing", "is empty", b"")
    case("no-zip", "it has no directory", b"x" * 500)
    case("outside", "the directory is not within the file", patched(z, end + 16, "<I", len(z)))
    case("directory-size", "the directory is not within the file", patched(z, end + 12, "<I", 0xfffffff0))
    case("entries", "the directory is too short for its members", patched(z, end + 10, "<H", 60000))
    case("entry", "an entry of the directory is none", patched(z, entry, "<I", 0))
    case("entry-name", "an entry of the directory leaves it", patched(z, last + 28, "<H", 60000))
    case("crc", "its checksum is wrong", patched(z, z.find(data), "<i", 1))
    case("crc-packed", "its checksum is wrong", patched(packed, last_packed + 16, "<I", 7))
    case("deflate", "member a.npy can't be read", packed[:entry - 1500 if entry > 5000 else packed.find(b"a.npy") + 8] + b"\xff" * 30 + packed[packed.find(b"a.npy") + 38:])
    case("size", "its packed bytes are not of the size that it says", patched(z, last + 24, "<I", 100))
    case("packed-size", "it is not within the file", patched(z, last + 20, "<I", 1 << 20))
    case("place", "it does not begin where the directory says", patched(z, last + 42, "<I", 1 << 30))
    case("place-inside", "it does not begin where the directory says", patched(z, last + 42, "<I", 5))
    case("bomb", "its packed bytes are not of the size that it says", patched(packed, last_packed + 24, "<I", 0xfffffffe))
    case("size-more", "it unpacks to another size than it says", patched(packed, last_packed + 24, "<I", 1000))
    case("size-less", "it unpacks to another size than it says", patched(packed, last_packed + 24, "<I", 150))
    zeros = archive({**good, "a": npy(np.zeros(5000000, "i4"))}, zipfile.ZIP_DEFLATED)
    case("zeros", "a has 5000000 rows, 20 are expected", zeros)
    lie = archive({**good, "a": header(literal % ("<i4", "False", "(20,)"), data + bytes(5000))}, zipfile.ZIP_DEFLATED)
    real = len(header(literal % ("<i4", "False", "(20,)"), data))
    case("unpacks-to-more", "it unpacks to another size than it says", patched(lie, lie.rfind(b"PK\1\2") + 24, "<I", real))
    case("method", "it is packed in another way", archive(good, zipfile.ZIP_BZIP2))
    case("encrypted", "it is encrypted", patched(z, last + 8, "<H", 1))
    twice = z[:end] + z[last:end] + patched(patched(z[end:], 10, "<H", 4), 12, "<I", end - entry + end - last)
    case("twice", "has two members a.npy", twice)
    case("zip64", "a size of zip64 is missing", patched(z, last + 24, "<I", 0xffffffff))
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, 1 << 60, 1)
    case("locator", "the directory's end (zip64) is not where it says", z[:end] + locator + z[end:])
    record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 3, 3, 1 << 62, 1 << 62)
    case("zip64-directory", "the directory is not within the file", z[:end] + record + struct.pack("<4sIQI", b"PK\6\7", 0, end, 1) + z[end:])
    # A right one with numbers of 64 bits.
    record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 3, 3, end - entry, entry)
    ones = patched(patched(patched(z[end:], 10, "<H", 0xffff), 12, "<I", 0xffffffff), 16, "<I", 0xffffffff)
    case("right-zip64", "", z[:end] + record + struct.pack("<4sIQI", b"PK\6\7", 0, end, 1) + ones)


if sys.argv[1] == "make":
    rnd = np.random.default_rng(5)
    own(sys.argv[2], rnd)
    days(sys.argv[2], rnd)
elif sys.argv[1] == "adult":
    adult(sys.argv[2], sys.argv[3])
else:
    hostile(sys.argv[2])
