#!/bin/sh
# windows.sh - training goes on with other data (checkpoint.init_state): a run a
# window is the run over all of them to the bit, on any ranks, with state of words'
# rows, running means, schedules and a restart inside a window.
# seconds: 40
. "$srcdir/tests/support/common.sh"
not_sanitized
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null && python=/usr/bin/python3
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
$python -c 'import h5py, numpy' 2>/dev/null || { echo "python3 with numpy and h5py is not here"; exit 77; }
sed -i 's/steps = 40;/epochs = 1.0;/; s/^optimizer = .*/optimizer = { kind = "adam"; lr = 1e-2; schedule = { warmup = 8; }; };/' "$work/small.deck"
for w in 1 2; do
  check "window $w" "$TESSERA" convert "$work/small.deck" train --quiet --out "$work/w$w.h5" --set data.synthetic.samples=480 --set data.synthetic.seed=$w
done
sed -i 's/^data = .*/data = { format = "dataset"; train = ["w1.h5", "w2.h5"]; global_batch = 96; };/; /^ *synthetic = /d' "$work/small.deck"
first='--set data.train=w1.h5'
then_() { echo "--set data.train=w2.h5 --set checkpoint.init_state=true --set checkpoint.init_from=$work/$1/checkpoints"; } # FOLDER of the window before
steps() { grep -o '"step":[0-9]*' "$work/$1/metrics.jsonl" | sort -u -t: -k2n | tr '\n' ' '; }
fails() { # CODE MESSAGE RANKS [options]
  code=$1 message=$2 n=$3; shift 3
  ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/bad" "$@" 2> "$work/err"
  [ $? = "$code" ] && grep -qF -- "$message" "$work/err" || { cat "$work/err"; return 1; }
}
chain() { # NAME RANKS [options]: both windows at once, and one after the other: the same bits
  name=$1 n=$2; shift 2
  check "$name: both" train "$n" "$name-both" "$@"
  check "$name: the first" train "$n" "$name-1" $first "$@"
  check "$name: the second" train "$n" "$name-2" $(then_ "$name-1") "$@"
  check "$name: same bits" same_bits "$(newest "$name-both")" "$(newest "$name-2")"
}
chain plain 2
check "steps go on" [ "$(steps plain-2)" = '"step":6 "step":7 "step":8 "step":9 "step":10 ' ]
check "without it they begin" train 2 anew --set data.train=w2.h5 --set checkpoint.init_from="$work/plain-1/checkpoints"
check "from the first" [ "$(steps anew | cut -c1-9)" = '"step":1 ' ]
check "and have other bits" sh -c "! h5diff -q '$(newest plain-2)' '$(newest anew)' /model /model"
check "the second on three ranks" train 3 three $(then_ plain-1)
losses plain-both | tail -n 5 > "$work/a"; losses three > "$work/b"
check "is close" sh -c "paste '$work/a' '$work/b' | awk '{ d = \$1 - \$2; if (d * d > 1e-12) bad = 1 } END { exit bad || NR != 5 }'"
check "stopped in the second" train 2 stopped $(then_ plain-1) --set run.steps=8
check "goes on there, whatever became of the first" sh -c "mv '$work/plain-1' '$work/gone'"
check "goes on" train 2 stopped $(then_ plain-1)
check "same bits" same_bits "$(newest plain-both)" "$(newest stopped)"
chain sharded 2 --set dense.parallel=fully_sharded --set pipeline.kind=base
chain means 2 --set optimizer.ema=0.8
chain auto 1 --set 'tables.a.rows=auto'
check "a file will do" train 2 file --set data.train=w2.h5 --set checkpoint.init_state=true --set checkpoint.init_from="$(newest means-1)" --set optimizer.ema=0.8
check "the same" same_bits "$(newest means-both)" "$(newest file)"

check "without means before" train 1 begun $first
check "means begin" train 2 means-begin $(then_ begun) --set optimizer.ema=0.8
check "says so" grep -q 'lacks averages of .* (optimizer.ema): they begin as its weights' "$work/means-begin/log"

# Rows of words are others in the second window, and their state goes with them.
words() { # FILE WORDS...
  file=$1; shift
  { echo "click,color,shape"; for i in 1 2 3 4; do for w in "$@"; do echo "$(((${#w} + i) % 2)),$w,s$((i % 3))"; done; done; } > "$work/$file.csv"
}
words one amber blue coral denim ebony flint grape hazel
words two aqua blue denim ebony ecru hazel ivory jade
cat > "$work/small.deck" <<'DECK'
run = { name = "words"; seed = 3; epochs = 1.0; threads = 1; };
data = { train = "one.csv"; global_batch = 16; csv = { label = "click"; encoding = "vocabulary"; }; };
tables = ( { name = "color"; rows = 12; dim = 8; features = ["color"]; },
  { name = "shape"; rows = 4; dim = 8; features = ["shape"]; } );
table_defaults = { optimizer = { kind = "adagrad"; lr = 0; }; };
model = { kind = "dlrm"; dense_features = 0; over_arch = [8, 1]; };
optimizer = { kind = "sgd"; lr = 0; };
sharding = { topology = "default"; };
DECK
check "words" train 1 words
for state in true false; do
  check "other words, state $state" train 2 words-$state --set data.train=two.csv --set checkpoint.init_from="$work/words/checkpoints" --set checkpoint.init_state=$state
done
check "state by word" $python - "$(newest words)" "$(newest words-true)" "$(newest words-false)" <<'PY'
import h5py, numpy, sys
def read(path):
    f = h5py.File(path)
    words, n = [], 0
    for line in bytes(f["loader/state"][:]).decode().split("\n"):
        n += line[:2] == "V "
        if n == 1 and line and line[:2] not in ("V ", "N ") and len(words) < 8: words.append(line)
    found = []
    f["optim"].visititems(lambda name, x: found.append(x[:]) if "color" in name and hasattr(x, "shape") and x.ndim == 2 else None)
    return {w: found[0][1 + i] for i, w in enumerate(words)}
one, two, anew = map(read, sys.argv[1:])
assert len(one) == len(two) == 8 and set(one) & set(two) == {"blue", "denim", "ebony", "hazel"}
for w, x in two.items():
    numpy.testing.assert_allclose(x, anew[w] + one.get(w, 0 * x), rtol=1e-5, atol=0)
    assert anew[w].max() > 0
PY

check "without a file" fails 2 "checkpoint.init_state needs checkpoint.init_from, a checkpoint of a run, its folder of them, or one of export --state" 1 --set checkpoint.init_state=true
check "of tensors" fails 2 "checkpoint.init_state needs checkpoint.init_from" 1 --set checkpoint.init_state=true --set checkpoint.init_from=x.safetensors
mkdir "$work/empty"
check "an empty folder" fails 4 "checkpoint.init_from: $work/empty holds no checkpoint" 2 --set checkpoint.init_from="$work/empty"
check "its own folder, moved away" fails 2 'checkpoint.init_from is checkpoint.dir, whose content checkpoint.resume = "never" moves away: name another run.output' 2 --set run.output="$work/words" --set checkpoint.init_from="$work/words/checkpoints" --set checkpoint.resume=never
check "is there still" saved words
passed
