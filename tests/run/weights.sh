#!/bin/sh
# weights.sh - runs that begin with weights of other programs: safetensors for
# the whole model, and files of rows for tables; on any ranks and shardings the
# same, and what can't be read in one message.  seconds: 600
. "$srcdir/tests/support/common.sh"
command -v h5dump > /dev/null || { echo "h5dump (hdf5-tools) is not here"; exit 77; }
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
cd "$work" || exit 99
{ echo "click,color,shape"
  for i in 1 2 3 4 5 6 7 8; do for w in amber blue coral denim "deep sea" ebony flint; do echo "$((${#w} % 2)),$w,s$((i % 3))"; done; done
} > words.csv
cat > words.deck <<DECK
run = { name = "words"; seed = 3; steps = 1; threads = 1; };
data = { train = "words.csv"; global_batch = 16;
         csv = { label = "click"; encoding = "vocabulary"; }; };
tables = ( { name = "color"; rows = 11; dim = 8; features = ["color"]; },
           { name = "shape"; rows = 5; dim = 8; features = ["shape"]; dtype = "bf16"; } );
table_defaults = { optimizer = { lr = 0.0; }; };
model = { kind = "dlrm"; dense_features = 0; over_arch = [8, 1]; };
optimizer = { kind = "adam"; lr = 0.0; };
sharding = { topology = "default"; };
DECK
run() { # RANKS FOLDER [options]: code of the run, its output in FOLDER.out
  n=$1; into=$2; shift 2
  ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" train words.deck --set run.output="$work/$into" "$@" > "$into.out" 2>&1 || { rc=$?; cat "$into.out"; return $rc; }
}
says() { grep -qF -- "$2" "$1.out" || { cat "$1.out"; return 1; }; }
silent() { ! grep -F -- "$2" "$1.out"; }
refuses() { # CODE TEXT RANKS FOLDER [options]: with one message
  want=$1 text=$2; shift 2
  run "$@" > /dev/null; got=$?
  [ $got = "$want" ] && [ "$(grep -c 'tessera: error' "$2.out")" = 1 ] && grep -qF -- "$text" "$2.out" && return
  echo "code $got ($want is right), no \"$text\" in:"; cat "$2.out"; return 1
}
# weights.py: the file's tensors are value(number of the name, element), which
# all types hold exactly.
cat > weights.py <<'PY'
import array, json, struct, subprocess, sys
bags = "sparse_arch.embedding_bag_collection.embedding_bags."
over = "over_arch.model."
full = {bags + "color.weight": (11, 8), bags + "shape.weight": (5, 8),
        over + "0._mlp.0._linear.weight": (8, 1), over + "0._mlp.0._linear.bias": (8,),
        over + "1.weight": (1, 8), over + "1.bias": (1,)}
def value(name, i):
    return ((sum(map(ord, name)) * 31 + i * 7) % 127 - 63) / 64
def count(shape):
    n = 1
    for d in shape: n *= d
    return n
def pack(dtype, x):
    if dtype == "BF16": return b"".join(struct.pack("<f", v)[2:] for v in x)
    return struct.pack("<%d%s" % (len(x), {"F32": "f", "F64": "d", "F16": "e", "I64": "q"}[dtype]), *x)
# NAME: what it is called in the file, dtype, shape, numbers.
def save(path, tensors, edit=lambda h: h):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, dtype, shape, x in tensors:
        raw = pack(dtype, x)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
def whole(call=lambda n: n, types=("F32",)):
    return [(call(n), types[k % len(types)], s, [value(n, i) for i in range(count(s))]) for k, (n, s) in enumerate(full.items())]
def npy(path, descr, rows, cols, x, order="False"):
    h = "{'descr': '%s', 'fortran_order': %s, 'shape': (%d, %d), }" % (descr, order, rows, cols)
    h += " " * (-(len(h) + 11) % 64) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h.encode() + pack({"<f4": "F32", "<f8": "F64", "<f2": "F16"}[descr], x))
