"""bench_sequences.py - of jobs/bench_sequences: the log, both programs in turns,
and what PyTorch runs.

    bench_sequences.py all OUTPUT TESSERA LOG TURNS
    bench_sequences.py eval|train LOG ATTENTION THREADS

BACKEND=cuda in the environment: both on a GPU, by one process.

The model is SASRec as tessera's kind "sasrec" has it: width 50, two blocks, one
head, norms before, dropout 0.2, one negative a target, batches of 128.  PyTorch
pads to 200; its ATTENTION is "sdpa" (scaled_dot_product_attention, is_causal) or
"mha" (nn.MultiheadAttention with a mask, as most implementations have it)."""
import os
import re
import statistics
import subprocess
import sys
import time

PLACES, DIM, BLOCKS, BATCH, RANKED = 200, 50, 2, 128, 256
GPU = os.environ.get("BACKEND") == "cuda"
THREADS, WARM, STEPS = (os.cpu_count(), 10, 100) if GPU else (2, 3, 20)
PROCESSES = (1,) if GPU else (1, 2)
DEVICE = "cuda" if GPU else "cpu"
KINDS = ("tessera", "sdpa", "mha")
ABOUT = """
An evaluation ranks all items but those of the sequence, and takes HR and NDCG at
10.  tessera's is its process less the shortest one of three users: reading,
batches and losses of drawn negatives are in it.  PyTorch's is taken inside: its
start, the reading and the padding of its batches are not.  Training of tessera is
all of a step, data and draws included, as its log has it; PyTorch's has padded
batches in memory, and draws negatives that the user may have had.  Tokens are
those that are there, not padding."""
DECK = """run = {{ name = "sequences"; output = "run"; backend = "{backend}"; steps = 2; threads = {threads}; log_every = 10; }};
data = {{ format = "dataset"; train = "log.train.h5"; global_batch = {batch}; shuffle = "full";
  columns = (
    {{ name = "item"; kind = "ids"; max_length = {places}; truncate = "oldest"; }},
    {{ name = "next"; kind = "ids"; max_length = {places}; truncate = "oldest"; }} ); }};
tables = ( {{ name = "item"; rows = {rows}; dim = {dim}; pooling = "none"; features = ["item", "next"]; }} );
table_defaults = {{ optimizer = {{ kind = "adam"; lr = 0.001; }}; }};
model = {{ kind = "sasrec"; }};
optimizer = {{ kind = "adam"; lr = 0.001; }};
sharding = {{ topology = "default"; }};
metrics = {{ report = ["hit_rate", "ndcg"]; k = 10; }};
"""


# ---- the log ----------------------------------------------------------------

def make_log(path):
    """Lengths and items as uneven as MovieLens 1M's, no item twice."""
    import numpy as np
    rng = np.random.default_rng(1)
    users, items = 6040, 3416
    lengths = np.clip(20 + rng.lognormal(np.log(76), 1.14, users), 20, 2314).astype(int)
    weight = -np.log(np.arange(items) + 50.0)
    with open(path, "w") as f:
        for user, n in enumerate(lengths):
            order = np.argsort(weight - np.log(rng.exponential(size=items)))[::-1][:n]
            f.write(f"{user} " + " ".join(map(str, rng.permutation(order) + 1)) + "\n")


def read_log(path):
    """{user: [item]} in the log's order, and whether lines are lists."""
    sequences, lists = {}, False
    for line in open(path):
        user, *items = line.split()
        lists |= len(items) > 1
        sequences.setdefault(user, []).extend(map(int, items))
    return sequences, lists


# ---- PyTorch ----------------------------------------------------------------

def model_of(rows, attention):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.normed = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
            self.looks = nn.MultiheadAttention(DIM, 1, batch_first=True)
            self.each = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Dropout(0.2), nn.Linear(DIM, DIM))
            self.kept, self.dropped = nn.Dropout(0.2), nn.Dropout(0.2)

        def look(self, x, mask):
            m = self.looks
            if attention == "mha":
                return m(x, x, x, attn_mask=mask, need_weights=False)[0]
            q, k, v = F.linear(x, m.in_proj_weight, m.in_proj_bias)[:, None].chunk(3, -1)
            return m.out_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0])

        def forward(self, x, mask):
            x = x + self.kept(self.look(self.before(x), mask))
            return x + self.dropped(self.each(self.normed(x)))

    class SASRec(nn.Module):
        def __init__(self):
            super().__init__()
            self.item, self.place = nn.Embedding(rows, DIM, padding_idx=0), nn.Embedding(PLACES, DIM)
            self.start, self.user = nn.Dropout(0.2), nn.LayerNorm(DIM)
            self.block = nn.ModuleList(Block() for _ in range(BLOCKS))

        def forward(self, ids, last=None):
            """Vectors of all tokens, or of the LAST of each sample."""
            n = ids.shape[1]
            x = self.start(self.item(ids) * DIM**0.5 + self.place.weight[:n])
            mask = torch.ones(n, n, dtype=torch.bool, device=DEVICE).triu(1) if attention == "mha" else None
            for block in self.block:
                x = block(x, mask)
            return self.user(x if last is None else x[torch.arange(len(x), device=DEVICE), last])

    torch.manual_seed(1)
    return SASRec().to(DEVICE)


