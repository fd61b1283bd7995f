"""parquet.py - files that pyarrow writes, for parquet.sh, and the same samples
as CSV: make FOLDER; hostile FOLDER prints a line "NAME<tab>WORDS" for each
damaged file NAME and what is to be said of it; twins FOLDER prints a line
"FILE FILE [options]" for files of the same samples; adult CSV FILE; rows FILE, a
Parquet file as CSV."""
import datetime
import decimal
import gzip
import os
import random
import sys

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq

N = 3000
WORDS = ["red", "green", "deep blue", "ochre", "teal, dark", "grey", "sand"]


def samples():
    r = random.Random(5)
    t0 = datetime.datetime(2023, 12, 30)
    for i in range(N):
        bag = r.sample(range(40), r.randint(0, 4))
        yield {
            "clicked": r.randrange(2),
            "weight": r.randrange(1, 9) / 4,
            "f32": None if r.random() < .1 else r.randrange(-99, 99) / 8,
            "f64": r.random(),
            "f16": r.randrange(-8, 8) / 2,
            "i64": r.randrange(-1000, 10**6),
            "u8": r.randrange(256),
            "bool": r.random() < .5,
            "money": None if r.random() < .1 else decimal.Decimal(r.randrange(-10**6, 10**6)).scaleb(-2),
            "word": None if r.random() < .1 else r.choice(WORDS),
            "dict": None if r.random() < .1 else r.choice(WORDS),
            "large": "x%d" % r.randrange(300),
            "bytes": b"b%d" % r.randrange(30),
            "id": r.randrange(50),
            "wide": r.randrange(-2**40, 2**40),
            "bag": None if r.random() < .1 else bag,
            "words": [r.choice(WORDS) for _ in range(r.randint(0, 3))],
            "three": [r.randrange(40) for _ in range(3)],
            "map": [("k%d" % k, r.randrange(1, 9) / 4) for k in bag],
            "pairs": [{"id": k, "weight": r.randrange(1, 9) / 4} for k in bag],
            "time": None if r.random() < .1 else t0 + datetime.timedelta(milliseconds=r.randrange(10**11)),
            "date": (t0 + datetime.timedelta(days=r.randrange(-9000, 9000))).date(),
            "day": str(i * 3 // N),
        }


TYPES = {
    "clicked": pa.int8(), "weight": pa.float64(), "f32": pa.float32(), "f64": pa.float64(), "f16": pa.float16(), "i64": pa.int64(),
    "u8": pa.uint8(), "bool": pa.bool_(), "money": pa.decimal128(12, 2), "word": pa.string(), "dict": pa.dictionary(pa.int8(), pa.string()),
    "large": pa.large_string(), "bytes": pa.binary(), "id": pa.int32(), "wide": pa.int64(), "bag": pa.list_(pa.int32()),
    "words": pa.large_list(pa.string()), "three": pa.list_(pa.int16(), 3), "map": pa.map_(pa.string(), pa.float32()),
    "pairs": pa.list_(pa.struct([("id", pa.int64()), ("weight", pa.float64())])), "time": pa.timestamp("ms"), "date": pa.date32(),
    "day": pa.string(),
}


def table(rows):
    return pa.table({k: pa.array([r[k] for r in rows], t) for k, t in TYPES.items()})


def cell(x):
    if x is None:
        return ""
    if isinstance(x, bool):
        return str(int(x))
    if isinstance(x, bytes):
        return x.decode()
    if isinstance(x, datetime.datetime):
        return x.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
    if isinstance(x, (list, tuple)):
        pairs = [(e["id"], e["weight"]) if isinstance(e, dict) else e for e in x]
        return "|".join("%s:%s" % e if isinstance(e, tuple) else str(e) for e in pairs)
    return repr(x) if isinstance(x, float) else str(x)


def write_csv(path, rows):
    with open(path, "w") as f:
        print(*rows[0], sep=",", file=f)
        for r in rows:
            print(*('"%s"' % cell(x) if "," in cell(x) else cell(x) for x in r.values()), sep=",", file=f)


def make(folder):
    os.chdir(folder)
    rows = list(samples())
    t = table(rows)
    write_csv("all.csv", rows)
    pq.write_table(t, "all.parquet", row_group_size=700)
    pq.write_table(t, "plain.parquet", row_group_size=256, use_dictionary=False, compression="none", data_page_version="2.0",
                   store_schema=False, version="1.0")
    pq.write_table(t, "zstd.parquet", row_group_size=1000, compression="zstd", write_page_index=True, use_byte_stream_split=False)
    with pa.ipc.new_file("all.arrow", t.schema) as f:
        f.write_table(t, max_chunksize=511)
    pa.feather.write_feather(t, "all.feather", compression="lz4", chunksize=901)
    for k in range(3):
        part = [r for r in rows if r["day"] == str(k)]
        os.makedirs("days/day=%d" % k)
        for at, name in ((0, "a"), (400, "b"), (len(part), "c")):
            end = {"a": 400, "b": len(part), "c": len(part)}[name]
            pq.write_table(table(part[at:end]).drop_columns(["day"]), "days/day=%d/%s.parquet" % (k, name), row_group_size=300)
    open("days/_SUCCESS", "w").close()
    # Of other widths, and with the columns in another order.
    pq.write_table(t.slice(0, 1500), "half-0.parquet")
    other = t.slice(1500).select(sorted(t.column_names))
    for name, kind in (("id", pa.int64()), ("f32", pa.float64()), ("word", pa.dictionary(pa.int32(), pa.string()))):
        at = other.schema.get_field_index(name)
        other = other.set_column(at, name, other[name].cast(kind))
    pq.write_table(other, "half-1.parquet")
    pq.write_table(t.drop_columns(["clicked"]), "bare.parquet")
    # Labels that are none in all row groups; ids that are no rows are in both.
    bad = [dict(r, clicked=2 if i % 41 == 3 else r["clicked"]) for i, r in enumerate(rows)]
    write_csv("bad.csv", bad)
    pq.write_table(table(bad), "bad.parquet", row_group_size=700)


def footer(data):
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def hostile(folder):
    os.chdir(folder)
    t = table(list(samples())[:400]).select(["clicked", "i64", "id", "word", "bag"])
    pq.write_table(t, "right.parquet", row_group_size=100, compression="none", write_page_checksum=False)
    data = open("right.parquet", "rb").read()
    foot = footer(data)
    cases = []

    def case(name, words, content, end="parquet"):
        open("%s.%s" % (name, end), "wb").write(content)
        cases.append((name + "." + end, words))

    case("right", "", data)
    case("empty", "", b"")
    cases[-1] = ("empty.parquet", "empty.parquet: ")
    case("magic", "magic.parquet: ", b"PAR1" + bytes(4000))
    case("cut", "cut.parquet: ", data[:len(data) // 2])
    case("headless", "headless.parquet: ", data[:foot])
    case("long_footer", "long_footer.parquet: ", data[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1")
    case("zero_footer", "zero_footer.parquet: ", data[:foot] + bytes(len(data) - 8 - foot) + data[-8:])
    case("ones_footer", "ones_footer.parquet: ", data[:foot] + b"\xff" * (len(data) - 8 - foot) + data[-8:])
    case("no_pages", "no_pages.parquet: ", data[:4] + bytes(foot - 4) + data[foot:])
    case("ones_pages", "ones_pages.parquet: ", data[:4] + b"\xff" * (foot - 4) + data[foot:])
    case("shifted", "shifted.parquet: ", data[:4] + data[36:foot] + bytes(32) + data[foot:])
    case("encrypted", "encrypted.parquet: ", b"PARE" + data[4:-4] + b"PARE")
    case("packed", "packed.parquet: ", gzip.compress(data))
    case("lines", "lines.parquet: ", b"clicked,i64,id,word,bag\n" + b"1,2,3,four,5\n" * 400)
    case("behind", "behind.parquet: ", data + bytes(100))
    case("before", "before.parquet: ", b"PAR1 and more" + data)
    case("last_byte", "last_byte.parquet: ", data[:-1])

    def other(name, words, **columns):
        x = t
        for k, v in columns.items():
            x = x.set_column(x.schema.get_field_index(k), k, v)
        pq.write_table(x, name + ".parquet", row_group_size=100)
        cases.append((name + ".parquet", words))

    other("label_two", 'label_two.parquet: row 7: column "clicked": the label is neither 0 nor 1: "2"',
          clicked=pa.array([2 if i == 7 else 1 for i in range(400)]))
    other("label_null", 'label_null.parquet: row 123: column "clicked": the label is neither 0 nor 1: ""',
          clicked=pa.array([None if i == 123 else 1 for i in range(400)]))
    other("infinite", 'infinite.parquet: row 301: column "i64": a numeric field is no number: "inf"',
          i64=pa.array([float("inf") if i == 301 else 1. for i in range(400)]))
    other("text", 'text.parquet: row 0: column "i64": a numeric field is no number: "12 m"', i64=pa.array(["12 m"] * 400))
    other("number_list", 'column "i64" has lists, and is to be a number', i64=pa.array([[1]] * 400))
    other("deep", 'column "bag" has lists in its lists', bag=pa.array([[[1]]] * 400))
    other("structs", 'column "bag" has structs that are no pairs', bag=pa.array([[{"a": 1, "b": 2, "c": 3}]] * 400))
    other("struct", 'column "id" is of a type that is neither', id=pa.array([{"a": 1}] * 400))
    other("weights", 'column "bag" has weights beside its ids', bag=pa.array([[{"id": 1, "w": .5}]] * 400))
    other("row", 'row.parquet: row 3: feature id: id 50 is not a row of table id, which has 50 rows',
          id=pa.array([50 if i == 3 else 1 for i in range(400)]))
    other("negative", 'negative.parquet: row 5: feature bag: id -1 is not a row of table bag', bag=pa.array([[1, -1] if i == 5 else [1] for i in range(400)]))
    other("half_id", 'row 0: column "id": an id is no whole number: "0.5"', id=pa.array([.5] * 400))
    pq.write_table(t.drop_columns(["bag"]).append_column("bags", t["bag"]), "lacks.parquet")
    cases.append(("lacks.parquet", 'lacks.parquet: has no column "bag"; did you mean "bags"?'))
    pq.write_table(t.append_column("id", t["id"]), "twice.parquet")
    cases.append(("twice.parquet", 'twice.parquet: the header has 2 columns "id"'))
    pq.write_table(t.slice(0, 0), "none.parquet")
    cases.append(("none.parquet", "the data has no samples"))

    with pa.ipc.new_file("own.arrow", t.schema) as f:
        f.write_table(t, max_chunksize=100)
    own = open("own.arrow", "rb").read()
    case("own_cut", "own_cut.arrow: ", own[:len(own) // 2], "arrow")
    case("own_magic", "own_magic.arrow: ", own[:-6], "arrow")
    case("own_ones", "own_ones.arrow: ", own[:8] + b"\xff" * (len(own) - 16) + own[-8:], "arrow")
    case("first_version", "first_version.feather: ", b"FEA1" + bytes(2000) + b"FEA1", "feather")
    case("own_zeros", "own_zeros.arrow: ", own[:8] + bytes(len(own) - 16) + own[-8:], "arrow")
    # Offsets of a list, and indices of a dictionary, that leave what they are of.
    offsets = t["bag"].combine_chunks().offsets.to_pylist()[:101]
    right = b"".join(x.to_bytes(4, "little") for x in offsets[1:])
    assert right in own
    case("wild", "wild.arrow: row group 0: ", own.replace(right, b"".join((x * 10**6).to_bytes(4, "little") for x in offsets[1:])), "arrow")
    case("back", "back.arrow: row group 0: ", own.replace(right, right[:40] + bytes(4) + right[44:]), "arrow")
    words = pa.array([7] * 400, pa.int32())
    dictionary = pa.DictionaryArray.from_arrays(words, pa.array(WORDS + ["end"]))
    with pa.ipc.new_file("words.arrow", t.schema.set(3, pa.field("word", dictionary.type))) as f:
        f.write_table(t.set_column(3, "word", dictionary))
    data = open("words.arrow", "rb").read()
    case("words", "words.arrow: row group 0: ", data.replace(words.buffers()[1].to_pybytes()[:1600], (8).to_bytes(4, "little") * 400), "arrow")
    # An index in a run of the last word's, in Parquet.
    word = pa.array(WORDS + WORDS[-1:] * 393)
    pq.write_table(t.set_column(3, "word", word), "run.parquet", compression="none")
    data = open("run.parquet", "rb").read()
    run = bytes([392 * 2 & 127 | 128, 392 * 2 >> 7, 6])
    assert data.count(run) == 1
    case("index", 'index.parquet: row group 0: column "word" is damaged: it has words that its dictionary lacks', data.replace(run, run[:2] + b"\7"))
    for name, words in cases:
        print(name, words, sep="\t")


def twins(folder):
    """Files that are the same to who trains on them."""
    os.chdir(folder)
    t = table(list(samples())[:400]).select(["clicked", "i64", "id", "word", "bag"])

    def write(name, column, array):
        x = t.set_column(t.schema.get_field_index(column), column, array)
        with pa.ipc.new_file(name, x.schema) as f:
            f.write_table(x)

    for name, word in (("utf8", "é€😀".encode()), ("latin", b"\xe9t\xe9")):
        pq.write_table(t.set_column(3, "word", pa.array([b"x", word] * 200)), name + ".parquet")
    # One word of a number, or a time, whatever its type.
    whole = [(i - 200) * 12345 for i in range(400)]
    write("w_i64.arrow", "word", pa.array(whole))
    for name, kind in (("w_f32.arrow", pa.float32()), ("w_f64.arrow", pa.float64())):
        write(name, "word", pa.array([-0. if x == 0 else x for x in whole], kind))
        print("w_i64.arrow", name)
    write("w_text.arrow", "word", pa.array([str(x * 10**9) for x in whole]))
    write("w_large.arrow", "word", pa.array([x * 10**9 for x in whole], pa.float64()))
    print("w_text.arrow", "w_large.arrow")
    t0 = datetime.datetime(1969, 12, 31, 23, 59, 59)
    times = [t0 + datetime.timedelta(milliseconds=10 * i) for i in range(400)]
    write("w_stamp.arrow", "word", pa.array([str(x).rstrip("0") if x.microsecond else str(x) for x in times]))
    for name, unit in (("w_ms.arrow", "ms"), ("w_ns.arrow", "ns")):
        write(name, "word", pa.array(times, pa.timestamp(unit)))
        print("w_stamp.arrow", name)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(i) for i in range(400)]
    write("w_day.arrow", "word", pa.array([str(x) for x in days]))
    for name, kind in (("w_date32.arrow", pa.date32()), ("w_date64.arrow", pa.date64())):
        write(name, "word", pa.array(days, kind))
        print("w_day.arrow", name)
    # Pairs that are missing over ids that are there.
    ids, weights = pa.array([i % 50 for i in range(1200)]), pa.array([.5] * 1200)
    offsets, gone = pa.array(range(0, 1201, 3), pa.int32()), [i % 3 == 1 for i in range(1200)]
    pairs = pa.StructArray.from_arrays([ids, weights], ["id", "weight"], mask=pa.array(gone))
    write("p_gone.arrow", "bag", pa.ListArray.from_arrays(offsets, pairs))
    write("p_not.arrow", "bag", pa.array([[{"id": k % 50, "weight": .5} for k in (3 * i, 3 * i + 2)] for i in range(400)]))
    print("p_gone.arrow", "p_not.arrow", "--set tables.bag.weighted=true")


def adult(source, to):
    lines = [[x.strip() for x in line.split(",")] for line in open(source) if line.strip()]
    whole = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
    columns = dict(zip(lines[0], zip(*lines[1:])))
    pq.write_table(pa.table({k: pa.array([int(x) for x in v] if k in whole else v) for k, v in columns.items()}), to, row_group_size=5000)


def rows(path):
    t = pq.read_table(path) if path.endswith(".parquet") else pa.ipc.open_file(path).read_all()
    print(*t.column_names, sep=",")
    for r in t.to_pylist():
        print(*("%.6g" % x if isinstance(x, float) else x for x in r.values()), sep=",")


{"make": make, "hostile": hostile, "twins": twins, "adult": adult, "rows": rows}[sys.argv[1]](*sys.argv[2:])
