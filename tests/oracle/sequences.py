"""Cases of models that read sequences or rank items, sample by sample in
PyTorch, in double: what a deck of input/models makes of lists of ids.  Outputs
over items have tessera's own negatives, drawn as io/targets.h says."""
import csv
import os
import random
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "run"))
from negatives import alias, draw, hidden

STEPS, BATCH, LR, SEED = 20, 16, 0.2, 5
# Norms of rows that are nearly zero make differences of rounding larger.
SLOW = {"hstu": 0.001, "hstu_context": 0.001}
# Scores over 0.05, as the deck has them, do the same.
OUTPUTS = {"two_tower_items": 'outputs = ( { name = "next"; in = "user_tower"; items = "item_tower"; loss = "sampled_softmax"; '
                              'target = "candidate"; draw = "batch"; log_q = true; temperature = 0.1; normalise = true; } ); ',
           "hstu": 'outputs = ( { name = "next"; in = "block"; loss = "sampled_softmax"; target = "next"; negatives = 128; '
                   'temperature = 0.5; normalise = true; exclude = ["item"]; first_item = 1; } ); '}
OUTPUTS["hstu_context"] = OUTPUTS["rotary"] = OUTPUTS["hstu"]
# Cases that are no graph of input/models.
LAYERS = {"hstu_context": """layers = (
    { name = "place"; kind = "position"; in = "item"; places = 5; },
    { name = "about"; kind = "project"; in = ["user", "site"]; dim = 6; },
    { name = "whole"; kind = "prepend"; in = "place"; before = "about"; },
    { name = "block"; kind = "block"; repeat = 2; in = "whole"; layers = (
      { name = "unit"; kind = "hstu"; in = "block"; heads = 2; places = 4; context = 2; } ); } ); """,
          "rotary": """layers = (
    { name = "block"; kind = "block"; repeat = 2; in = "item"; layers = (
      { name = "looks"; kind = "attention"; in = "block"; heads = 2; places = "rotary"; rotary_base = 100.0; },
      { name = "sum"; kind = "add"; in = ["block", "looks"]; } ); } ); """}
ROWS = {"items": 30, "users": 11, "sites": 5}


def linear(P, name, x):
    return F.linear(x, P[name + ".weight"], P.get(name + ".bias"))


def norm(P, name, x):
    return F.layer_norm(x, x.shape[-1:], P[name + ".0.weight"],
                        P[name + ".0.bias"])


def place(P, name, x, scale=1.0):
    w = P[name + ".0.weight"]
    k = torch.arange(len(x) - 1, -1, -1).clamp(max=len(w) - 1)
    return scale * x + w[k]


def by_time(s, buckets):
    """Of each token and those that it looks at."""
    when = torch.tensor(s["when"], dtype=torch.float64)
    passed = (when[1:, None] - when[None, :-1]).abs().clamp(min=1)
    return (passed.log() / 0.301).long().clamp(max=buckets - 1)