def clock():
    """Once all is done that was begun."""
    import torch
    if GPU:
        torch.cuda.synchronize()
    return time.perf_counter()


def padded(parts):
    import numpy as np
    import torch
    x = np.zeros((len(parts), PLACES), "i8")
    for row, items in zip(x, parts):
        row[:len(items)] = items
    return torch.from_numpy(x).to(DEVICE)


def torch_eval(sequences, rows, attention):
    """Seconds of the ranking of all items; batches are padded before."""
    import torch
    net = model_of(rows, attention).eval()
    users = [s for s in sequences.values() if len(s) > 1]
    batches = []
    for at in range(0, len(users), RANKED):
        some = users[at:at + RANKED]
        seen = [s[:-1][-PLACES:] for s in some]
        batches.append((padded(seen), torch.tensor([len(s) - 1 for s in seen], device=DEVICE),
                        torch.tensor([[s[-1]] for s in some], device=DEVICE)))
    with torch.inference_mode():
        if GPU:  # its libraries start, as tessera's have by its first batch
            net(*batches[0][:2])
    begin, n_hits, gain = clock(), 0, 0.0
    with torch.inference_mode():
        for ids, last, wanted in batches:
            score = net(ids, last) @ net.item.weight.T
            own = score.gather(1, wanted)
            rank = (score.scatter_(1, ids, -torch.inf) > own).sum(1)
            n_hits += int((rank < 10).sum())
            gain += float((1 / torch.log2(rank[rank < 10] + 2.0)).sum())
    return clock() - begin


def torch_train(sequences, rows, attention):
    """Targets a second of a process, or of all; batches are padded before."""
    import torch
    from torch import distributed, nn
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    net = model_of(rows, attention)
    if world > 1:
        distributed.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(net)
    table = (net.module if world > 1 else net).item
    adam = torch.optim.Adam(net.parameters(), lr=0.001)
    users = [s[:-1][-PLACES - 1:] for s in sequences.values() if len(s) > 2]
    each, batches = BATCH // world, []
    order = torch.randperm(len(users), generator=torch.Generator().manual_seed(1)).tolist()
    for k in range(WARM + STEPS):
        some = [users[order[(k * BATCH + rank * each + i) % len(users)]] for i in range(each)]
        batches.append((padded([s[:-1] for s in some]), padded([s[1:] for s in some]), sum(map(len, some)) - each))
    n, loss = 0, nn.BCEWithLogitsLoss()
    for k, (ids, wanted, targets) in enumerate(batches):
        if k == WARM:
            begin, n = clock(), 0
        x, there = net(ids), wanted > 0
        other = torch.randint(1, rows, wanted.shape, device=DEVICE)
        good, bad = ((x * table(i)).sum(-1)[there] for i in (wanted, other))
        adam.zero_grad()
        (loss(good, torch.ones_like(good)) + loss(bad, torch.zeros_like(bad))).backward()
        adam.step()
        n += targets
    return n * world / (clock() - begin)


# ---- turns ------------------------------------------------------------------

