"""outputs.py DATA WEIGHTS OUT STEPS [LEARNT] - what tests/run/outputs.sh trains, in
double: one linear layer over two embeddings, six outputs, SGD, from the weights
in the folder WEIGHTS (f32 as they are); LEARNT: numbers of the outputs whose
weights are learnt, "0,2".  Writes the losses as metrics.jsonl, the
predictions as a CSV and what an evaluation says to the folder OUT."""
import csv, math, os, struct, sys

data, weights, out, n_steps = sys.argv[1:4] + [int(sys.argv[4])]
LEARNT = [int(k) for k in sys.argv[5].split(",")] if len(sys.argv) > 5 else []
BATCH, DIM, LR, TABLE_LR = 16, 4, 0.1, 0.2
NAMES = ["click", "buy", "stars", "near", "off", "visits"]
LABELS = ["click", "buy", "stars", "stars", "stars", "visits"]
WEIGHT = [1, 2, 0.3, 1, 0.5, 1]
WHERE = [None, "click", None, "click", None, None]
T = len(NAMES)
S = [0.0] * T


def floats(name):
    b = open(os.path.join(weights, name), "rb").read()
    return list(struct.unpack("<%df" % (len(b) // 4), b))


def rows(name, width):
    x = floats(name)
    return [x[i:i + width] for i in range(0, len(x), width)]


W, B, U, V = rows("W", 2 * DIM), floats("b"), rows("u", DIM), rows("v", DIM)
samples = list(csv.DictReader(open(data)))


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def loss(k, z, y):  # and its derivative
    d = z - y
    if k == 0:
        y = 0.9 * y + 0.05
    if k < 2:
        p = sigmoid(z)
        return -y * math.log(p) - (1 - y) * math.log(1 - p), p - y
    if k == 2:
        return d * d, 2 * d
    if k == 3:
        if abs(d) <= 0.75:
            return d * d / 2, d
        return 0.75 * (abs(d) - 0.375), math.copysign(0.75, d)
    if k == 4:
        return abs(d), math.copysign(1, d) if d else 0
    return math.exp(z) - y * z, math.exp(z) - y


def predict(k, z):
    return sigmoid(z) if k < 2 else math.exp(z) if k == 5 else z


def forward(s):
    x = U[int(s["u"])] + V[int(s["v"])]
    return x, [sum(a * b for a, b in zip(W[k], x)) + B[k] for k in range(T)]


def counts(s, k):
    return WHERE[k] is None or s[WHERE[k]] == "1"


def step(batch):
    total = sum(S[k] / 2 for k in LEARNT)
    of_task, gs = list(WEIGHT), [0] * T
    for k in LEARNT:
        of_task[k], gs[k] = math.exp(-S[k]) * (0.5 if 2 <= k <= 4 else 1), 0.5
    mass = sum(float(s["sample_weights"]) for s in batch)
    gw = [[0] * (2 * DIM) for _ in range(T)]
    gb, gu, gv = [0] * T, {}, {}
    for s in batch:
        x, z = forward(s)
        dx = [0] * (2 * DIM)
        for k in range(T):
            if not counts(s, k):
                continue
            w = float(s["sample_weights"]) * of_task[k] / mass
            l, slope = loss(k, z[k], float(s[LABELS[k]]))
            total += w * l
            if k in LEARNT:
                gs[k] -= w * l
            gb[k] += w * slope
            for i in range(2 * DIM):
                gw[k][i] += w * slope * x[i]
                dx[i] += w * slope * W[k][i]
        for g, key, part in (gu, "u", dx[:DIM]), (gv, "v", dx[DIM:]):
            old = g.get(int(s[key]), [0] * DIM)
            g[int(s[key])] = [a + b for a, b in zip(old, part)]
    for k in range(T):
        S[k] -= LR * gs[k]
        B[k] -= LR * gb[k]
        W[k] = [a - LR * g for a, g in zip(W[k], gw[k])]
    for table, g in (U, gu), (V, gv):
        for r in g:
            table[r] = [a - TABLE_LR * b for a, b in zip(table[r], g[r])]
    return total


at = 0
with open(os.path.join(out, "metrics.jsonl"), "w") as f:
    for i in range(n_steps):
        f.write('{"step":%d,"loss":%.12g}\n' % (i + 1, step(samples[at:at + BATCH])))
        at = at + BATCH if at + BATCH < len(samples) else 0
with open(os.path.join(out, "p.csv"), "w") as f:
    f.write(",".join("prediction_" + n for n in NAMES) + "\n")
    for s in samples:
        f.write(",".join("%.9g" % predict(k, z) for k, z in enumerate(forward(s)[1])) + "\n")
with open(os.path.join(out, "said"), "w") as f:  # task, samples, mse, mae, r2
    for k in range(T):
        all_w = sq = ab = sy = syy = n = 0
        for s in samples:
            w = float(s["sample_weights"])
            if not w or not counts(s, k):
                continue
            y, p = float(s[LABELS[k]]), predict(k, forward(s)[1][k])
            n, all_w = n + 1, all_w + w
            sq, ab = sq + w * (p - y) ** 2, ab + w * abs(p - y)
            sy, syy = sy + w * y, syy + w * y * y
        f.write("%s %d %.9g %.9g %.9g\n" % (NAMES[k], n, sq / all_w, ab / all_w, 1 - sq / (syy - sy * sy / all_w)))
with open(os.path.join(out, "s"), "w") as f:
    f.write("0 " + " ".join("%.9g" % s for s in S) + "\n" * 2)
