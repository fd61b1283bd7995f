"""evict_score.py BEFORE ALL LOOKED TABLE KEEP LR HALF
What `score` decides in one look, by checkpoints of runs with sgd and constant
initial weights 0.001: BEFORE the step before ALL and the one that it went
on from, ALL the step's, of a run that does not look then, LOOKED of one that
does.  Scores of ALL are those of BEFORE and the norm of what the step changed,
by the learning rate, to 1e-5; LOOKED has the KEEP ids with the largest ones,
of equal ones those met last, then those with the higher keys, with half of
ALL's scores to the bit.
BEFORE "shrunk": LOOKED began with the KEEP ids of ALL's last step, and has made
one more."""
import sys

import h5py
import numpy as np

M = (1 << 64) - 1


def key(x):
    x &= M
    x ^= x >> 33
    x = x * 0xff51afd7ed558ccd & M
    x ^= x >> 33
    x = x * 0xc4ceb9fe1a85ec53 & M
    return x ^ x >> 33


def load(path, table):
    with h5py.File(path) as f:
        group = f["dynamic/" + table]
        name = [x for x in f["model"] if x.endswith(f"embedding_bags.{table}.weight")]
        return {int(i): (s, int(t), w) for i, s, t, w in zip(
            group["ids"][:], group["score"][:], group["last"][:], f["model/" + name[0]][:])}


before, after, looked, table, keep, lr = sys.argv[1:7]
keep, lr = int(keep), float(lr)
new, left = load(after, table), load(looked, table)
step = max(t for _, t, _ in new.values())
order = sorted(new, key=lambda i: (new[i][0], new[i][1], key(i)))
want = sorted(order[max(0, len(order) - keep):], key=key)
if before == "shrunk":
    same = [len(want) < len(new), all(i in left for i in want),
            all(i in want or x[1] > step for i, x in left.items()),
            all(x[1] > step or x[0] == new[i][0] for i, x in left.items())]
    print(table, len(new), "ids,", len(want), "stay,", len(left), "a step later", *same)
    sys.exit(0 if all(same) else 1)
old = load(before, table)
worst, moved = 0.0, 0
for i, (score, last, w) in new.items():
    was, _, w0 = old.get(i, (0.0, 0, np.full_like(w, 0.001)))
    norm = np.sqrt((((w0.astype(np.float64) - w) / lr) ** 2).sum())
    if last != step:
        assert norm == 0 and score == was, (i, score, was)
        continue
    moved += 1
    worst = max(worst, abs(float(was) + norm - float(score)) / (1e-7 + float(score)))
same = [sorted(left, key=key) == want,
        all(left[i][0] == np.float32(0.5) * new[i][0] for i in want if i in left),
        worst < 1e-5, moved > 50, len(want) < len(new)]
print(table, len(new), "ids,", len(want), "stay,", moved, "moved, scores off by", worst, *same)
sys.exit(0 if all(same) else 1)
