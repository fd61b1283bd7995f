"""dynamic.py - tables of any 64-bit id, as they are served and written: for
tests/run/dynamic_serve.sh.

    dynamic.py COMMAND ...
"""
import csv
import json
import struct
import sys

MASK = (1 << 64) - 1


def key(i):
    """murmur3's finaliser, by which rows stand."""
    x = i & MASK
    for by in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        x = (x ^ x >> 33) * by & MASK
    return x ^ x >> 33


def read_tensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__")
    return {name: (t["dtype"], t["shape"], raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in header.items()}


def exported(folder, checkpoint):
    """Tensors are as the checkpoint has them, ids in the order of rows."""
    import h5py
    import numpy as np
    got = {**read_tensors(folder + "/model.safetensors"), **read_tensors(folder + "/state.safetensors")}
    n_ids = 0
    with h5py.File(checkpoint) as f:
        for table in f["dynamic"]:
            for name in f["dynamic/" + table]:
                dtype, shape, raw = got[f"dynamic/{table}/{name}"]
                want = f[f"dynamic/{table}/{name}"][:]
                assert dtype == "I64" and shape == [len(want)] and raw == want.tobytes()
            ids = f[f"dynamic/{table}/ids"][:].tolist()
            assert ids == sorted(ids, key=key)
            rows = [s for n, (_, s, _) in got.items() if n.endswith(f".{table}.weight")]
            assert rows and rows[0][0] == len(ids), (table, rows)
            n_ids += len(ids)
        name = "sparse_arch.embedding_bag_collection.embedding_bags.user.weight"
        assert np.array_equal(np.frombuffer(got[name][2], "f4"), f["model/" + name][:].ravel())
    assert n_ids > 0


def embeddings(path, checkpoint, table):
    """A file of ids and vectors has those of the checkpoint, in its order."""
    import h5py
    import numpy as np
    with h5py.File(checkpoint) as f:
        ids = f[f"dynamic/{table}/ids"][:].tolist()
        rows = f[f"model/sparse_arch.embedding_bag_collection.embedding_bags.{table}.weight"][:].astype("f4")
    if path.endswith(".h5"):
        with h5py.File(path) as f:
            group = f["embeddings/" + table]
            own, vectors = group["ids"][:].tolist(), group["vectors"][:]
    else:
        lines = list(csv.reader(open(path)))
        assert lines[0][:2] == ["id", "e0"], lines[0]
        own = [int(x[0]) for x in lines[1:]]
        vectors = np.array([x[1:] for x in lines[1:]], dtype="f4")
    assert own == ids and np.array_equal(vectors, rows), (own, ids)


def same_rows(plain, dynamic):
    """Of the ids that the second file has, the first, of a plain table whose
    rows are ids, has the same."""
    rows = {x[0]: x[1:] for x in csv.reader(open(plain))}
    ids = {x[0]: x[1:] for x in csv.reader(open(dynamic))}
    rows.pop("row"), ids.pop("id")
    assert ids and all(rows[k] == x for k, x in ids.items())


def numbers(s, path, delta=None):
    """Ids as numbers are those as words; unknown ones are alike, and as none in
    a list that is summed; the table's ids are told."""
    import serve
    if delta:
        s.update(delta)
    rows = serve.read_csv(path)
    dense, features = serve.inputs(s, rows)
    words = s.score(len(rows), dense, features)
    assert words == s.score(len(rows), dense, [[[int(x) for x in one] for one in f] for f in features])
    user = s.features.index("user")
    n = s.lib.tserve_rows(s.model, user)
    s.lib.tserve_id.restype = serve.C.c_int64
    ids = [s.lib.tserve_id(s.model, user, serve.C.c_int64(k)) for k in range(n)]
    assert len(set(ids)) == n and ids == sorted(ids, key=key)
    one = [f[:1] for f in features]
    unknown = []
    for x in (5, -6, 1 << 62, -(1 << 63) + 9):
        assert x not in ids
        one[user] = [[x]]
        unknown.append(s.score(1, dense[:1], one))
    assert unknown.count(unknown[0]) == 4
    one[user] = [[ids[0]]]
    assert s.score(1, dense[:1], one) != unknown[0]
    try:
        one[user] = [["apple"]]
        s.score(1, dense[:1], one)
        raise AssertionError("a word is no number")
    except serve.Failed as e:
        assert 'is no id of table user, whose ids are numbers' in str(e), e


def alike(a, path, update, rows):
    """File A with UPDATE gives for the lines of ROWS what file PATH gives."""
    import serve
    rows = serve.read_csv(rows)
    before = a.score(len(rows), *serve.inputs(a, rows))
    a.update(update)
    b = serve.Serve(sys.argv[2], path)
    want = b.score(len(rows), *serve.inputs(b, rows))
    assert a.score(len(rows), *serve.inputs(a, rows)) == want
    assert before != want and a.step() == b.step()
    b.close()


def same_scores(a, path, data):
    import serve
    rows = serve.read_csv(data)
    b = serve.Serve(sys.argv[2], path)
    assert a.score(len(rows), *serve.inputs(a, rows)) == b.score(len(rows), *serve.inputs(b, rows))
    b.close()


def main():
    command = globals()[sys.argv[1]]
    if sys.argv[1] in ("numbers", "alike", "same_scores"):
        import serve
        s = serve.Serve(sys.argv[2], sys.argv[3])
        command(s, *sys.argv[4:])
        s.close()
    else:
        command(*sys.argv[2:])


if __name__ == "__main__":
    main()
