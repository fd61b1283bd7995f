"""Models of input/models/*.deck as PyTorch modules, written from their papers
and, where those leave room, FuxiCTR: nothing here knows how tessera computes.

A model reads x (B, n) dense features and e (B, F, d) pooled embeddings, and
wide (B, F) weights of ids where it has WIDE.  It gives what `outputs` names:
logits, or probabilities.  NAMES says where a dense parameter of tessera's
is: its own parts below each other."""
import torch
from torch import nn


def mlp(n, units):
    layers = []
    for u in units:
        layers += [nn.Linear(n, u), nn.ReLU()]
        n = u
    return nn.Sequential(*layers)


def linears(ours, theirs, n, step=1):
    """Names of n linear layers: OURS.(k step), THEIRS.k."""
    return {f"{theirs}.{k}.{p}": [f"{ours}.{k * step}.{p}"]
            for k in range(n) for p in ("weight", "bias")}


def deep(n):
    """Of an mlp "deep" of n layers, as nn.Sequential with its ReLUs."""
    return linears("deep", "deep", n, 2)


def linear(ours, theirs=None):
    return {f"{ours}.0.{p}": [f"{theirs or ours}.{p}"]
            for p in ("weight", "bias")}


def merged(*names):
    return {k: v for n in names for k, v in n.items()}


def side_by_side(x, e):
    return torch.cat([x, e.flatten(1)], 1)


def pairs(n):
    return [(i, j) for i in range(n) for j in range(i + 1, n)]


def mix(gate, x, experts):
    p = torch.softmax(gate(x), 1)
    return sum(p[:, k:k + 1] * y for k, y in enumerate(experts))


class Wide(nn.Module):
    """Weights of ids, one bias."""
    WIDE = True
    NAMES = {"first.0.bias": ["bias"]}

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def first(self, wide):
        return wide.sum(1, keepdim=True) + self.bias


class Lr(Wide):
    NAMES = {"ids.0.bias": ["bias"], "dense_part.0.weight": ["dense.weight"]}

    def __init__(self, s):
        super().__init__()
        self.dense = nn.Linear(s.n, 1, bias=False)

    def forward(self, x, e, wide):
        return [self.first(wide) + self.dense(x)]


def product_sum(e):
    """Bi-interaction: the sum of e_i * e_j for i < j."""
    return sum(e[:, i] * e[:, j] for i, j in pairs(e.shape[1]))


class Fm(Wide):
    def __init__(self, s):
        super().__init__()

    def forward(self, x, e, wide):
        return [self.first(wide) + product_sum(e).sum(1, keepdim=True)]


class WideDeep(Wide):
    NAMES = {**Wide.NAMES, **deep(2), **linear("last")}

    def __init__(self, s):
        super().__init__()
        self.deep = mlp(s.n + s.fields * s.dim, s.units)
        self.last = nn.Linear(s.units[-1], 1)

    def forward(self, x, e, wide):
        return [self.first(wide) + self.last(self.deep(side_by_side(x, e)))]


class DeepFm(WideDeep):
    def forward(self, x, e, wide):
        y, = super().forward(x, e, wide)
        return [y + product_sum(e).sum(1, keepdim=True)]


class Nfm(Wide):
    NAMES = WideDeep.NAMES

    def __init__(self, s):
        super().__init__()
        self.deep = mlp(s.n + s.dim, s.units)
        self.last = nn.Linear(s.units[-1], 1)

    def forward(self, x, e, wide):
        h = torch.cat([x, product_sum(e)], 1)
        return [self.first(wide) + self.last(self.deep(h))]


class Cin(nn.Module):
    """Compressed interaction: a convolution over all products of maps."""

    def __init__(self, fields, maps):
        super().__init__()
        self.conv = nn.ModuleList(
            nn.Conv1d(h * fields, n, 1) for h, n in zip([fields] + maps, maps))

    def forward(self, x0):
        x, sums = x0, []
        for conv in self.conv:
            z = torch.einsum("bhd,bmd->bhmd", x, x0).flatten(1, 2)
            x = conv(z)
            sums.append(x.sum(2))
        return torch.cat(sums, 1)


class XDeepFm(WideDeep):
    NAMES = {**WideDeep.NAMES, **linear("cross"),
             **linears("cin.conv", "cin", 2)}

    def __init__(self, s):
        super().__init__(s)
        self.cin = Cin(s.fields, s.maps)
        self.cross = nn.Linear(sum(s.maps), 1)

    def forward(self, x, e, wide):
        y, = super().forward(x, e, wide)
        return [y + self.cross(self.cin(e))]


