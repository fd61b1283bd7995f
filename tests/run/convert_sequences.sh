#!/bin/sh
# convert_sequences.sh - logs of events as data sets of sequences: every shape of
# log, kind of target and option against what Python works out event by event;
# mistakes; ranks; a run that reads them.  With TESSERA_DATA_DIR MovieLens, too.
# seconds: 60
. "$srcdir/tests/support/common.sh"
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null && python=/usr/bin/python3
$python -c 'import h5py, numpy' 2>/dev/null || { echo "python3 with numpy and h5py is not here"; exit 77; }
oracle=$srcdir/tests/run/convert_sequences.py
mkdir "$work/out"
check "logs" $python "$oracle" make "$work"
# Starting takes longer than the work: eight at a time, each with a folder of
# its own for MPI's sessions, which fail where two make one at once.
n_begun=0
begin() { # command...
  n_begun=$((n_begun + 1)); n_checks=$((n_checks + 1))
  (mkdir "$work/mpi-$n_begun" && export OMPI_MCA_orte_tmpdir_base="$work/mpi-$n_begun" PRTE_MCA_prte_tmpdir_base="$work/mpi-$n_begun" && "$@") > "$work/said-$n_begun" 2>&1 ||
    { echo "FAILED: $*"; cat "$work/said-$n_begun"; touch "$work/failed"; } &
  [ $((n_begun % 8)) != 0 ] || wait
}
end() { wait; [ ! -e "$work/failed" ] || exit 1; }
convert() { # NAME LOG OPTIONS
  name=$1; log=$work/$2; shift 2
  $run "$TESSERA" convert --sequences "$log" --out "$work/out/$name" "$@" && echo "$work/out/$name" "$log" "$@" >> "$work/cases"
}
good() { begin convert "$@"; }

run=
# Targets, and what is left out of training.
good plain events.txt
for n in 0 1 2 4; do
  good shift$n events.txt --leave $n
  good pairs$n events.txt --leave $n --targets pairs
  good masked$n events.txt --leave $n --targets masked
done
good users events.txt --targets users
good short events.txt --max-length 3
good shortest events.txt --max-length 1 --leave 1
good common events.txt --min-count 7
good common-pairs words.csv --min-count 9 --targets pairs
# Shapes of logs.
good blanks blanks.txt
good timed timed.tsv
good dat dat.gz --columns 1,2,4
good untimed dat.gz --columns 1,2
good fractions fractions.csv --columns user_id,item_id,when
good named fractions.csv --columns user_id,item_id --targets users
good close close.txt
good words words.csv
good mixed mixed.txt
good zeros zeros.txt
good tagged tagged.txt
good lists lists.txt --lists
good lists-csv lists.csv --lists --targets pairs --leave 0
good split timed.tsv --split-at 5
good split-masked timed.tsv --split-at 5 --targets masked
good masked-short events.txt --max-length 2 --targets masked --negatives 4
good split-fraction timed.tsv --split-at 4.5 --max-length 4
good split-pairs fractions.csv --columns user_id,item_id,when --split-at 0 --targets pairs
# A second log, of what is not trained on.
good test-shift early.txt --test "$work/late.txt"
good test-pairs early.txt --test "$work/late.txt" --targets pairs
good test-words early.csv --test "$work/late.csv" --targets pairs
good test-short early-lists.txt --lists --test "$work/late-lists.txt" --max-length 4
good test-new early-lists.txt --lists --test "$work/late-lists.txt" --targets pairs --negatives 5
# Side columns, by name and by number, and times.
timed="--columns user,item,at"
good side-one sides.csv $timed --side place
good side-all sides.csv $timed --side place,price,kind,code --times
all=$n_begun
good side-numbers sides.tsv --columns 2,3,4 --side 6,1 --times
good side-both sides.csv --columns 2,item,4 --side 7,price
good side-untimed sides.csv --columns user,item --side place,price --leave 1
good side-short sides.csv $timed --side kind,price --times --max-length 3
good side-core sides.csv $timed --side place,code --times --min-count 8
good side-split sides.csv $timed --side place --times --split-at 6
good side-test early-sides.csv $timed --side place,price --times --test "$work/late-sides.csv"
good side-pairs sides.csv $timed --side place,price --targets pairs --leave 3 --negatives 4
good side-test-pairs early-sides.csv $timed --side place,price --test "$work/late-sides.csv" --targets pairs
good side-masked sides.csv $timed --side kind,price --times --targets masked
good side-masked-short sides.csv $timed --side kind --times --targets masked --max-length 2 --leave 1
good times-only close.txt --times --negatives 3 --max-length 5
good times-close close.txt --times
good times-masked early-sides.csv $timed --test "$work/late-sides.csv" --times --targets masked --max-length 4
# Items that a user never had.
good n-one events.txt --negatives 20 --seed 3
good n-again events.txt --negatives 20 --seed 3
good n-short events.txt --negatives 20 --seed 3 --max-length 2
good n-leave events.txt --negatives 20 --seed 3 --leave 1
good n-seed events.txt --negatives 20 --seed 4
good n-many lists.txt --lists --negatives 35
good n-pairs words.csv --negatives 5 --targets pairs --leave 3
# Two ranks: one of them does it.
run="${MPIRUN:-mpirun} -q -n 2"
good two timed.tsv --max-length 5
run=
end
check "says how many" grep -q 'out/plain.train.h5: 3[0-9] samples, [0-9]* ids of item, [0-9]* of next' "$work/said-1"
check "side columns of words" grep -q 'place: [0-9]* words (.*sides.csv, line 2, has the first one): .*/side-all.place.csv has their numbers' "$work/said-$all"
check "side columns of integers" grep -q 'price: [0-9]* integers' "$work/said-$all"
check "as worked out" $python "$oracle" check "$work/cases"