def turned(x, base):
    """Rows (heads, places, dim) whose pairs, as complex numbers, are turned by their places."""
    n, dim = x.shape[1:]
    at, pair = (torch.arange(k, dtype=x.dtype) for k in (n, dim // 2))
    angle = at[:, None] / base ** (2 * pair / dim)
    z = torch.view_as_complex(x.unflatten(2, (-1, 2)).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(2)


def attention(P, name, x, causal, heads=1, times=None, rotary=None):
    q, k, v = (z.unflatten(1, (heads, -1)).transpose(0, 1) for z in linear(P, name + ".0", x).chunk(3, -1))
    if rotary:
        q, k = turned(q, rotary), turned(k, rotary)
    mask = torch.zeros(len(x), len(x), dtype=x.dtype)
    if causal:
        mask = mask.masked_fill(torch.ones_like(mask, dtype=torch.bool).triu(1), float("-inf"))
    if times is not None:
        mask = mask + P[name + ".2.times"][:, times]
    y = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask.expand(heads, -1, -1)[None])[0]
    return linear(P, name + ".1", y.transpose(0, 1).flatten(1))


def mlp(P, name, x, n, act, last=True):
    for i in range(n):
        x = linear(P, f"{name}.{i}", x)
        if last or i + 1 < n:
            x = act(P, f"{name}.{i}", x)
    return x


def gelu(P, name, x):
    return F.gelu(x)


def relu(P, name, x):
    return F.relu(x)


def prelu(P, name, x):
    return torch.where(x > 0, x, P[name + ".activation.weight"] * x)


def leaky(P, name, x):
    return F.leaky_relu(x, 0.01)


def sigmoid(P, name, x):
    return torch.sigmoid(x)


# ---- models: queries (one row a target), or a logit -----------------------------
def sasrec(P, s):
    x = place(P, "place", P["items"][s["item"]], 7.0710678)
    for i in range(2):
        b = f"block.{i}."
        x = x + attention(P, b + "looks", norm(P, b + "before", x), True, 1, by_time(s, 50))
        x = x + mlp(P, b + "each", norm(P, b + "normed", x), 2, relu, False)
    return norm(P, "user", x)


def rotary(P, s):
    x = P["items"][s["item"]]
    for i in range(2):
        x = x + attention(P, f"block.{i}.looks", x, True, 2, rotary=100)
    return x


def bert4rec(P, s):
    x = norm(P, "even", place(P, "place", P["items"][s["item"]]))
    for i in range(2):
        b = f"block.{i}."
        x = norm(P, b + "normed", x + attention(P, b + "looks", x, False, 2))
        x = norm(P, b + "out", x + mlp(P, b + "each", x, 2, gelu, False))
    return norm(P, "found", mlp(P, "turned", x, 1, gelu))


def hstu(P, s):
    x = place(P, "place", P["items"][s["item"]])
    n = len(x)
    far = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    times = by_time(s, 50)
    for i in range(2):
        b = f"block.{i}.unit"
        d = x.shape[1]
        u, v, q, k = F.silu(F.linear(F.layer_norm(x, (d,), eps=1e-6),
                                     P[b + ".0.weight"])).split(d, 1)
        bias = P[b + ".1.weight"][0]
        x_ij = q @ k.T + bias[far.clamp(0, len(bias) - 1)] + P[b + ".1.times"][0][times]
        a = F.silu(x_ij) / n
        y = F.layer_norm(torch.where(far >= 0, a, 0.0) @ v, (d,), eps=1e-6)
        x = x + linear(P, b + ".2", u * y)
    return x


def hstu_context(P, s):
    """The user and the site before the items, and seeing all of them."""
    about = [linear(P, f"about.{i}", P[t][s[f]]) for i, (t, f) in enumerate((("users", "user"), ("sites", "site")))]
    x = torch.cat(about + [place(P, "place", P["items"][s["item"]])])
    n, d = x.shape
    far = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    # As ids of generative-recommenders: those of context are 0.
    ids = (torch.arange(n) - 2 + 1).clamp(min=0)
    sees = (ids[:, None] > ids[None, :]) | torch.eye(n, dtype=torch.bool) | (ids[:, None] == 0)
    for i in range(2):
        b = f"block.{i}.unit"
        u, v, q, k = F.silu(F.linear(F.layer_norm(x, (d,), eps=1e-6), P[b + ".0.weight"])).split(d, 1)
        y = []
        for h in range(2):
            at = slice(h * d // 2, (h + 1) * d // 2)
            bias = P[b + ".1.weight"][h]
            a = F.silu(q[:, at] @ k[:, at].T + bias[far.clamp(0, len(bias) - 1)]) / n
            y.append(torch.where(sees, a, 0.0) @ v[:, at])
        x = x + linear(P, b + ".2", u * F.layer_norm(torch.cat(y, 1), (d,), eps=1e-6))
    return x


def mf_ccl(P, s):
    return P["users"][s["user"]]


def simplex(P, s):
    past = P["items"][s["history"]].mean(0, keepdim=True)
    return 0.5 * P["users"][s["user"]] + 0.5 * linear(P, "turned.0", past)


def two_tower(P, s):
    x = mlp(P, "deep", P["users"][s["user"]], 2, relu)
    return linear(P, "user_tower.0", x)


def two_tower_items(P, s):
    return two_tower(P, s)


def item_tower(P, s):
    x = torch.cat([P["items"][s["candidate"]], P["sites"][s["site"]]], 1)
    return linear(P, "item_tower.0", mlp(P, "item_deep", x, 2, relu))


def youtube_dnn(P, s):
    x = mlp(P, "deep", P["items"][s["history"]].mean(0, keepdim=True), 2, relu)
    return linear(P, "user.0", x)


def din(P, s):
    k, q = P["items"][s["history"]], P["items"][s["candidate"]]
    four = torch.cat([q.expand_as(k), k, q - k, q * k], 1)
    w = mlp(P, "interest", four, 3, sigmoid, False)
    interest = (w * k).sum(0, keepdim=True)
    x = torch.cat([P["sites"][s["site"]], interest, q, interest * q], 1)
    return linear(P, "click.0", mlp(P, "deep", x, 2, prelu))


def bst(P, s):
    x = place(P, "place", P["items"][s["history"]])
    x = norm(P, "normed", x + attention(P, "looks", x, False))
    x = mlp(P, "each", x, 1, leaky)
    x = torch.cat([P["sites"][s["site"]], x.mean(0, keepdim=True), x[-1:]], 1)
    return linear(P, "click.0", mlp(P, "deep", x, 3, leaky))


# Model, dim, features of the items' table, the other table, changes, and of
# outputs over items: loss, negatives, temperature, normalise, barred, first.
CASES = {
    "sasrec": (sasrec, 50, "item next", None,
               ['{ name = "start"; p = 0.0; }', '{ name = "place"; places = 5; }']
               + [f'{{ name = "block.{n}"; {k} = 0.0; }}' for n, k in
                  (("kept", "p"), ("dropped", "p"), ("each", "dropout"))]
               + ['{ name = "block.looks"; times = "when"; time_buckets = 50; }'],
               ("bce", 1, 1.0, False, True, 1)),
    "hstu": (hstu, 6, "item next", None,
             ['{ name = "start"; p = 0.0; }', '{ name = "place"; places = 5; }',
              '{ name = "block.unit"; places = 4; times = "when"; time_buckets = 50; dropout = 0.0; }'],
             ("softmax", 128, 0.5, True, True, 1)),
    "hstu_context": (hstu_context, 6, "item next", "user site", [], ("softmax", 128, 0.5, True, True, 1)),
    "rotary": (rotary, 12, "item next", None, [], ("softmax", 128, 0.5, True, True, 1)),
    "bert4rec": (bert4rec, 64, "item next", None,
                 ['{ name = "start"; p = 0.0; }', '{ name = "place"; places = 5; }']
                 + [f'{{ name = "block.{n}"; {k} = 0.0; }}' for n, k in
                    (("looks", "dropout"), ("kept", "p"), ("dropped", "p"))],
                 ("all", 0, 1.0, False, False, 1)),
    "mf_ccl": (mf_ccl, 6, "next", "user", ['{ name = "kept"; p = 0.0; }'],
               ("ccl", 800, 1.0, True, False, 0)),
    "simplex": (simplex, 64, "history next", "user",
                ['{ name = "kept"; p = 0.0; }'],
                ("ccl", 1000, 1.0, True, False, 0)),
    "two_tower": (two_tower, 64, "next", "user", ['{ name = "deep"; units = [8, 6]; }'],
                  ("softmax", 128, 0.1, True, False, 0)),
    "two_tower_items": (two_tower_items, 6, "candidate", "user site",
                        ['{ name = "deep"; units = [8, 6]; }', '{ name = "own"; in = "candidate"; }',
                         '{ name = "item_deep"; units = [9, 7]; }'],
                        ("softmax", 128, 0.1, True, False, 0)),
    "youtube_dnn": (youtube_dnn, 64, "history next", None, ['{ name = "deep"; units = [8, 6]; }'],
                    ("softmax", 128, 1.0, False, False, 0)),
    "din": (din, 6, "history candidate", "site",
            ['{ name = "deep"; units = [8, 6]; }',
             '{ name = "interest"; units = [7, 5]; }'], None),
    "bst": (bst, 64, "history", "site",
            ['{ name = "place"; places = 5; }', '{ name = "deep"; units = [8, 6, 4]; }'],
            None),
}
# Their negatives are drawn as often as items are targets, or are the batch's
# targets; log_q.
BY_FREQUENCY = ("youtube_dnn", "two_tower", "two_tower_items")
IN_BATCH = ("two_tower", "two_tower_items")
# Layers make the items' vectors; their target is "candidate".
TOWER = {"two_tower_items": item_tower}
# Ids of "item" are hidden, by row 0, and found again.
MASKED = {"bert4rec": 0.2}
# They take the times of "item", and one more.
TIMED = ("hstu", "sasrec")
TABLE = {"user": "users", "site": "sites"}
GROUP = {("two_tower_items", "site"): ' group = "items";'}


def deck(name):
    model, dim, features, other, change, over = CASES[name]
    others = other.split() if other else []
    columns = features.split() + others
    timed = name in TIMED
    ids = "".join(f'    {{ name = "{c}"; kind = "ids"; encoding = "none"; '
                  'list_separator = "|"; max_length = 9; },\n' for c in columns)
    if timed:
        ids += '    { name = "when"; kind = "ids"; encoding = "none"; list_separator = "|"; },\n'
    label = "" if over else '    { name = "label"; kind = "label"; },\n'
    tables = [f'{{ name = "items"; rows = {ROWS["items"]}; pooling = "none"; '
              f'features = [{", ".join(chr(34) + f + chr(34) for f in features.split())}]; }}']
    for o in others:
        tables.insert(0, f'{{ name = "{TABLE[o]}"; rows = {ROWS[TABLE[o]]}; features = ["{o}"];{GROUP.get((name, o), "")} }}')
    if timed:
        tables.append('{ name = "when"; rows = 1; features = ["when"]; pooling = "none"; }')
    graph = LAYERS.get(name) or f'kind = "{name}"; '
    changes = "change = (\n    " + (",\n    ").join(change) + " ); " if change else ""
    return f"""# Made by jobs/oracle: tests/run/oracle.sh gives the data.
run = {{ name = "{name}"; seed = {SEED}; steps = {STEPS}; threads = 1; log_every = 1; }};
data = {{ format = "csv"; global_batch = {BATCH};
  columns = (
{(label + ids).rstrip(chr(10) + ",")} ); }};
table_defaults = {{ dim = {dim}; optimizer = {{ kind = "sgd"; lr = {SLOW.get(name, LR)}; }}; }};
tables = (
  {(","+chr(10)+"  ").join(tables)} );
model = {{ {graph}{OUTPUTS.get(name, "")}{changes}}};
optimizer = {{ kind = "sgd"; lr = {SLOW.get(name, LR)}; }};
"""


def times(rng, n):
    """Seconds, from none to days apart."""
    at = [10 ** 9 + rng.randrange(10 ** 6)]
    while len(at) < n:
        at.append(at[-1] + int(10 ** rng.uniform(0, 5.5)) - 1)
    return at


def write_data(path):
    rng = random.Random(4)
    with open(path, "w") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow("label user site candidate item next history when".split())
        later = random.Random(9)
        for _ in range(STEPS * BATCH):
            lists = [[rng.randrange(1, ROWS["items"]) for _ in range(n)]
                     for n in (rng.randrange(8),) * 2 + (rng.randrange(1, 9),)]
            lists[1] = lists[1][:rng.randrange(1, 9)]
            out.writerow([rng.randrange(2), rng.randrange(ROWS["users"]),
                          rng.randrange(ROWS["sites"]), rng.randrange(1, ROWS["items"])]
                         + ["|".join(map(str, x)) for x in lists + [times(later, len(lists[0]) + 1)]])


def read_data(path):
    with open(path) as f:
        return [{k: [int(i) for i in v.split("|") if i] for k, v in r.items()}
                for r in csv.DictReader(f)]


def target_of(case):
    return "candidate" if case[0].__name__ in TOWER else "next"


def law_of(case, samples):
    """What draws go by, and what is taken from scores."""
    if case[0].__name__ not in BY_FREQUENCY:
        return None, torch.zeros(ROWS["items"])
    counts = [0] * ROWS["items"]
    for s in samples:
        for i in s[target_of(case)]:
            counts[i] += 1
    share = torch.tensor([max(c, 0.5) / sum(counts) for c in counts], dtype=torch.float64)
    return alias(counts), share.log()


def loss_of(over, q, e, log_q):
    """Of a vector and its candidates' embeddings, the wanted one's first."""
    kind, n, temperature, normalise, _, _ = over
    if normalise:
        q, e = F.normalize(q, dim=0), F.normalize(e, dim=1)
    s = e @ q / temperature - log_q
    if kind == "bce":
        return F.softplus(-s[0]) + F.softplus(s[1:]).mean()
    if kind in ("softmax", "all"):
        return -F.log_softmax(s, 0)[0]
    return 1 - s[0] + 150 * F.relu(s[1:] - 0.9).mean()


def hide(s, at):
    """The sample with ids hidden AT places."""
    item = [0 if k in at else i for k, i in enumerate(s["item"])]
    return dict(s, item=item, next=[s["item"][k] for k in at], hidden=at)


def batch_loss(case, P, samples, at):
    model, over = case[0], case[5]
    total, n = 0, 0
    law, log_q = law_of(case, samples) if over else (None, None)
    part = samples[at:at + BATCH]
    if model.__name__ in MASKED:
        part = [hide(s, hidden(SEED, 0, at + b, len(s["item"]), MASKED[model.__name__])) for b, s in enumerate(part)]
    for b, s in enumerate(part):
        if not over:
            z = model(P, s)[0, 0]
            total = total + F.binary_cross_entropy_with_logits(
                z, torch.tensor(float(s["label"][0]), dtype=z.dtype))
            n += 1
            continue
        wanted = s[target_of(case)]
        if not wanted:
            continue
        rows = model(P, s)
        barred = set(s["item"]) | set(wanted) if over[4] else set()
        for j, w in enumerate(wanted):
            q = rows[len(rows) - len(wanted) + j] if len(rows) > 1 or case[0] in (sasrec, hstu) else rows[0]
            if "hidden" in s:
                q = rows[s["hidden"][j]]
            ids = [w] + ([i for i in range(over[5], ROWS["items"]) if i != w] if over[0] == "all" else
                         [i for x in part for i in x[target_of(case)] if i != w] if model.__name__ in IN_BATCH else
                         draw(SEED, 0, at + b, j, w, barred, over[5], ROWS["items"], over[1], law))
            e = P["items"][ids]
            if model.__name__ in TOWER:
                own = [s] + [x for x in part if x["candidate"] != [w]]
                ids = [x["candidate"][0] for x in own]
                e = torch.cat([TOWER[model.__name__](P, x) for x in own])
            total = total + loss_of(over, q, e, log_q[ids])
            n += 1
    return total / n


BAGS = "sparse_arch.embedding_bag_collection.embedding_bags.%s.weight"


def train(name, params, data):
    case, samples = CASES[name], read_data(data)
    P = {k: p.clone().requires_grad_() for k, p in params.items()}
    for t in ROWS:
        if BAGS % t in P:
            P[t] = P[BAGS % t]
    own = [P[k] for k in params]
    sgd = torch.optim.SGD(own, lr=SLOW.get(name, LR))
    losses = []
    for at in range(0, STEPS * BATCH, BATCH):
        sgd.zero_grad()
        loss = batch_loss(case, P, samples, at)
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses, {k: P[k] for k in params}