# A checkpoint's numbers, as text that says all of them.
def read(path, name):
    out = subprocess.run(["h5dump", "-d", "/model/" + name, "-y", "-w", "100000", "-m", "%.9g", path], check=True, capture_output=True, text=True).stdout
    return [float(x) for x in out[out.index("DATA {") + 6:].replace("}", "").replace(",", " ").split()]
def row(path, table, i, dim=8):
    return read(path, bags + table + ".weight")[i * dim:(i + 1) * dim]
exec(sys.argv[1])
PY
py() { python3 weights.py "$@"; }
all_values='c = sys.argv[2]
for n, s in full.items(): assert read(c, n) == [value(n, i) for i in range(count(s))], (n, read(c, n))'

# ---- checkpoint.init_from ---------------------------------------------------------
from() { file=$1; shift; run "$@" --set checkpoint.init_from="$file.safetensors"; }
check "seed alone" run 1 seed
check "files" py '
def bare(n): return n.replace(bags, "") if n.startswith(bags) else "module." + n
def inner(n): return n.replace(bags, "model.embeddings.") if n.startswith(bags) else "model." + n
save("full.safetensors", whole(types=("F32", "F16", "BF16", "F64")))
save("bare.safetensors", whole(bare, types=("F64", "F32")) + [("steps", "I64", (), [7]), ("other.weight", "F32", (2, 2), [0] * 4)])
save("inner.safetensors", whole(inner))
save("part.safetensors", [t for t in whole() if "over" in t[0] or "color" in t[0]])
save("decoy.safetensors", [("model." + over + "1.bias", "F32", (1,), [9])] + whole())'
for n in 1 2 4; do
  check "full names on $n" from full $n full$n
  check "all weights on $n" py "$all_values" "$(newest full$n)"
done
check "it says so" says full1 "initial weights from $work/full.safetensors"
check "nothing is left" silent full1 "NOTE: not in that file"
check "rows by number are said" says full1 "are of other words where the numbers differ: color, shape"
for kind in row_wise column_wise data_parallel table_wise; do
  check "$kind" from full 3 $kind --set table_defaults.sharding=$kind --set sharding.min_column=4
  check "$kind has all" py "$all_values" "$(newest $kind)"
done
check "parts of layers" from full 2 sharded --set dense.parallel=fully_sharded
check "all of them" py "$all_values" "$(newest sharded)"
check "trained rows, sums of both" from full 2 none --set table_defaults.optimizer.kind=none --set table_defaults.dtype=f32 --set tables.shape.dtype=f32
check "all of these" py "$all_values" "$(newest none)"
check "rows behind a cache" from full 2 cached --set table_defaults.kernel=cached --set table_defaults.cache.tier=file --set run.tier_dir="$work" --set pipeline.kind=prefetch
check "all of those" py "$all_values" "$(newest cached)"
for f in bare inner; do
  check "names: $f" from $f 2 $f
  check "weights of $f" py "$all_values" "$(newest $f)"
done
check "two are left" says bare "NOTE: 2 tensors of that file are not of the model and were left out: steps, other.weight"
check "a part" from part 2 part
check "the rest is named" says part "drawn from the seed: model/sparse_arch.embedding_bag_collection.embedding_bags.shape.weight"
check "and is the seed's" py 'n = bags + "shape.weight"; assert read(sys.argv[2], n) == read(sys.argv[3], n)' "$(newest part)" "$(newest seed)"
check "full names first" from decoy 1 decoy
check "the decoy is left" says decoy "left out: model.over_arch.model.1.bias"
check "weights beside the decoy" py "$all_values" "$(newest decoy)"
check "as many rows as the file" from full 2 auto --set tables.color.rows=auto --set tables.shape.rows=auto
check "all of the file's" py "$all_values" "$(newest auto)"
check "not on a resume" from full 2 full2 --set run.steps=2
check "which says nothing of it" silent full2 "initial weights"

