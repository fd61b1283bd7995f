"""convert_sequences.py - what `tessera convert --sequences` has to write, worked
out event by event.

    convert_sequences.py make FOLDER     logs of all shapes
    convert_sequences.py check CASES     a line a case: PREFIX LOG OPTIONS..."""
import argparse, collections, gzip, os, random, sys

# What a log says of an event; sides: what its side columns have.
Event = collections.namedtuple("Event", "user item time sides later")
# before: the events of item or seen; asked: the one at whose time a model is.
Sample = collections.namedtuple("Sample", "user before next asked")


def make(folder):
    rnd = random.Random(7)
    users, items = range(40), range(3, 63)
    events = []
    for u in users:
        n = [0, 1, 2, 3, 4, 5][u] if u < 6 else rnd.randrange(2, 30)
        events += [(u * 3, rnd.choice(items) * 5, rnd.randrange(-40, 40)) for _ in range(n)]
    rnd.shuffle(events)

    def put(name, lines, end="\n", start=""):
        text = (start + end.join(lines) + end).encode()
        (gzip.open if name.endswith(".gz") else open)(os.path.join(folder, name), "wb").write(text)

    put("events.txt", ["%d %d" % e[:2] for e in events])
    put("blanks.txt", ["%d\t \t%d  " % e[:2] if i else "%d  %d" % e[:2] for i, e in enumerate(events)], "\n\n")
    put("timed.tsv", ["%d\t%d\t%d" % e for e in events])
    put("dat.gz", ["%d::%d::5::%d" % e for e in events])
    put("fractions.csv", ["when,user_id,score,item_id"] + ["%s,%d,9,%d" % (t if i < 50 else t + 0.5, u, v) for i, (u, v, t) in enumerate(events)], "\r\n", "\ufeff")
    # Times so close that doubles don't tell them apart.
    put("close.txt", ["%d %d %d" % (u, v, 1700000000000000000 + t) for u, v, t in events])
    put("words.csv", ["User,Item", '"u, 0","i 1"'] + ["u%d,i %d" % e[:2] for e in events])
    put("mixed.txt", ["u v"] + ["%d i%d" % e[:2] for e in events[:-1]] + ["%d 07" % events[-1][0]])
    put("zeros.txt", ["%d %d" % e[:2] for e in events[:-1]] + ["%d 07" % events[-1][0]])
    put("tagged.txt", ["user%d item%d" % e[:2] for e in events])
    by_user = collections.defaultdict(list)
    for u, v, _ in events:
        by_user[u].append(v)
    put("lists.txt", ["%d %s" % (u, " ".join(map(str, vs))) for u, vs in by_user.items()] + ["77"])
    # A split that is given: other users and items, times that overlap.
    cut = len(events) * 2 // 3
    for name, some in ("early", events[:cut]), ("late", events[cut:] + [(1000, 2, 5), (1000, 3, 4)]):
        put(name + ".txt", ["%d %d %d" % e for e in some])
        put(name + ".csv", ["u%d,i%d" % e[:2] for e in some])
        few = collections.defaultdict(list)
        for u, v, _ in some:
            few[u].append(v)
        put(name + "-lists.txt", ["%d %s" % (u, " ".join(map(str, vs))) for u, vs in few.items()])
    # Further columns: a word of its own for each item, words that come with all,
    # integers, and all but integers; times with many ties.
    sides = [(u, v, (t + 40) // 8, "p%d" % v, "k%d" % rnd.randrange(9), rnd.randrange(50) * 3, "07" if i == 90 else i % 7) for i, (u, v, t) in enumerate(events)]
    head = ["kind,user,item,at,place,price,code"]
    lines = ["%s,%d,%d,%d,%s,%d,%s" % (k, u, v, t, p, n, c) for u, v, t, p, k, n, c in sides]
    put("sides.csv", head + lines)
    put("sides.tsv", [line.replace(",", "\t") for line in lines])
    put("early-sides.csv", head + lines[:cut])
    put("late-sides.csv", ["at,item,new,user,price,place"] + ["%d,%d,0,%d,%d,q%s" % (t, v, u, n + 1, p) for u, v, t, p, k, n, c in sides[cut:]] + ["9,2,0,1000,8,p1"])
    put("lists.csv", ["%d,%s" % (u, ",\t".join(map(str, vs))) for u, vs in by_user.items()])


def read(log, o):
    """(user, item, time, sides) of events as the log has them, in its order."""
    text = (gzip.open if log.endswith(".gz") else open)(log, "rb").read().decode("utf-8-sig")
    rows = [line for line in text.replace("\r", "").split("\n") if line.strip()]
    if o.lists:
        rows = [row.replace(",", " ").split() for row in rows]
        return [(row[0], item, 0, ()) for row in rows for item in row[1:]]
    name = os.path.basename(log)
    if name == "words.csv":
        rows = ["u, 0\0i 1"] + [row.replace(",", "\0") for row in rows[2:]]
        rows = [row.split("\0") for row in rows]
    elif name == "mixed.txt":
        rows = [row.split() for row in rows[1:]]
    else:
        rows = [row.replace("::", " ").replace(",", " ").split() for row in rows]
    columns = (o.columns or ",".join("123"[: len(rows[0])])).split(",")
    n = len(columns)
    columns += o.side
    header = [c for c in columns if not c.isdigit()]
    at = [rows[0].index(c) if c in header else int(c) - 1 for c in columns]
    rows = rows[1:] if header else rows
    number = lambda t: int(t) if t.lstrip("-").isdigit() else float(t)
    return [(r[at[0]], r[at[1]], number(r[at[2]]) if n > 2 else 0, tuple(r[k] for k in at[n:])) for r in rows]


def core(events, least):
    while True:
        users = collections.Counter(e.user for e in events)
        items = collections.Counter(e.item for e in events)
        kept = [e for e in events if users[e.user] >= least and items[e.item] >= least]
        if len(kept) == len(events):
            return kept
        events = kept


def ids_of(words, kept):
    """{word: id}, and whether they are words."""
    if all(w == str(int(w)) if w.isdigit() else False for w in words):
        return {w: int(w) for w in kept}, False
    in_order = [w for w in dict.fromkeys(words) if w in kept]
    return {w: i + 1 for i, w in enumerate(in_order)}, True


def parts_of(histories, o):
    """{part: [Sample]}"""
    parts = {"train": [], "valid": [], "test": []}
    for user, s in sorted(histories.items()):
        if o.targets == "users":
            parts["test"].append(Sample(user, None, s, None))
            continue
        if o.test or o.split_at is not None:
            m = sum(not e.later if o.test else e.time < o.split_at for e in s)
            train, valid, test = s[:m], [], s[m:]
        elif o.leave and len(s) > o.leave:
            left = s[-o.leave:]
            train = s[: -o.leave]
            valid, test = (left[:1], left[1:]) if o.leave > 1 else ([], left)
        else:
            train, valid, test = s, [], []
        if o.targets == "pairs":
            parts["train"] += [Sample(user, [], [x], None) for x in train]
            if valid:
                parts["valid"].append(Sample(user, train, valid, None))
            if test:
                parts["test"].append(Sample(user, train + valid, test, None))
            continue
        newest = lambda x: x[-o.max_length:] if o.max_length else x
        if o.targets == "masked":
            parts["train"] += [Sample(user, newest(train), [], train[-1])] if train else []
        elif len(train) > 1:
            parts["train"].append(Sample(user, newest(train[:-1]), newest(train[1:]), train[-1]))
        if valid and train:
            parts["valid"].append(Sample(user, newest(train), valid, valid[0]))
        if test and train + valid:
            parts["test"].append(Sample(user, newest(train + valid), test, test[0]))
    return parts


def bags(f, name, n):
    values = list(f["sparse/%s/values" % name][()])
    offsets = list(f["sparse/%s/offsets" % name][()]) if "sparse/%s/offsets" % name in f else list(range(n + 1))
    assert len(offsets) == n + 1 and offsets[0] == 0 and offsets[-1] == len(values), name
    return [values[a:b] for a, b in zip(offsets, offsets[1:])]


def strangers(nexts, samples, had, items, n):
    """What stands behind each target; the targets alone."""
    targets, drawn = [], []
    for row, (user, _, want, _) in zip(nexts, samples):
        assert len(row) == len(want) * (1 + n), "targets of user %d" % user
        targets.append(row[:: 1 + n])
        for k in range(len(want)):
            new = row[k * (1 + n) + 1 : (k + 1) * (1 + n)]
            assert len(set(new)) == n and set(new) <= items - had[user], "user %d" % user
            drawn.append((user, k, *new))
    return targets, drawn


def check_part(path, samples, o, negatives, had, items):
    import h5py, numpy
    f = h5py.File(path, "r")
    n = len(samples)
    assert f.attrs["num_samples"] == n and f["labels"].shape == (n,) and not f["labels"][()].any(), path
    assert f["labels"].dtype == numpy.float32
    assert [x[0] for x in bags(f, "user", n)] == [s.user for s in samples], "users"
    nexts = bags(f, "next", n)
    targets, drawn = strangers(nexts, samples, had, items, negatives) if negatives else (nexts, [])
    assert targets == [[e.item for e in s.next] for s in samples], "next"
    beside = {}
    if o.targets != "users":
        beside["seen" if o.targets == "pairs" else "item"] = [[e.item for e in s.before] for s in samples]
    for k, name in enumerate(o.side):
        beside[feature_of(name)] = [[e.sides[k] for e in s.before] for s in samples]
    if o.times:
        beside["time"] = [[e.time for e in s.before + [s.asked]] for s in samples]
    assert set(f["sparse"]) == {"user", "next", *beside}, list(f["sparse"])
    for name, want in beside.items():
        assert bags(f, name, n) == want, name
        assert f["sparse/" + name].attrs["max_id"] == max([-1] + [x for s in want for x in s]), name
    assert f["sparse/user"].attrs["max_id"] == max(s.user for s in samples)
    assert f["sparse/next"].attrs["max_id"] == (max(items) if negatives else max([-1] + [i for x in nexts for i in x]))
    return drawn


def feature_of(column):
    return "side" + column if column.isdigit() else column


def check_words(path, name, ids, are_words):
    import csv
    assert os.path.exists(path) == are_words, path
    if are_words:
        rows = list(csv.reader(open(path, newline="")))
        assert rows == [[name, "word"]] + [[str(i), w] for w, i in sorted(ids.items(), key=lambda x: x[1])], path


def check(prefix, log, options):
    p = argparse.ArgumentParser()
    p.add_argument("--lists", action="store_true")
    p.add_argument("--columns")
    p.add_argument("--test")
    p.add_argument("--side", type=lambda names: names.split(","), default=[])
    p.add_argument("--times", action="store_true")
    p.add_argument("--targets", default="shift")
    p.add_argument("--split-at", type=float)
    for name, usual in ("leave", 2), ("max-length", 0), ("min-count", 1), ("negatives", 0), ("seed", 1):
        p.add_argument("--" + name, type=int, default=usual)
    o = p.parse_args(options)
    every = [Event(*e, False) for e in read(log, o)]
    if o.test:
        every += [Event(*e, True) for e in read(o.test, o)]
    events = core(every, o.min_count)
    users, user_words = ids_of([e.user for e in every], {e.user for e in events})
    items, item_words = ids_of([e.item for e in every], {e.item for e in events})
    sides = [ids_of([e.sides[k] for e in every], {e.sides[k] for e in events}) for k in range(len(o.side))]
    histories = collections.defaultdict(list)
    for e in events:
        numbers = tuple(ids[word] for (ids, _), word in zip(sides, e.sides))
        histories[users[e.user]].append(Event(users[e.user], items[e.item], e.time, numbers, e.later))
    for h in histories.values():
        h.sort(key=lambda e: (e.later, e.time))
    had = {u: {e.item for e in h} for u, h in histories.items()}
    drawn = {}
    for part, samples in parts_of(histories, o).items():
        path = "%s.%s.h5" % (prefix, part)
        assert os.path.exists(path) == bool(samples), path
        if samples:
            drawn[part] = check_part(path, samples, o, 0 if part == "train" else o.negatives, had, set(items.values()))
    check_words(prefix + ".users.csv", "user", users, user_words)
    check_words(prefix + ".items.csv", "item", items, item_words)
    for name, (ids, words) in zip(map(feature_of, o.side), sides):
        check_words("%s.%s.csv" % (prefix, name), name, ids, words)
    left = [x for x in os.listdir(os.path.dirname(prefix)) if x.endswith(".part")]
    assert not left, left
    return drawn, items


def check_all(cases):
    drawn = {}
    for line in open(cases):
        prefix, log, *options = line.split()
        try:
            drawn[os.path.basename(prefix)] = check(prefix, log, options)
        except AssertionError as e:
            raise SystemExit("%s\n%s: not what it has to be: %s" % (line, prefix, e))
    # The draws hang on seed and user, not on anything else; and are uniform.
    d = {k: v[0] for k, v in drawn.items() if k.startswith("n-")}
    assert d["n-one"] == d["n-again"] == d["n-short"], "the same draws"
    assert d["n-one"] != d["n-seed"] and d["n-one"]["valid"] != d["n-one"]["test"], "other draws"
    assert set(d["n-one"]["test"]) < set(d["n-leave"]["test"]), "test is the same without valid, which takes an event more"
    times = collections.Counter(x for part in ("valid", "test") for new in d["n-many"][part] for x in new[2:])
    mean = sum(times.values()) / len(drawn["n-many"][1])
    assert len(times) == len(drawn["n-many"][1]) and all(0.5 * mean < t < 1.6 * mean for t in times.values()), times


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    check_all(sys.argv[2])