class Interacting(nn.Module):
    """AutoInt's layer: heads of attention among fields, and the residual."""

    def __init__(self, n, heads, dim):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.q, self.k, self.v = (
            nn.Linear(n, heads * dim, bias=False) for _ in range(3))
        self.res = None
        if n != heads * dim:
            self.res = nn.Linear(n, heads * dim, bias=False)

    def forward(self, x):
        def split(a):
            return a.unflatten(2, (self.heads, self.dim)).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        p = torch.softmax(q @ k.transpose(2, 3), 3)
        y = (p @ v).transpose(1, 2).flatten(2)
        return torch.relu(y + (self.res(x) if self.res else x))


class AutoInt(nn.Module):
    WIDE = False
    NAMES = {**{f"{name}.0.weight": [f"{name}.{p}.weight" for p in parts]
                for name, parts in (("first", ("q", "k", "v", "res")),
                                    ("second", "qkv"), ("third", "qkv"))},
             **linear("logit")}

    def __init__(self, s):
        super().__init__()
        n = s.heads * s.head_dim
        self.first = Interacting(s.dim, s.heads, s.head_dim)
        self.second = Interacting(n, s.heads, s.head_dim)
        self.third = Interacting(n, s.heads, s.head_dim)
        self.logit = nn.Linear(s.n + s.fields * n, 1)

    def forward(self, x, e):
        return [self.logit(side_by_side(
            x, self.third(self.second(self.first(e)))))]


