"""evict.py DATA CHECKPOINT BATCH STEPS TABLE FEATURES KIND EVERY MOST [TTL]
A plain model of which ids a dynamic table has: sets and sorting alone.  Ends
with 1 where the checkpoint has other ids, or other counts or ages of them."""
import sys

import h5py
import numpy as np

data, path, batch, steps, table, features, kind, every, most = sys.argv[1:10]
batch, steps, every, most = int(batch), int(steps), int(every), int(most)
ttl = int(sys.argv[10]) if len(sys.argv) > 10 else 0
M = (1 << 64) - 1


def key(x):
    x &= M
    x ^= x >> 33
    x = x * 0xff51afd7ed558ccd & M
    x ^= x >> 33
    x = x * 0xc4ceb9fe1a85ec53 & M
    return x ^ x >> 33


def ids_of(file, name, first, n):
    group = file["sparse/" + name]
    values, offsets = group["values"], group["offsets"]
    a, b = int(offsets[first]), int(offsets[first + n])
    return {int(x) for x in values[a:b]}


seen, last = {}, {}
with h5py.File(data) as f:
    for step in range(1, steps + 1):
        met = set()
        for name in features.split(","):
            met |= ids_of(f, name, (step - 1) * batch, batch)
        for x in met:
            seen[x], last[x] = seen.get(x, 0) + 1, step
        if step % every:
            continue
        if kind == "ttl":
            go = [x for x in seen if step - last[x] >= ttl]
        else:
            order = (lambda x: (last[x], key(x))) if kind == "lru" else (
                lambda x: (seen[x], last[x], key(x)))
            go = sorted(seen, key=order)[:max(0, len(seen) - most)]
        for x in go:
            del seen[x], last[x]
        if kind == "lfu":
            seen = {x: n // 2 for x, n in seen.items()}

want = sorted(seen, key=key)
with h5py.File(path) as f:
    group = f["dynamic/" + table]
    same = [list(group["ids"][:]) == want,
            list(group["seen"][:]) == [seen[x] for x in want],
            list(group["last"][:]) == [last[x] for x in want]]
print(table, kind, len(want), "ids; equal ids, counts, ages:", *same)
sys.exit(0 if all(same) else 1)
