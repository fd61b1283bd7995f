"""evict.py DATA CHECKPOINT BATCH STEPS TABLE FEATURES KIND EVERY MOST [TTL]
         [ADMIT WINDOW LINES]
A plain model of which ids a dynamic table has: sets and sorting alone, and a
count-min sketch of LINES lines a part for ids without a row, which get one in
the ADMIT-th step; halved after WINDOW steps.  Ends with 1 where the checkpoint
has other ids, or other counts or ages of them, or another sketch."""
import sys

import h5py
import numpy as np

data, path, batch, steps, table, features, kind, every, most = sys.argv[1:10]
batch, steps, every, most = int(batch), int(steps), int(every), int(most)
ttl = int(sys.argv[10]) if len(sys.argv) > 10 else 0
admit, window, lines = map(int, sys.argv[11:14] or (1, 0, 1))
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


def counters(x):
    k = key(x)
    line = (k >> 52) * lines + ((k >> 20 & 0xffffffff) * lines >> 32)
    return [64 * line + 16 * q + (k >> 4 * q & 15) for q in range(4)]


sketch = np.zeros(4096 * lines * 64, np.uint8)
seen, last = {}, {}
with h5py.File(data) as f:
    for step in range(1, steps + 1):
        met = set()
        for name in features.split(","):
            met |= ids_of(f, name, (step - 1) * batch, batch)
        strange = [] if admit == 1 else [x for x in met if x not in seen]
        met -= {x for x in strange
                if min(int(sketch[c]) for c in counters(x)) + 1 < admit}
        for x in strange:
            for c in counters(x):
                sketch[c] = min(255, int(sketch[c]) + 1)
        for x in met:
            seen[x], last[x] = seen.get(x, 0) + 1, step
        if window and step % window == 0:
            sketch //= 2
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
    sights = np.zeros(0, np.uint8) if admit == 1 else (
        np.ascontiguousarray(group["sights"][:]).view(np.uint8).ravel())
    same = [admit == 1 or np.array_equal(sights, sketch),
            list(group["ids"][:]) == want,
            list(group["seen"][:]) == [seen[x] for x in want],
            list(group["last"][:]) == [last[x] for x in want]]
print(table, kind, len(want), "ids;", int(sketch.sum()), "sights; equal sights, ids, counts, ages:", *same)
sys.exit(0 if all(same) else 1)