# ---- what is refused ---------------------------------------------------------------
check "wrong files" py '
save("rows.safetensors", [("color.weight", "F32", (12, 8), [0] * 96)])
save("rank.safetensors", [(over + "1.bias", "F32", (1, 1), [0])])
save("type.safetensors", [(over + "1.bias", "I64", (1,), [0])])
save("strange.safetensors", [("a", "F32", (1,), [0]), ("b", "F32", (1,), [0])])
whole = open("full.safetensors", "rb").read()
open("cut.safetensors", "wb").write(whole[:-1])
open("empty.safetensors", "wb").write(b"")
open("text.safetensors", "wb").write(b"these are no weights")'
for n in 1 2; do
  check "shape on $n" refuses 4 'tensor color.weight is (12, 8) in the file, and model/sparse_arch.embedding_bag_collection.embedding_bags.color.weight of the deck'"'"'s model (11, 8)' $n refused --set checkpoint.init_from=rows.safetensors
  check "truncated on $n" refuses 4 "the file is damaged, or its end missing" $n refused --set checkpoint.init_from=cut.safetensors
done
check "rank" refuses 4 'is (1, 1) in the file, and model/over_arch.model.1.bias of the deck'"'"'s model (1)' 1 refused --set checkpoint.init_from=rank.safetensors
check "type" refuses 4 'tensor over_arch.model.1.bias is of type I64: F32, F64, F16 and BF16 can be read' 1 refused --set checkpoint.init_from=type.safetensors
check "nothing of the model" refuses 4 "strange.safetensors: holds nothing of the deck's model: it has a, b; the model wants model/sparse_arch" 2 refused --set checkpoint.init_from=strange.safetensors
check "no bytes" refuses 4 'is no safetensors file: it has 0 bytes' 1 refused --set checkpoint.init_from=empty.safetensors
check "a text" refuses 4 'text.safetensors: is no safetensors file, or its end is missing' 1 refused --set checkpoint.init_from=text.safetensors
check "none" refuses 4 'none.safetensors: No such file' 2 refused --set checkpoint.init_from=none.safetensors

# ---- tables.init ---------------------------------------------------------------------
rows() { file=$1; shift; run "$@" --set tables.color.init.kind=file --set tables.color.init.path="$file"; }
check "files of rows" py '
x = [i / 16 for i in range(88)]
npy("f4.npy", "<f4", 11, 8, x)
npy("f8.npy", "<f8", 6, 8, x[:48])
npy("f2.npy", "<f2", 11, 8, x)
npy("more.npy", "<f4", 20, 8, list(range(160)))
npy("wide.npy", "<f4", 11, 4, x[:44])
npy("turned.npy", "<f4", 11, 8, x, "True")
npy("big.npy", ">f4".replace(">", "<"), 11, 8, x)
b = open("big.npy", "rb").read(); open("big.npy", "wb").write(b.replace(b"<f4", b">f4"))
open("short.npy", "wb").write(open("f4.npy", "rb").read()[:-4])
save("one.safetensors", [("any", "F16", (11, 8), x)])
save("two.safetensors", [("bias", "F32", (8,), [0] * 8), ("weight", "F32", (11, 8), x)])
save("which.safetensors", [("a", "F32", (11, 8), x), ("b", "F32", (11, 8), x)])'
by_number='assert read(sys.argv[2], bags + "color.weight") == [i / 16 for i in range(88)]'
rest='n = int(sys.argv[4]) * 8; a, b = (read(p, bags + "color.weight") for p in sys.argv[2:4])
assert a[:n] == [i / 16 for i in range(n)] and a[n:] == b[n:] and len(a) == len(b) == 88'
for f in f4.npy f2.npy one.safetensors two.safetensors; do
  check "rows of $f" rows $f 2 rows-$f
  check "are the table's: $f" py "$by_number" "$(newest rows-$f)"
