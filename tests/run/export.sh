#!/bin/sh
# export.sh - weights out as safetensors and in again, to the bit: in one file
# and in several, with optimizers' state, with means in their place, of both
# kinds of checkpoints; what is written is what a plain reader wants; faults and
# mistakes leave nothing and one message.  seconds: 60
. "$srcdir/tests/support/common.sh"
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py' 2>/dev/null && python=/usr/bin/python3
$python -c 'import h5py' 2>/dev/null || { echo "python3 with h5py is not here"; exit 77; }
cd "$work" || exit 99
export_() { # FOLDER of the run, FOLDER written [options]
  run=$1; into=$2; shift 2
  "$TESSERA" export small.deck --set run.output="$work/$run" --out "$into" "$@" > out 2>&1 || { rc=$?; cat out; return $rc; }
}
alone() { run=$1; shift; "$TESSERA" train small.deck --quiet --set run.output="$work/$run" "$@"; }
cat > read.py <<'PY'
"""read.py FOLDER CHECKPOINT FILES [STATE]: the folder has so many files of
weights and state, as safetensors has to be, and each tensor the bytes that the
checkpoint has at its dataset."""
import glob, h5py, json, os, struct, sys
folder, checkpoint = sys.argv[1:3]
sizes, names = {"F32": 4, "BF16": 2, "F16": 2}, {}
def read(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    assert n % 8 == 0
    header, end = json.loads(raw[8:8 + n]), 0
    assert header.pop("__metadata__") == {"format": "pt", "step": "40"}
    for name, t in header.items():  # in order, without gaps
        a, z = t["data_offsets"]
        size = sizes[t["dtype"]]
        for d in t["shape"]: size *= d
        assert a == end and z - a == size and a % sizes[t["dtype"]] == 0, name
        end = z
        yield name, t, raw[8 + n + a:8 + n + z]
    assert 8 + n + end == len(raw)
def stem(s, n):
    files = sorted(os.path.basename(p) for p in glob.glob(f"{folder}/{s}*.safetensors"))
    want = [f"{s}.safetensors"] if n == 1 else [f"{s}-{k:05d}-of-{n:05d}.safetensors" for k in range(1, n + 1)]
    assert files == want[:n], files
    tensors, where, total = {}, {}, 0
    for p in files:
        for name, t, raw in read(f"{folder}/{p}"):
            assert name not in tensors
            tensors[name], where[name] = (t, raw), p
            total += len(raw)
    index = f"{folder}/{s}.safetensors.index.json"
    assert os.path.exists(index) == (n > 1)
    if n > 1: assert json.load(open(index)) == {"metadata": {"total_size": total}, "weight_map": where}
    return tensors
weights = stem("model", int(sys.argv[3]))
state = stem("state", int(sys.argv[4])) if len(sys.argv) > 4 else {}
assert len(os.listdir(folder)) == sum(n + (n > 1) for n in map(int, sys.argv[3:]))
assert {t["dtype"] for t, _ in weights.values()} == {"F32", "BF16", "F16"}
raw, n = open(checkpoint, "rb").read(), [0, 0]
def compare(name, s):
    global n
    if not isinstance(s, h5py.Dataset) or not name.startswith(("model/", "optim/")) or name == "optim/step": return
    weight = name.startswith("model/")
    t, got = (weights if weight else state).get(name[6:].replace("/", "."), (None, None))
    if t is None and not weight and not state: return
    at = s.id.get_offset()
    assert t["shape"] == list(s.shape) and got == raw[at:at + s.id.get_storage_size()], name
    n[not weight] += 1
with h5py.File(checkpoint) as f: f.visititems(compare)
assert n == [len(weights), len(state)] and n[0] == 15, n
PY

# ---- what is written ---------------------------------------------------------------
check "a run" train 2 run --set checkpoint.every=20
check "one file" export_ run one
check "it says so" grep -q "^one: 15 tensors of weights of step 40 in 1 file, out of .*step-00000040.h5" out
check "as the checkpoint" $python read.py one "$(newest run)" 1
check "several, with state" export_ run several/ --names torchrec --state --max-file 2e4
check "as the checkpoint, too" $python read.py several "$(newest run)" 4 4
mkdir empty
check "one rank does it, to an empty folder" ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" export small.deck --set run.output="$work/run" --out empty --quiet
check "the same" cmp one/model.safetensors empty/model.safetensors
check "a checkpoint by name" export_ none named --checkpoint "$(newest run)"
check "the same, too" cmp one/model.safetensors named/model.safetensors
check "chunks" train 2 chunks --set checkpoint.io=mpio
check "of chunks" export_ chunks of-chunks --state
check "the same as of blocks" cmp one/model.safetensors of-chunks/model.safetensors
# 20 MB: more than the buffer, rows of which no whole number fills a block.
check "a larger table" alone large --set run.steps=1 --set tables='({name="a";rows=110000;dim=51;dtype="bf16";features=["fa"];},{name="b";rows=90000;dim=51;features=["fb"];})' --set model.dense_arch=[8,51] --set data.synthetic.pooling=[1,1]
check "of several blocks" export_ large of-large
check "each whole" $python - of-large/model.safetensors "$(newest large)" <<'PY'
import h5py, json, struct, sys
raw, kept = (open(p, "rb").read() for p in sys.argv[1:])
n = struct.unpack("<Q", raw[:8])[0]
with h5py.File(sys.argv[2]) as f:
    for name, t in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__": continue
        (a, z), s = t["data_offsets"], f["model/" + name]
        at = s.id.get_offset()
        assert raw[8 + n + a:8 + n + z] == kept[at:at + s.id.get_storage_size()], name
PY

# ---- and read again ----------------------------------------------------------------
still="--set run.steps=1 --set optimizer.lr=0.0 --set tables.a.optimizer.lr=0.0 --set tables.b.optimizer.lr=0.0 --set tables.c.optimizer.lr=0.0 --set tables.d.optimizer.lr=0.0 --set tables.e.optimizer.lr=0.0"
weights() { h5diff -q "$(newest "$1")" "$(newest "$2")" /model /model; }
for from in one one/model.safetensors several several/model.safetensors.index.json; do
  case $from in */*) of=alone ;; *) of="train 2" ;; esac
  rm -rf back
  check "from $from" $of back --set checkpoint.init_from=$from $still --set table_defaults.sharding=row_wise
  check "weights of $from" weights back run
done
predict() { run=$1; shift; "$TESSERA" predict small.deck --quiet --set run.output="$work/$run" --out "$run.csv" "$@"; }
check "predictions" predict run
check "predictions of what was read" predict back
check "the same predictions" cmp run.csv back.csv
check "on from the checkpoint" train 2 on --set run.steps=50 --set checkpoint.init_state=true --set checkpoint.init_from="$work/run/checkpoints"
check "on from the folder" train 2 on-several --set run.steps=50 --set checkpoint.init_state=true --set checkpoint.init_from=several
check "the same bits" same_bits "$(newest on)" "$(newest on-several)"
means="--set optimizer.ema=0.9 --set table_defaults.ema=true"
check "means" alone means $means
check "weights beside means" export_ means of-means --state $means
check "it says so" grep -q "NOTE: eval and predict go by running means" out
check "means in their place" export_ means averages --averages $means
check "predictions by means" predict means $means
check "read as weights" alone read --set checkpoint.init_from=averages $still
check "predictions of these" predict read
check "are the same" cmp means.csv read.csv
check "on, with means" alone on-means $means --set run.steps=50 --set checkpoint.init_state=true --set checkpoint.init_from=of-means
check "the same from the checkpoint" alone on-kept $means --set run.steps=50 --set checkpoint.init_state=true --set checkpoint.init_from="$work/means/checkpoints"
check "rows and states" same_bits "$(newest on-means)" "$(newest on-kept)"
check "means of layers" h5diff -q "$(newest on-means)" "$(newest on-kept)" /ema /ema
for from in several "$work/run/checkpoints"; do
  [ "$from" = several ] || mv begun-last begun-first
  check "means that begin, from $from" alone begun-last $means --set run.steps=45 --set checkpoint.init_state=true --set checkpoint.init_from="$from"
done
check "begin alike" h5diff -q "$(newest begun-first)" "$(newest begun-last)" /ema /ema
check "as many rows as the folder has" alone auto --set tables.a.rows=auto --set tables.c.rows=auto --set checkpoint.init_from=several $still
check "all of them" weights auto run

# ---- mistakes ----------------------------------------------------------------------
refuses() { # CODE TEXT command...: with one message, and nothing is left
  want=$1 text=$2; shift 2
  "$@" > out 2>&1; got=$?
  [ $got = "$want" ] && [ "$(grep -c 'tessera: error' out)" = 1 ] && grep -qF -- "$text" out && [ ! -e new ] && [ ! -e new.part ] && return
  echo "code $got ($want is right), no \"$text\", or something left:"; cat out; return 1
}
out() { "$TESSERA" export small.deck --set run.output="$work/run" --out "$@"; }
check "no --out" refuses 2 "usage: tessera export DECK --out FOLDER" "$TESSERA" export small.deck
check "a folder in use" refuses 2 "--out one is there, and no empty folder" out one
check "a file" refuses 2 "--out small.csv is there" sh -c ': > small.csv; "$@"' - "$TESSERA" export small.deck --set run.output="$work/run" --out small.csv
check "what is read" refuses 2 "--out one is a file to read" out one --set checkpoint.init_from=one
check "no folder above" refuses 1 "no/new.part: No such file" out no/new
check "whose" refuses 2 "--names mine is none of own, torchrec" out new --names mine
check "sizes" refuses 2 "--max-file 5GB is no number of bytes" out new --max-file 5GB
check "no means" refuses 2 "--averages: the deck has no optimizer.ema" out new --averages
check "means and state" refuses 2 "--averages and --state: the state is of the weights" out new --averages --state --set optimizer.ema=0.9
check "none in the file" refuses 4 "step-00000040.h5 has no running means" out new --averages --set optimizer.ema=0.9
check "no name" refuses 2 "usage: tessera export DECK --out FOLDER" out ""
mkdir other.part
: > other.part/model.safetensors
: > other.part/notes
check "somebody's folder" refuses 1 "other.part: File exists" out other
check "stays as it was" test -e other.part/model.safetensors
rm -r other.part
mkdir busy.part
check "another export" refuses 1 "busy.part: another program is writing it" $python -c 'import fcntl, os, subprocess, sys
fcntl.flock(os.open("busy.part", os.O_RDONLY), fcntl.LOCK_EX)
sys.exit(subprocess.call(sys.argv[1:]))' "$TESSERA" export small.deck --set run.output="$work/run" --out busy
rmdir busy.part
check "none" refuses 4 "none/checkpoints holds no checkpoint" "$TESSERA" export small.deck --set run.output="$work/none" --out new
check "another model" refuses 2 "--names torchrec is for model.kind dlrm, dcnv2, and deepfm" out new --names torchrec --set model.kind=sparsenn
check "not TorchRec's" refuses 2 "has no inter_arch.crossnet.*, which TorchRec's DLRM_DCN has" out new --names torchrec --set model.kind=dcnv2
damage() { # CHECKPOINT: a byte of a table
  $python -c 'import h5py, sys
with h5py.File(sys.argv[1]) as f: at = f["model/sparse_arch.embedding_bag_collection.embedding_bags.c.weight"].id.get_offset() + 99
with open(sys.argv[1], "r+b") as f: f.seek(at); x = f.read(1); f.seek(at); f.write(bytes([x[0] ^ 1]))' "$1"
}
cp -r run hurt
check "damage" damage "$(newest hurt)"
check "the one before is taken" export_ hurt before
check "and named" grep -q "^WARNING: .*step-00000040.h5.* damaged.*going back to the checkpoint before: .*step-00000020.h5" out
embeddings() { ${MPIRUN:-mpirun} -q -n "$1" "$TESSERA" predict small.deck --set run.output="$work/hurt" --embeddings fd --out "$2.csv" ${3:+--checkpoint "$3"} > out 2>&1; }
check "embeddings of step 20" embeddings 1 of-20 hurt/checkpoints/step-00000020.h5
for n in 1 2; do
  check "of the one before, $n" embeddings $n before-$n
  check "and named, $n" grep -q "^WARNING: .*step-00000040.h5.* damaged.*going back to the checkpoint before: .*step-00000020.h5" out
  check "the same, $n" cmp of-20.csv before-$n.csv
done
check "no pipe gets two of them" eval '! "$TESSERA" predict small.deck --set run.output="$work/hurt" --embeddings fd --out - > twice 2> out'
check "and it is said" grep -q "^tessera: error: .*step-00000040.h5.* damaged" out
check "one header at most" test "$(grep -c '^row,' twice)" -le 1
cp hurt/checkpoints/step-00000020.h5 own.h5
check "not over what is read" eval '! "$TESSERA" predict small.deck --set run.output="$work/hurt" --embeddings fd --checkpoint own.h5 --out own.h5 2> out'
check "it says so" grep -q -- "--out own.h5 is a file to read" out
check "which stays" cmp own.h5 hurt/checkpoints/step-00000020.h5
rm hurt/checkpoints/step-00000020.h5
check "embeddings: none before" eval '! embeddings 2 never'
check "embeddings: no file" test ! -e never.csv
check "there is none before" refuses 4 "embedding_bags.c.weight is damaged in its bytes" "$TESSERA" export small.deck --set run.output="$work/hurt" --out new
init() { "$TESSERA" train small.deck --set run.output="$work/never" --set checkpoint.init_from="$@"; }
mkdir half
cp several/model.safetensors.index.json several/model-00001* half
check "a file is missing" refuses 4 "half/model-00002-of-00004.safetensors: No such file" init half
cp -r several steps
$python - steps/state-*.safetensors steps/model-00002-of-00004.safetensors <<'PY'
import sys
for path in sys.argv[1:]:
    raw = open(path, "rb").read()
    assert raw.count(b'"step":"40"') == 1
    open(path, "wb").write(raw.replace(b'"step":"40"', b'"step":"41"'))
PY
check "parts of two steps" refuses 4 "model-00002-of-00004.safetensors is of another step than" init steps
cp several/model-* steps
check "state of another step" refuses 4 "steps/state.safetensors.index.json: does not say that it is of the same step as" init steps --set checkpoint.init_state=true
check "no state" refuses 4 "one has no state.safetensors: export it with --state" init one --set checkpoint.init_state=true

# ---- faults ------------------------------------------------------------------------
has_faults || { echo "left out: faults"; passed; exit; }
meets() { # CODE FAULT TEXT PASSAGES
  for n in $4; do
    check "$2:$n" refuses "$1" "$3" env TESSERA_FAULT="$2:rank0:nth$n" "$TESSERA" export small.deck --checkpoint "$(newest run)" --out new --state --max-file 2e4
  done
}
meets 1 write "No space left" "1 2 3 12 40"
meets 1 reserve "can't be reserved" "1 5 8"
meets 1 fsync "Input/output error" "1 5 10 11 12"
meets 1 rename "new: Input/output error" 1
meets 4 read "Input/output error" "20 40"
meets 1 alloc "out of memory" "50 300"
TESSERA_FAULT=write:rank0:nth30:KILL "$TESSERA" export small.deck --set run.output="$work/run" --out new --state --max-file 2e4 > out 2>&1
check "a kill leaves no folder" [ ! -e new ]
check "what it left" test -d new.part
check "again" export_ run new
check "nothing is left" [ ! -e new.part ]
# ---- another file takes its place meanwhile, as best.h5 is written again -----
check "another checkpoint" alone other --set run.seed=3
$python - "$(newest run)" "$(newest other)" best.h5 <<'PY' &
import os, shutil, sys, time
k = 0
while not os.path.exists("enough"):
    shutil.copyfile(sys.argv[1 + k % 2], "copy.h5")
    os.replace("copy.h5", sys.argv[3])
    k += 1
    time.sleep(0.003)
PY
check "in turns" until_holds $! test -s best.h5
for k in 1 2 3 4 5 6 7 8; do check "one of both, $k" export_ none "best$k" --checkpoint best.h5; done
# Blocks of two files are none of one: it is said, or did not happen.
for k in 1 2 3 4 5 6 7 8; do
  "$TESSERA" predict small.deck --embeddings fd --checkpoint best.h5 --out best.csv > out 2>&1 ||
    check "embeddings, $k: $(cat out)" grep -q "best.h5: .* written anew" out
done
touch enough; wait
# ---- the other way ---------------------------------------------------------
import_() { ${MPIRUN:-mpirun} -q -n "$1" "$TESSERA" import small.deck --from "$2" --set run.output="$work/$3" > out 2>&1; }
check "imported on 3 ranks, in a folder beside the deck" sh -c "mkdir beside && cd beside && ${MPIRUN:-mpirun} -q -n 3 '$TESSERA' import ../small.deck --from ../one --set run.output='$work/imported' > ../out 2>&1"
check "it says so" grep -q "^imported .*one: step 0 of the run small" out
check "the same weights" h5diff "$(newest run)" imported/checkpoints/step-00000000.h5 /model /model
check "of several files" import_ 1 several stateful
check "a checkpoint, too" import_ 2 "$(newest run)" again
check "its weights" h5diff "$(newest run)" again/checkpoints/step-00000000.h5 /model /model
check "it is evaluated" alone imported --set run.steps=45
check "and trained on from step 0" grep -q '^resumed at step 0 ' imported/log
import_ 1 one imported; code=$?
check "not twice: code" test $code = 2
check "not twice: words" grep -q "holds checkpoints of the run already" out
import_ 1 nothing there; code=$?
check "nothing: code" test $code = 2
check "nothing: words" grep -q "^tessera: error: --from nothing: No such file" out
check "pt-names are torchrec's" export_ run named2 --format pt-names
check "to the byte" cmp one/model.safetensors named2/model.safetensors
passed
