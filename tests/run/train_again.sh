#!/bin/sh
# train_again.sh - a run that takes something from another: weights whose rows
# are other words' by number, files of other programs, a deck that has changed,
# epochs in batches of another size.  seconds: 300
. "$srcdir/tests/support/common.sh"
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null && python=/usr/bin/python3
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
$python -c 'import h5py, numpy' 2>/dev/null || { echo "python3 with numpy and h5py is not here"; exit 77; }

# A label that hangs on the word alone; the second file lacks words of the first
# and has some of its own, so that equal words have other numbers.
words() { # FILE WORDS...
  file=$1; shift
  { echo "click,color,shape"
    for i in 1 2 3 4 5 6 7 8; do for w in "$@"; do echo "$((${#w} % 2)),$w,s$((i % 3))"; done; done
  } > "$work/$file.csv"
}
words first  amber blue coral denim ebony flint grape hazel
words second aqua blue denim ebony ecru hazel ivory
color='{ name = "color"; rows = 12; dim = 8; features = ["color"]; }'
shape='{ name = "shape"; rows = 4; dim = 8; features = ["shape"]; }'
cat > "$work/words.deck" <<DECK
run = { name = "words"; seed = 3; steps = 6; threads = 1; };
data = { train = "first.csv"; global_batch = 16;
         csv = { label = "click"; encoding = "vocabulary"; }; };
tables = ( $color, $shape );
model = { kind = "dlrm"; dense_features = 0; over_arch = [8, 1]; };
optimizer = { kind = "adam"; lr = 1e-2; };
sharding = { topology = "default"; };
DECK
run() { # RANKS FOLDER [options]: code of the run, its output in $work/FOLDER.out
  n=$1; into=$2; shift 2
  ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" train "$work/words.deck" --set run.output="$work/$into" "$@" > "$work/$into.out" 2>&1 || { rc=$?; cat "$work/$into.out"; return $rc; }
}
says() { grep -qF -- "$2" "$work/$1.out" || { cat "$work/$1.out"; return 1; }; }
silent() { ! grep -F -- "$2" "$work/$1.out"; }
ends() { # CODE, command...
  want=$1; shift
  "$@"; got=$?
  [ $got = "$want" ] || { echo "code $got, not $want"; return 1; }
}
# EXPRESSION over a and b, readers of two checkpoints: a("color") its rows,
# a.words[0] its first feature's words.
files() { # FILE FILE EXPRESSION
  $python - "$@" <<'PY'
import h5py, numpy, sys
class Read:
    def __init__(self, path):
        f = h5py.File(path)
        lines, self.words = bytes(f["loader/state"][:]).decode().split("\n"), []
        for line in lines:
            if line[:2] == "N ": break
            if line[:2] in ("V ", "W "): self.words.append([])
            elif line: self.words[-1].append(line)
        self.tables = f["model/sparse_arch.embedding_bag_collection.embedding_bags.color.weight"][:]
    def row(self, word):
        return self.tables[1 + self.words[0].index(word)]
a, b = Read(sys.argv[1]), Read(sys.argv[2])
same = numpy.array_equal
both = sorted(set(a.words[0]) & set(b.words[0]))
new = sorted(set(b.words[0]) - set(a.words[0]))
assert eval(sys.argv[3]), (a.words, b.words, a.tables, b.tables)
PY
}
still="--set optimizer.lr=0 --set table_defaults.optimizer.lr=0 --set run.steps=1"
check "a run to take from" run 1 first
for n in 1 3; do
  check "by word on $n" run $n second$n --set data.train=second.csv --set "checkpoint.init_from=$(newest first)" $still
  check "it says so on $n" says second$n "4 of 7 of table color"
  check "not of what is the same" silent second$n "of table shape"
  check "a word's row is the word's on $n" files "$(newest first)" "$(newest second$n)" 'len(both) == 4 and all(same(a.row(w), b.row(w)) for w in both)'
  check "row 0, too" files "$(newest first)" "$(newest second$n)" 'same(a.tables[0], b.tables[0])'
done
check "any number of ranks" h5diff -q "$(newest second1)" "$(newest second3)" /model /model
check "from the seed alone" run 1 seed --set data.train=second.csv $still
check "other words are the seed's" files "$(newest seed)" "$(newest second1)" 'all(same(a.row(w), b.row(w)) for w in ["aqua", "ecru", "ivory"])'
for kind in column_wise data_parallel; do
  check "by word, $kind" run 2 $kind --set data.train=second.csv --set "checkpoint.init_from=$(newest first)" $still --set table_defaults.sharding=$kind --set sharding.min_column=4
  check "$kind has the same" files "$(newest second1)" "$(newest $kind)" 'same(a.tables, b.tables)'
done
check "fewer rows than the file" run 1 fewer --set data.train=second.csv --set "checkpoint.init_from=$(newest first)" $still --set tables.color.rows=8
check "they are the words'" files "$(newest first)" "$(newest fewer)" 'all(same(a.row(w), b.row(w)) for w in both)'
check "the same words are nothing to say" run 1 same --set "checkpoint.init_from=$(newest first)" $still
check "so it is silent" silent same "NOTE: rows by"
check "and all rows are there" files "$(newest first)" "$(newest same)" 'same(a.tables, b.tables)'
check "hashes for words" ends 4 run 1 hashed --set "checkpoint.init_from=$(newest first)" --set data.csv.encoding=hash $still
check "says what to do" says hashed "numbers or hashes here: give the encoding as it was"