# A run reads them.
cat > "$work/read.deck" <<DECK
run = { name = "read"; steps = 3; valid_every = 2; threads = 1; output = "$work/read"; };
data = { train = "$work/out/n-one.train.h5"; valid = "$work/out/n-one.valid.h5"; eval = "$work/out/n-one.test.h5"; global_batch = 8; max_tokens = 4000; };
table_defaults = { dim = 4; rows = "auto"; optimizer = { kind = "sgd"; lr = 0.1; }; };
tables = ( { name = "item"; features = ["item"]; pooling = "none"; }, { name = "next"; features = ["next"]; }, { name = "user"; features = ["user"]; } );
model = { layers = ( { name = "of"; kind = "pool"; in = "item"; }, { name = "click"; kind = "mlp"; in = ["of", "next", "user"]; units = [1]; last_activation = "linear"; } ); };
DECK
check "a run reads them" "$TESSERA" train "$work/read.deck" --quiet
check "eval reads them" "$TESSERA" eval "$work/read.deck" --quiet

# Mistakes: the code, one message, no file.
mistake() { # CODE WORDS LOG OPTIONS
  want=$1; words=$2; log=$3; shift 3
  no=$(mktemp -d "$work/no-XXXXXX")
  $run "$TESSERA" convert --sequences "$work/$log" --out "$no/no" "$@" 2> "$no.err" > "$no.out"; code=$?
  [ $code = "$want" ] && [ "$(grep -c '^tessera: error:' "$no.err")" = 1 ] && grep -qF -- "$words" "$no.err" && rmdir "$no" && return
  echo "code $code, not $want, or not one message \"$words\", or files:"; cat "$no.err"; ls "$no"; return 1
}
wrong() { begin mistake "$@"; }
printf '1 2 3\n1 3 4\n\n1 4 x\n' > "$work/time.txt"; wrong 3 'time.txt: line 4: time "x" is no number' time.txt
printf '1 2 x\n1 3 4\n' > "$work/first.txt"; wrong 3 'first.txt: line 1: time "x" is no number' first.txt
printf '1 2 3\n1 3 nan\n' > "$work/nan.txt"; wrong 3 'nan.txt: line 2: time "nan" is no number' nan.txt
printf '1 2 3\n1 3\n' > "$work/few.txt"; wrong 3 'few.txt: line 2: has 2 columns, 3 are expected' few.txt
printf '1 2 3 4\n' > "$work/many.txt"; wrong 3 'many.txt: line 1: has 4 columns: --columns USER,ITEM or USER,ITEM,TIME says which they are' many.txt
wrong 3 'events.txt: line 1: has 2 columns, at least 5 are expected' events.txt --columns 1,5
wrong 3 'fractions.csv: line 1: the header has no column "item"' fractions.csv --columns user_id,item
printf 'user,item\n1,\n' > "$work/lacks.csv"; wrong 3 'lacks.csv: line 2: has no item' lacks.csv
printf 'user,item\n1,"a\n' > "$work/quote.csv"; wrong 3 'quote.csv: line 2: a quote has no end' quote.csv
printf '\n' > "$work/none.txt"; wrong 3 'none.txt: has no events' none.txt
printf 'user item\n' > "$work/header.txt"; wrong 3 'header.txt: has no events' header.txt
head -c 300 "$work/dat.gz" > "$work/cut.gz"; wrong 3 'cut.gz: line ' cut.gz --columns 1,2,4
wrong 3 'missing.txt: No such file' missing.txt
wrong 3 '--min-count 999 leaves no events' events.txt --min-count 999
printf '1 2\n2 3\n' > "$work/single.txt"; wrong 3 'no.train.h5 would have no samples: the users have too few events' single.txt
printf '1 2\n1 3\n' > "$work/pair.txt"; wrong 3 'no.valid.h5 would have no samples' pair.txt
wrong 3 '--negatives 58 takes more' events.txt --negatives 58
wrong 3 'user "u' words.csv --negatives 59
wrong 3 'has no times for --split-at' events.txt --split-at 3
wrong 2 '--split-at x is no number' timed.tsv --split-at x
wrong 2 '--targets is one of shift, masked, pairs, users, not all' events.txt --targets all
wrong 2 '--columns a is not USER,ITEM or USER,ITEM,TIME' events.txt --columns a
wrong 2 '--columns: columns are from 1' events.txt --columns 0,1
wrong 2 '--leave 2000 is no number in 0 to 1000' events.txt --leave 2000
wrong 2 '--leave and --split-at exclude each other' timed.tsv --leave 1 --split-at 3
wrong 2 '--max-length is of --targets shift and masked' events.txt --max-length 3 --targets users
wrong 2 'and --leave 0 leaves nothing' events.txt --negatives 3 --leave 0
wrong 2 '--test and --leave exclude each other' events.txt --test "$work/events.txt" --leave 1
wrong 2 '--test and --min-count exclude each other' events.txt --test "$work/events.txt" --min-count 2
wrong 2 '--test and --split-at exclude each other' timed.tsv --test "$work/timed.tsv" --split-at 1
wrong 2 '--test is not of --targets users' events.txt --test "$work/events.txt" --targets users
wrong 3 'missing.txt: No such file' events.txt --test "$work/missing.txt"
wrong 3 'none.txt: has no events' events.txt --test "$work/none.txt"
wrong 3 'timed.tsv: has times, the log before it has none' events.txt --test "$work/timed.tsv"
wrong 3 'events.txt: has no times, the log before it has some' timed.tsv --test "$work/events.txt"
wrong 3 'time.txt: line 4: time "x" is no number' timed.tsv --test "$work/time.txt"
# Side columns and times.
wrong 2 '--side is not of --lists' lists.txt --lists --side 3
wrong 2 '--side is not of --targets users' sides.csv $timed --side kind --targets users
wrong 2 '--side goes with --columns' timed.tsv --side 3
wrong 2 "--side: a feature can't be called label" sides.csv $timed --side kind,label
wrong 2 "--side: a feature can't be called users" sides.csv $timed --side users
wrong 2 '--side has side5 twice' sides.csv $timed --side 5,side5
wrong 2 '--side at: --columns or --side has this column already' sides.csv $timed --side at
wrong 2 '--side 1: --columns or --side has this column already' sides.csv $timed --side kind,1
wrong 2 '--side: columns are from 1 to 1024, not 0' sides.csv $timed --side 0
wrong 2 'less than 104 letters and no /' sides.csv $timed --side a/b
wrong 2 '--side has 17 columns, 16 are the most' sides.csv $timed --side 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
wrong 3 'sides.csv: line 1: the header has no column "colour"' sides.csv $timed --side colour
wrong 3 'late-sides.csv: line 1: the header has no column "kind"' early-sides.csv $timed --side kind --test "$work/late-sides.csv"
wrong 3 'sides.tsv: line 1: has 7 columns, at least 8 are expected' sides.tsv --columns 2,3,4 --side 8
printf 'user,item,kind\n1,2,a\n1,3,\n' > "$work/no-kind.csv"; wrong 3 'no-kind.csv: line 3: has no kind' no-kind.csv --columns user,item --side kind
printf 'user,item,when\n1,2,3\n1,3,4.5\n' > "$work/half.csv"
wrong 2 '--times is not of --lists' lists.txt --lists --times
wrong 2 '--times is of --targets shift and masked' timed.tsv --times --targets pairs
wrong 2 '--times is of --targets shift and masked' timed.tsv --times --targets users
wrong 3 'events.txt: has no times for --times: --columns USER,ITEM,TIME says where they are' events.txt --times
wrong 3 '.5" is no whole number from 0 on: times are ids with --times' half.csv --columns user,item,when --times
printf '1 2 3\n1 3 -4\n' > "$work/below.txt"; wrong 3 'below.txt: line 2: time "-4" is no whole number from 0 on' below.txt --times
wrong 2 '--split-at 4.5 is no whole number: times are ids with --times' close.txt --times --split-at 4.5
wrong 2 'without a deck' events.txt "$work/read.deck"
run="${MPIRUN:-mpirun} -q -n 2"
wrong 3 'time.txt: line 4: time "x" is no number' time.txt
# What fails on the way leaves nothing.
if has_faults; then
  for fault in open:rank0:nth3 write:rank0:nth8 fsync:rank0:nth2 hdf5:rank0:nth9 flush:rank0:nth2 rename:rank0:nth1; do
    run="env TESSERA_FAULT=$fault"; wrong 1 '/no.' words.csv
    run="env TESSERA_FAULT=$fault"; wrong 1 '/no.' sides.csv $timed --side place,kind --times
  done