def run(command, **more):
    """Its output, and seconds of the whole process."""
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        sys.exit(f"bench_sequences: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout, time.perf_counter() - begin


class Ours:
    def __init__(self, out, tessera, log, rows, lists):
        self.out, self.tessera = out, os.path.abspath(tessera)
        few = os.path.join(out, "few.txt")
        sequences, _ = read_log(log)
        with open(few, "w") as f:
            for user, items in list(sequences.items())[:3]:
                f.write(" ".join([user, *map(str, items)]) + "\n")
        for path, name, more in (log, "log", ["--lists"] * lists), (few, "few", ["--lists"]):
            self.call("convert", "--sequences", os.path.abspath(path), *more, "--leave", "1",
                      "--max-length", str(PLACES), "--out", name, "--quiet")
        with open(os.path.join(out, "log.deck"), "w") as f:
            f.write(DECK.format(backend="cuda" if GPU else "host", threads=THREADS, batch=BATCH, places=PLACES, rows=rows, dim=DIM))
        self.call("train", "log.deck", "--quiet")

    def call(self, *command, ranks=1):
        start = ["mpirun", "-q", "-n", str(ranks)] if ranks > 1 else []
        return run([*start, self.tessera, *command], cwd=self.out)

    def eval(self, data):
        return self.call("eval", "log.deck", "--set", f"data.eval={data}.test.h5")[1]

    def train(self, ranks, targets_each):
        folder = f"turn{ranks}"
        run(["rm", "-rf", folder], cwd=self.out)
        self.call("train", "log.deck", "--quiet", "--set", f"run.output={folder}", "--set", f"run.steps={500 if GPU else 40}",
                  "--set", f"run.threads={THREADS // ranks}", ranks=ranks)
        rates = re.findall(r'"samples_per_s":([\d.]+)', open(f"{self.out}/{folder}/metrics.jsonl").read())
        return statistics.median(map(float, rates[1:])) * targets_each


def theirs(what, log, attention, ranks=1):
    jobs = []
    for rank in range(ranks):
        env = dict(os.environ, OMP_NUM_THREADS=str(THREADS // ranks))
        if ranks > 1:
            env.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
        jobs.append(subprocess.Popen([sys.executable, __file__, what, log, attention, str(THREADS // ranks)],
                                     stdout=subprocess.PIPE, text=True, env=env))
    begin, texts = time.perf_counter(), [j.communicate()[0] for j in jobs]
    if any(j.returncode for j in jobs):
        sys.exit(f"bench_sequences: PyTorch's {what} failed")
    return float(texts[0]), time.perf_counter() - begin


def measure(ours, log, turns, targets_each):
    """{what: [a figure of each turn]}"""
    found, few = {}, []
    put = lambda key, value: found.setdefault(key, []).append(value)
    for _ in range(turns):
        few.append(ours.eval("few"))
        put(("process", "tessera"), ours.eval("log"))
        for k in KINDS[1:]:
            inside, whole = theirs("eval", log, k)
            put(("eval", k), inside)
            put(("process", k), whole)
        for ranks in PROCESSES:
            put((ranks, "tessera"), ours.train(ranks, targets_each))
            for k in KINDS[1:]:
                put((ranks, k), theirs("train", log, k, ranks)[0])
    # Not turn by turn: a slow start of few would make the evaluation fast.
    found["eval", "tessera"] = [whole - min(few) for whole in found["process", "tessera"]]
    return found


def tell(found):
    print("| | the best turn | the middle |\n|---|---|---|")
    names = {"eval": "evaluation, s", "process": "its whole process, s",
             1: "training, tokens/s" if GPU else "training, tokens/s, one of two threads", 2: "training, tokens/s, two of one thread"}
    if GPU:
        del names[2]
    best = {}
    for what, name in names.items():
        for k in KINDS:
            values, digits = found[what, k], 0 if what in (1, 2) else 2
            best[what, k] = (max if what in (1, 2) else min)(values)
            print(f"| {name}, {k} | {best[what, k]:,.{digits}f} | {statistics.median(values):,.{digits}f} |")
    print("\ntessera beside PyTorch's faster one, of the best turns:")
    for what in "eval", "process":
        print(f"  {names[what][:-3]}: {min(best[what, k] for k in KINDS[1:]) / best[what, 'tessera']:.1f} times")
    for what in PROCESSES:
        print(f"  {names[what]}: {best[what, 'tessera'] / max(best[what, k] for k in KINDS[1:]):.1f} times")
    print(ABOUT)


def compare(out, tessera, log, turns):
    if not log:
        log = os.path.join(out, "log.txt")
        if not os.path.exists(log):
            make_log(log)
    sequences, lists = read_log(log)
    rows = 1 + max(map(max, sequences.values()))
    lengths = [min(PLACES, len(s) - 1) for s in sequences.values()]
    found = measure(Ours(out, tessera, log, rows, lists), log, turns,
                    statistics.mean(min(PLACES, len(s) - 2) for s in sequences.values()))
    print(f"{len(sequences):,} users, {rows - 1:,} items, {sum(lengths):,} tokens to evaluate, "
          f"{sum(n == PLACES for n in lengths) / len(lengths):.0%} of the users with {PLACES}; {turns} turns\n")
    tell(found)


def main():
    if sys.argv[1] == "all":
        return compare(*sys.argv[2:5], int(sys.argv[5]))
    import torch
    what, log, attention, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    sequences, _ = read_log(log)
    rows = 1 + max(map(max, sequences.values()))
    print({"eval": torch_eval, "train": torch_train}[what](sequences, rows, attention))


if __name__ == "__main__":
    main()
