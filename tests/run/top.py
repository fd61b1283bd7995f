"""top.py CHECKPOINT TABLE K: what `tessera inspect --table --top` says, by
sorting all of the table."""
import sys

import h5py
import numpy as np

path, table, k = sys.argv[1], sys.argv[2], int(sys.argv[3])
with h5py.File(path) as f:
    bags = [x for x in f["model"] if x.endswith(f"embedding_bags.{table}.weight")]
    w = f["model/" + bags[0]][:]
    if w.dtype == np.uint16:  # bf16
        w = (w.astype(np.uint32) << 16).view(np.float32)
    norm = np.sqrt((w.astype(np.float64) ** 2).sum(axis=1))
    lists = f["dynamic/" + table] if f"dynamic/{table}" in f else {}
    ids = lists["ids"][:] if "ids" in lists else np.arange(len(w))
    counted = "seen" in lists
    name = "id" if "ids" in lists else "row"
    scored = "score" in lists
    score = lists["score"][:].astype(float) if scored else norm
    rows = list(zip(ids, lists["seen"][:], lists["last"][:], score, norm)
                if counted else zip(ids, norm))
if not counted:
    rows.sort(key=lambda r: (-r[1], r[0]))
else:
    rows.sort(key=lambda r: (-r[3] if scored else 0, -r[1], -r[2], r[0]))
print(name + " steps last" * counted + " score" * scored + " norm")
for r in rows[:k]:
    print(" ".join([str(int(x)) for x in r[:3 if counted else 1]] +
                   ["%.6g" % x for x in r[-1 - scored:]]))