fi
run=
end
cp "$work/events.txt" "$work/self.train.h5"
"$TESSERA" convert --sequences "$work/self.train.h5" --out "$work/self" > "$work/said" 2> "$work/err"; code=$?
check "the log itself: code 2, not $code" test $code = 2
check "the log itself" grep -qF 'self.train.h5 is a file to read' "$work/err"
check "the log stays" cmp -s "$work/self.train.h5" "$work/events.txt"

cp "$work/events.txt" "$work/out/shift1.valid.h5"
"$TESSERA" convert --sequences "$work/events.txt" --out "$work/out/shift1" --leave 1 > "$work/said" 2>&1
check "a file of an earlier conversion" grep -q 'WARNING: .*/shift1.valid.h5 is not of this conversion' "$work/said"
cp "$work/events.txt" "$work/out/side-one.price.csv"
"$TESSERA" convert --sequences "$work/sides.csv" --out "$work/out/side-one" $timed --side price,place > "$work/said" 2>&1
check "a list of an earlier conversion's words" grep -q 'WARNING: .*/side-one.price.csv is not of this conversion' "$work/said"
check "the others are of this one" test "$(grep -c WARNING "$work/said")" = 1
cp "$work/sides.csv" "$work/self.place.csv"
"$TESSERA" convert --sequences "$work/self.place.csv" --out "$work/self" $timed --side place > "$work/said" 2> "$work/err"; code=$?
check "the log as a list of words: code 2, not $code" test $code = 2
check "the log as a list of words stays" cmp -s "$work/self.place.csv" "$work/sides.csv"
films=${TESSERA_DATA_DIR:-}/ml-1m-seq/ml-1m.5core.txt
if [ -r "$films" ]; then
  check "MovieLens" "$TESSERA" convert --sequences "$films" --out "$work/films" --max-length 200 --negatives 100 > "$work/said"
  check "MovieLens: counts" grep -q ': 999,611 events, 6,040 users, 3,416 items' "$work/said"
  for part in train valid test; do check "MovieLens: $part" grep -q "films.$part.h5: 6,040 samples" "$work/said"; done
fi
passed