done
check "it says so" says rows-f4.npy "table color: 11 of its 11 rows are those of $work/f4.npy"
for n in 1 2 4; do
  check "fewer rows, on $n" rows f8.npy $n few$n
  check "the rest is the seed's, on $n" py "$rest" "$(newest few$n)" "$(newest seed)" 6
done
check "it says that, too" says few1 "table color: 6 of its 11 rows are those of $work/f8.npy; the others are drawn from the seed"
for kind in row_wise column_wise data_parallel; do
  check "fewer rows, $kind" rows f8.npy 3 few-$kind --set table_defaults.sharding=$kind --set sharding.min_column=4
  check "the rest, $kind" py "$rest" "$(newest few-$kind)" "$(newest seed)" 6
done
for tier in cached host; do
  check "fewer rows, $tier" rows f8.npy 2 few-$tier --set table_defaults.kernel=$tier --set table_defaults.cache.tier=file --set run.tier_dir="$work"
  check "the rest, $tier" py "$rest" "$(newest few-$tier)" "$(newest seed)" 6
done
check "not on a resume" rows f8.npy 2 few2 --set run.steps=2
check "without a word" silent few2 "rows are those of"
check "init_from comes behind it" rows f8.npy 2 both --set checkpoint.init_from=full.safetensors
check "and wins" py "$all_values" "$(newest both)"
check "rows for all of the file" rows more.npy 2 more --set tables.color.rows=auto
check "as many" py 'x = read(sys.argv[2], bags + "color.weight"); assert x == list(range(160))' "$(newest more)"
check "the data's rows, where they are more" rows f8.npy 1 needed --set tables.color.rows=auto
check "that many" py 'assert len(read(sys.argv[2], bags + "color.weight")) == 8 * 8' "$(newest needed)"
check "too many rows" refuses 4 "more.npy: its rows are (20, 8), and model/sparse_arch.embedding_bag_collection.embedding_bags.color.weight of the deck's model is (11, 8)" 2 refused --set tables.color.init.kind=file --set tables.color.init.path=more.npy
no() { file=$1 text=$2; shift 2; check "no $file" refuses 4 "$text" 2 refused --set tables.color.init.kind=file --set tables.color.init.path="$file" "$@"; }
no wide.npy "its rows are (11, 4)"
no turned.npy "its columns follow each other (fortran_order), not rows"
no big.npy "its type is none of <f4, <f8 and <f2"
no short.npy "don't fill the file's 348 bytes of data"
no which.safetensors "has 2 tensors and none of the name weight: which are the rows?"
no cut.safetensors "its end missing"
no none.npy "No such file"

# By word: the table's words in another order, one of two parts, one unknown.
cat > rows.txt <<'TXT'
flint 1 2 3 4 5 6 7 8
zebra 0 0 0 0 0 0 0 0
deep sea -1 -2 -3 -4 -5 -6 -7 -8
amber	.5 .25 .125 1e1 1e-1 0 -0.75 3 
amber 9 9 9 9 9 9 9 9
TXT
by_word='c, s = sys.argv[2:4]
words = ["amber", "blue", "coral", "deep sea", "denim", "ebony", "flint"]
want = {"flint": [1, 2, 3, 4, 5, 6, 7, 8], "deep sea": [-1, -2, -3, -4, -5, -6, -7, -8], "amber": [.5, .25, .125, 10, .1, 0, -.75, 3]}
for i, w in enumerate([""] + words + [""] * 3):
    x = want.get(w, row(s, "color", i))
    assert max(abs(a - b) for a, b in zip(row(c, "color", i), x)) < 1e-8, (w, row(c, "color", i), x)'
{ echo "5 8"; cat rows.txt; } > header.txt
{ echo "6 8"; cat rows.txt; } > lost.txt
for n in 1 2 4; do for f in rows header; do
  check "$f by word on $n" rows $f.txt $n $f$n
  check "the words' rows, $f on $n" py "$by_word" "$(newest $f$n)" "$(newest seed)"