# Files of other programs.
weights() { # FILE CODE: one that h5py writes, f of it
  $python - "$work/$1" "$2" <<'PY'
import h5py, numpy, sys
f = h5py.File(sys.argv[1], "w")
def table(name, rows, value):
    f[name] = numpy.full((rows, 8), value, "f4")
exec(sys.argv[2])
PY
}
bags=sparse_arch.embedding_bag_collection.embedding_bags
check "a file of h5py's" weights plain.h5 "table('model/$bags.color.weight', 12, 0.25)"
check "weights from it" run 2 plain --set "checkpoint.init_from=$work/plain.h5" $still
check "they are the run's" files "$(newest plain)" "$(newest plain)" '(a.tables == 0.25).all()'
check "the others are named" says plain "drawn from the seed: model/$bags.shape.weight"
check "no words are known" says plain "are of other words where the numbers differ: color"
check "not of what it lacks" silent plain "differ: color, shape"
check "nothing fits" weights strange.h5 "table('$bags.color.weight', 12, 0.25); table('other', 3, 1)"
check "is an error" ends 4 run 2 strange --set "checkpoint.init_from=$work/strange.h5" $still
check "which names what it has" says strange "strange.h5: holds nothing of the deck's model: it has other, $bags.color.weight; the model wants model/$bags.color.weight, model/$bags.shape.weight, "
check "nothing fits, with a head" weights head.h5 "f.attrs.update(format='tessera-checkpoint', version=1); table('other', 3, 1)"
check "is an error as well" ends 4 run 2 head --set "checkpoint.init_from=$work/head.h5" $still
check "a file of nothing" weights empty.h5 "pass"
check "is one, too" ends 4 run 1 empty --set "checkpoint.init_from=$work/empty.h5" $still
check "and says so" says empty "it has no datasets; the model wants model/"
check "half a head" weights half.h5 "f.attrs['format'] = 'x'; table('model/$bags.color.weight', 12, 0.25)"
check "is another format's" ends 4 run 1 half --set "checkpoint.init_from=$work/half.h5" $still

# A deck that has changed.
check "a run to go on" run 2 deck
check "as it was" run 2 deck --set run.steps=7 --set run.log_every=1 --set checkpoint.keep=2 --set table_defaults.sharding=row_wise
check "has nothing to say" silent deck "NOTE: the deck"
check "other rates" run 2 deck --set run.steps=8 --set optimizer.lr=0.5 --set tables.shape.optimizer.lr=0.25 --set optimizer.eps=1e-5
check "are said" says deck "NOTE: the deck has changed since the checkpoint: optimizer.lr 0.01 -> 0.5, optimizer.eps not given -> 1e-05, tables.shape.optimizer.lr 0.01 -> 0.25"
check "another batch, other data" run 2 deck --set run.steps=9 --set data.batch_per_rank=4 --set data.train=second.csv --set optimizer.lr=0.5 --set tables.shape.optimizer.lr=0.25 --set optimizer.eps=1e-5
check "are" says deck "data.train [\"$work/first.csv\"] -> [\"$work/second.csv\"]"
check "of the batch what is given" says deck "data.batch_per_rank not given -> 4, data.global_batch 16 -> not given"
check "on one rank" run 1 deck --set run.steps=10 --set data.batch_per_rank=4 --set data.train=second.csv --set optimizer.lr=0.5 --set tables.shape.optimizer.lr=0.25 --set optimizer.eps=1e-5
check "the batch is half" says deck "of 2 ranks: data.batch_per_rank = 4 is a step of 4 samples now, not of 8"
check "the deck the same" silent deck "NOTE: the deck"
check "nothing left" run 2 deck --set run.steps=10 --set optimizer.lr=1
check "says what to raise" says deck "step 10 of 10: nothing is left to train; raise run.steps to go on"
check "and what differs" says deck "optimizer.lr 0.5 -> 1"

# Words stay their feature's, whatever the order, and are any text in quotes.
printf 'click,color,shape\n1,"a\nb",x\n0,"c\\n",y\n1,"a\nb",y\n0,d,x\n' > "$work/lines.csv"
check "words of several lines" run 1 lines --set run.steps=1 --set data.train=lines.csv --set data.global_batch=4
check "go on" run 1 lines --set run.steps=2 --set data.train=lines.csv --set data.global_batch=4
check "with the same words" files "$(newest lines)" "$(newest lines)" 'a.words == [["a\\nb", "c\\\\n", "d"], ["x", "y"]]'
check "the tables in turn" run 1 order
sed -i "s/^tables = .*/tables = ( $shape, $color );/" "$work/words.deck"
check "the same in another order" run 1 order --set run.steps=6
check "the first one's words" files "$(newest order)" "$(newest order)" 'len(a.words[0]) == 8'
check "a step later" run 1 order --set run.steps=7
check "are the second's now" files "$(newest order)" "$(newest order)" 'len(a.words[1]) == 8 and a.words[0] == ["s0", "s1", "s2"]'

# Epochs count samples: 64 of them in each.
trained() { sed -n 's/.*"samples":\([0-9]*\).*/\1/p' "$work/$1/metrics.jsonl" | tail -n 1; }
for batch in 8 24 64; do
  for n in 1 2; do
    check "three steps of 16" run $n epochs$batch-$n --set run.steps=3
    check "go on in batches of $batch" run $n epochs$batch-$n --set run.epochs=2 --set data.global_batch=$batch
    check "two epochs of samples" test "$(trained epochs$batch-$n)" = 128
  done
done
check "they are at their end" run 1 epochs24-1 --set run.epochs=2 --set data.global_batch=4
check "and say so" says epochs24-1 "step 7 of 7: nothing is left to train; raise run.epochs to go on"
passed