class Senet(nn.Module):
    def __init__(self, fields, reduction):
        super().__init__()
        few = max(1, fields // reduction)
        self.excite = nn.Sequential(
            nn.Linear(fields, few, bias=False), nn.ReLU(),
            nn.Linear(few, fields, bias=False), nn.ReLU())

    def forward(self, e):
        return e * self.excite(e.mean(2)).unsqueeze(2)


class Bilinear(nn.Module):
    """(W_ij e_i) * e_j."""

    def __init__(self, fields, dim):
        super().__init__()
        self.w = nn.ModuleList(
            nn.Linear(dim, dim, bias=False) for _ in pairs(fields))

    def forward(self, e):
        return torch.cat([w(e[:, i]) * e[:, j] for w, (i, j)
                          in zip(self.w, pairs(e.shape[1]))], 1)


class FiBiNet(Wide):
    NAMES = {**WideDeep.NAMES, "senet.0.weight": ["senet.excite.0.weight"],
             "senet.1.weight": ["senet.excite.2.weight"],
             **{f"{name}.0.weight": [f"{name}.w.{k}.weight" for k in range(6)]
                for name in ("pairs", "spairs")}}

    def __init__(self, s):
        super().__init__()
        self.senet = Senet(s.fields, s.reduction)
        self.pairs = Bilinear(s.fields, s.dim)
        self.spairs = Bilinear(s.fields, s.dim)
        n = s.n + 2 * len(pairs(s.fields)) * s.dim
        self.deep = mlp(n, s.units)
        self.last = nn.Linear(s.units[-1], 1)

    def forward(self, x, e, wide):
        h = torch.cat([x, self.pairs(e), self.spairs(self.senet(e))], 1)
        return [self.first(wide) + self.last(self.deep(h))]


class Deep(nn.Module):
    """An MLP and a logit on what comes before."""
    WIDE = False
    NAMES = {**deep(2), **linear("logit")}

    def __init__(self, n, units):
        super().__init__()
        self.deep = mlp(n, units)
        self.logit = nn.Linear(units[-1], 1)

    def top(self, h):
        return [self.logit(self.deep(h))]


class Pnn(Deep):
    def __init__(self, s):
        super().__init__(
            s.n + s.fields * s.dim + len(pairs(s.fields)), s.units)

    def forward(self, x, e):
        inner = [(e[:, i] * e[:, j]).sum(1, keepdim=True)
                 for i, j in pairs(e.shape[1])]
        return self.top(torch.cat([x, e.flatten(1)] + inner, 1))


class GatedCross(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.c, self.g = nn.Linear(n, n), nn.Linear(n, n, bias=False)

    def forward(self, x0, x):
        return x0 * self.c(x) * torch.sigmoid(self.g(x)) + x


class Gdcn(Deep):
    NAMES = merged(Deep.NAMES, *(
        {f"cross.{2 * k}.weight": [f"cross.{k}.c.weight"],
         f"cross.{2 * k}.bias": [f"cross.{k}.c.bias"],
         f"cross.{2 * k + 1}.weight": [f"cross.{k}.g.weight"]}
        for k in range(3)))

    def __init__(self, s):
        n = s.n + s.fields * s.dim
        super().__init__(n, s.units)
        self.cross = nn.ModuleList(GatedCross(n) for _ in range(3))

    def forward(self, x, e):
        h = x0 = side_by_side(x, e)
        for cross in self.cross:
            h = cross(x0, h)
        return self.top(h)


class MoeCross(nn.Module):
    """x0 * (U tanh(C tanh(V x)) + b) of low-rank experts, mixed by a softmax."""

    def __init__(self, n, experts, rank):
        super().__init__()
        self.gate = nn.Linear(n, experts, bias=False)
        self.v, self.c, self.u = (
            nn.ModuleList(nn.Linear(a, b, bias=False) for _ in range(experts))
            for a, b in ((n, rank), (rank, rank), (rank, n)))
        self.b = nn.Parameter(torch.zeros(n))

    def forward(self, x0, x):
        each = [x0 * (u(torch.tanh(c(torch.tanh(v(x))))) + self.b)
                for v, c, u in zip(self.v, self.c, self.u)]
        return mix(self.gate, x, each) + x


def moe_names(k):
    names = {f"cross.{4 * k + j}.weight": [f"cross.{k}.{p}.{e}.weight"
                                           for e in range(3)]
             for j, p in ((0, "v"), (2, "c"), (3, "u"))}
    return {**names, f"cross.{4 * k + 1}.weight": [f"cross.{k}.gate.weight"],
            f"cross.{4 * k + 3}.bias": [f"cross.{k}.b"]}


class DcnMoe(Deep):
    NAMES = merged(Deep.NAMES, moe_names(0), moe_names(1))
    ACROSS = ("cross.3.weight", "cross.7.weight")  # side by side

    def __init__(self, s):
        n = s.n + s.fields * s.dim
        super().__init__(n, s.units)
        self.cross = nn.ModuleList(MoeCross(n, 3, s.rank) for _ in range(2))

    def forward(self, x, e):
        h = x0 = side_by_side(x, e)
        for cross in self.cross:
            h = cross(x0, h)
        return self.top(h)


class MaskBlock(nn.Module):
    def __init__(self, n, m, units):
        super().__init__()
        self.mask = nn.Sequential(nn.Linear(m, n), nn.ReLU(), nn.Linear(n, n))
        self.w = nn.Linear(n, units, bias=False)
        self.norm = nn.LayerNorm(units)

    def forward(self, x, e):
        return torch.relu(self.norm(self.w(x * self.mask(e))))


def mask_names(k):
    return {f"{k}.0.weight": [f"{k}.mask.0.weight"],
            f"{k}.0.bias": [f"{k}.mask.0.bias"],
            f"{k}.1.weight": [f"{k}.mask.2.weight"],
            f"{k}.1.bias": [f"{k}.mask.2.bias"],
            f"{k}.2.weight": [f"{k}.w.weight"],
            f"{k}.3.weight": [f"{k}.norm.weight"],
            f"{k}.3.bias": [f"{k}.norm.bias"]}


class MaskNet(Deep):
    """The norm of the embeddings, vector by vector, is before the first block
    alone: masks read them as they are."""
    NAMES = merged(deep(1), linear("logit"), linear("norm"),
                   mask_names("first"), mask_names("second"))

    def __init__(self, s):
        m, n = s.fields * s.dim, s.mask_units
        super().__init__(s.n + n, s.units[:1])
        self.norm = nn.LayerNorm(s.dim)
        self.first = MaskBlock(m, m, n)
        self.second = MaskBlock(n, m, n)

    def forward(self, x, e):
        flat = e.flatten(1)
        h = self.first(self.norm(e).flatten(1), flat)
        return self.top(torch.cat([x, self.second(h, flat)], 1))


class FinalMlp(nn.Module):
    """Two streams and a bilinear fusion of their heads."""
    WIDE = False
    NAMES = {**linears("left", "left", 2, 2), **linears("right", "right", 2, 2),
             "logit.0.weight": ["one.weight"], "logit.0.bias": ["one.bias"],
             "logit.1.weight": ["two.weight"], "logit.1.bias": ["two.bias"],
             "logit.2.weight": ["w"]}

    def __init__(self, s):
        super().__init__()
        n, self.heads = s.n + s.fields * s.dim, 2
        self.left, self.right = mlp(n, s.left), mlp(n, s.right)
        a, b = s.left[-1], s.right[-1]
        self.one, self.two = nn.Linear(a, 1), nn.Linear(b, 1)
        self.w = nn.Parameter(torch.zeros(a, b // self.heads))

    def forward(self, x, e):
        h = side_by_side(x, e)
        a, b = self.left(h), self.right(h)
        parts = zip(a.chunk(self.heads, 1), self.w.chunk(self.heads, 0),
                    b.chunk(self.heads, 1))
        both = sum(((p @ w) * q).sum(1, keepdim=True) for p, w, q in parts)
        return [self.one(a) + self.two(b) + both]


class Towers(nn.Module):
    WIDE = False
    TASKS = ("ctr", "cvr")
    NAMES = merged(*(linears(f"tower.{t}", f"tower_{t}", 1, 2) for t in TASKS),
                   *(linear(f"logit_{t}", f"logit.{t}") for t in TASKS))

    def __init__(self, n, units):
        super().__init__()
        self.tower = nn.ModuleDict({t: mlp(n, units) for t in self.TASKS})
        self.logit = nn.ModuleDict(
            {t: nn.Linear(units[-1], 1) for t in self.TASKS})

    def top(self, h):
        return [self.logit[t](self.tower[t](h[t])) for t in self.TASKS]


class Mmoe(Towers):
    N = 3
    NAMES = merged(
        Towers.NAMES,
        *({f"mix.{2 * k + j}.{p}": [f"expert.{k}.{2 * j}.{p}"]
           for j in range(2) for p in ("weight", "bias")} for k in range(N)),
        {"mix.6.weight": ["gate.ctr.weight"],
         "mix.7.weight": ["gate.cvr.weight"]})

    def __init__(self, s):
        super().__init__(s.expert[-1], s.tower)
        n = s.n + s.fields * s.dim
        self.expert = nn.ModuleList(mlp(n, s.expert) for _ in range(self.N))
        self.gate = nn.ModuleDict(
            {t: nn.Linear(n, self.N, bias=False) for t in self.TASKS})

    def forward(self, x, e):
        h = side_by_side(x, e)
        y = [expert(h) for expert in self.expert]
        return self.top({t: mix(self.gate[t], h, y) for t in self.TASKS})


class Cgc(nn.Module):
    """Customized gate control: experts of each task and of all; a task's gate
    mixes its own and those of all, the shared gate every expert."""
    EACH = 2

    def __init__(self, n, u, tasks, shared_out):
        super().__init__()
        self.tasks = tasks

        def experts():
            return nn.ModuleList(mlp(n, [u]) for _ in range(self.EACH))
        self.own = nn.ModuleDict({t: experts() for t in tasks})
        self.shared = experts()
        self.gate = nn.ModuleDict(
            {t: nn.Linear(n, 2 * self.EACH, bias=False) for t in tasks})
        self.shared_gate = None
        if shared_out:
            self.shared_gate = nn.Linear(
                n, self.EACH * (1 + len(tasks)), bias=False)

    def forward(self, h):
        shared = [f(h["shared"]) for f in self.shared]
        own = {t: [f(h[t]) for f in self.own[t]] for t in self.tasks}
        y = {t: mix(self.gate[t], h[t], shared + own[t]) for t in self.tasks}
        if self.shared_gate:
            y["shared"] = mix(self.shared_gate, h["shared"],
                              sum((own[t] for t in self.tasks), shared))
        return y


def cgc_names(level):
    experts = [f"{who}.{k}" for who in ("shared", "own.ctr", "own.cvr")
               for k in range(2)]
    names = {f"{level}.{k}.{p}": [f"{level}_.{e}.0.{p}"]
             for k, e in enumerate(experts) for p in ("weight", "bias")}
    return {**names, f"{level}.6.weight": [f"{level}_.gate.ctr.weight"],
            f"{level}.7.weight": [f"{level}_.gate.cvr.weight"]}


class Ple(Towers):
    NAMES = merged(Towers.NAMES, cgc_names("low"), cgc_names("top"),
                   {"low.8.weight": ["low_.shared_gate.weight"]})

    def __init__(self, s):
        super().__init__(s.high, s.tower)
        n = s.n + s.fields * s.dim
        self.low_ = Cgc(n, s.low, self.TASKS, True)
        self.top_ = Cgc(s.low, s.high, self.TASKS, False)

    def forward(self, x, e):
        h = side_by_side(x, e)
        return self.top(self.top_(self.low_(
            {"ctr": h, "cvr": h, "shared": h})))


class Esmm(nn.Module):
    WIDE = False
    NAMES = merged(*(linears(f"deep.{t}", f"deep_{t}", 2, 2)
                     for t in ("ctr", "cvr")),
                   *(linear(f"logit_{t}", f"logit.{t}") for t in ("ctr", "cvr")))
    PROBABILITY = (False, True)

    def __init__(self, s):
        super().__init__()
        n = s.n + s.fields * s.dim
        self.deep = nn.ModuleDict({t: mlp(n, s.units) for t in ("ctr", "cvr")})
        self.logit = nn.ModuleDict(
            {t: nn.Linear(s.units[-1], 1) for t in ("ctr", "cvr")})

    def forward(self, x, e):
        h = side_by_side(x, e)
        a, b = (self.logit[t](self.deep[t](h)) for t in ("ctr", "cvr"))
        return [a, torch.sigmoid(a) * torch.sigmoid(b)]