done; done
check "it says how many" says rows2 "table color: 3 of its 7 words are in $work/rows.txt; the other rows are drawn from the seed"
for kind in row_wise column_wise data_parallel; do
  check "by word, $kind" rows rows.txt 3 word-$kind --set table_defaults.sharding=$kind --set sharding.min_column=4
  check "the words' rows, $kind" py "$by_word" "$(newest word-$kind)" "$(newest seed)"
done
check "by word, cached" rows rows.txt 2 word-cached --set table_defaults.kernel=cached --set table_defaults.cache.tier=file --set run.tier_dir="$work"
check "the words' rows, cached" py "$by_word" "$(newest word-cached)" "$(newest seed)"
# Memory that the host may not touch; no sanitizers: kernels are fibers.
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ] && [ -z "${TESSERA_SANITIZED:-}" ]; then
  host=$TESSERA TESSERA=$emulated
  check "by word, emulated" rows rows.txt 2 word-emulated --set run.backend=emulated --set table_defaults.sharding=column_wise --set sharding.min_column=4
  check "by number, emulated" rows f8.npy 2 few-emulated --set run.backend=emulated --set table_defaults.sharding=row_wise
  check "all weights, emulated" from full 2 emulated --set run.backend=emulated
  TESSERA=$host
  check "the words' rows, emulated" py "$by_word" "$(newest word-emulated)" "$(newest seed)"
  check "the rest, emulated" py "$rest" "$(newest few-emulated)" "$(newest seed)" 6
  check "all of them, emulated" py "$all_values" "$(newest emulated)"
fi
no lost.txt "has 5 words, and its first line says 6: its end is missing"
sed 's/ 8$//' rows.txt > narrow.txt;   no narrow.txt "narrow.txt:1: vectors of 7 numbers, for a table of dim 8"
sed '3s/-1.*/-1/' rows.txt > few.txt;  no few.txt "few.txt:3: has too few numbers behind its word"
sed '4s/1e1/nan/' rows.txt > nan.txt;  no nan.txt "nan.txt:4: what follows the word are no finite numbers"
sed '4s/1e1/ten/' rows.txt > ten.txt;  no ten.txt "ten.txt:4: what follows the word are no finite numbers"
sed '3s/sea/\x00/' rows.txt > zero.txt; no zero.txt "zero.txt:3: has a byte 0: this is no text"
: > nothing.txt;                       no nothing.txt "nothing.txt:1: the file is empty"
no . ": is not a file"
check "ids that are no words" refuses 2 "has rows by word, and the table's ids are no words" 2 refused --set data.csv.encoding=hash --set tables.color.init.kind=file --set tables.color.init.path=rows.txt
check "two vocabularies" refuses 2 "a row is of another word for each of the table's features" 2 refused --set tables='({name="both";rows=11;dim=8;features=["color","shape"];init={kind="file";path="rows.txt";};})'
check "no path" refuses 2 'table color: init.kind = "file" needs init.path' 1 refused --set tables.color.init.kind=file
check "no kind" refuses 2 'table color: init.path is for init.kind = "file"' 1 refused --set tables.color.init.path=rows.txt
# What is read is not written over.
kept() { # FILE options...
  file=$1; shift
  "$TESSERA" predict words.deck --out "$file" --set run.output="$work/full1" --set data.eval=words.csv "$@" > out 2>&1
  [ $? = 2 ] && grep -qF "$file is a file to read" out || { cat out; return 1; }
}
check "rows are kept" kept "$work/rows.txt" --set tables.color.init.kind=file --set tables.color.init.path=rows.txt
check "weights are kept" kept "$work/full.safetensors" --set checkpoint.init_from=full.safetensors
passed
