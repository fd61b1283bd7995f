#!/bin/sh
# rows.sh - a look at the data before training (train --check), and tables with
# as many rows as the data need.  seconds: 300
. "$srcdir/tests/support/common.sh"
cd "$work" || exit 99
run() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
cat > csv.deck <<'DECK'
run = { steps = 4; output = "o"; };
data = { train = "a.csv"; eval = "b.csv"; format = "csv"; global_batch = 4;
  csv = { label = "y"; label_true = ["yes"]; missing = "?"; dense = ["x"]; encoding = "vocabulary"; }; };
tables = ( { name = "u"; rows = 100; dim = 16; features = ["u"]; }, { name = "v"; rows = 100; dim = 16; features = ["v"]; } );
model = { dense_features = 1; dense_arch = [16]; over_arch = [1]; };
sharding = { topology = "default"; };
DECK
printf 'x,u,y,v\n1,"b, c",yes,k\n3, a ,no,k\n?,?,yes,m\n5,a,no,l\n' > a.csv
printf 'x,u,y,v\n3,new,yes,m\n' > b.csv
# fails CODE PATTERN command...
fails() {
  want=$1; pattern=$2; shift 2
  "$@" > out 2> err; code=$?
  [ $code = "$want" ] || cat out err
  check "$*: code $want, not $code" test $code = "$want"
  check "$*: one message" test "$(grep -c 'tessera: error' err)" = 1
  grep -q "$pattern" err || cat err
  check "$*: $pattern" grep -q "$pattern" err
}
checked() { run 2 train csv.deck --check "$@"; }

check "data without a fault" checked > out
check "rows of u: two words, and one for others" grep -Eq '^u +100 +3$' out
check "rows of v" grep -Eq '^v +100 +4$' out
check "nothing is written" test ! -e o
fails 3 'none.csv: no such file' checked --set data.train=none.csv
fails 3 'none.csv: no such file' checked --set data.eval=none.csv
fails 3 'the header has no column "w"' checked --set 'data.csv.dense=["w"]'
fails 3 'a.csv:2: column "u": the label is neither 0 nor 1' checked --set data.csv.label_threshold=1 --set 'data.csv.label_true=[]' --set data.csv.label=u
fails 3 'feature u has 2 values and needs 3 rows; table u has 2' checked --set tables.u.rows=2 --set tables.v.rows=3
check "the other table at once" grep -q '^feature v has 3 values and needs 4 rows; table v has 3; rows = "auto" takes what is needed' err
check "and all rows" grep -Eq '^v +3 +4$' out
fails 3 'feature v has 3 values' run 2 train csv.deck --quiet --set tables.u.rows=2 --set tables.v.rows=3
check "of a run at once, too" grep -q 'feature u has 2 values' err
rm -rf o

# rows = "auto"
auto="--set tables.u.rows=auto --set tables.v.rows=auto"
check "a check of auto" checked $auto > out
check "the rows that are taken" grep -Eq '^u +auto +3$' out
check "auto trains" run 2 train csv.deck --quiet $auto
check "the deck in force has numbers" test "$(sed -n 's/^    rows = //p' o/deck.effective | tr -d '\n')" = "3;4;"
check "which run to the same" run 1 train o/deck.effective --quiet --set run.output="$work/p" --set checkpoint.dir="$work/p/checkpoints"
check "the tables have them" test "$("$TESSERA" inspect "$(ls o/checkpoints/*.h5)" | grep -c 'bags\.[uv]\.weight  *([34], 16)')" = 2
# More words later: a run keeps its rows, and so do those that read it.
printf '7,d,no,n\n7,e,no,o\n' >> a.csv
check "a run that goes on" run 1 train csv.deck --quiet $auto --set run.steps=6
check "keeps its rows" test "$(sed -n 's/^    rows = //p' o/deck.effective | tr -d '\n')" = "3;4;"
check "so does its check" checked $auto > out
check "it has the run's words" grep -Eq '^u +3 +3$' out
check "eval" run 2 eval csv.deck --quiet $auto
check "eval where the training data are not" run 1 eval csv.deck --quiet $auto --set data.train=none.csv
check "predict by a file's rows" run 1 predict csv.deck --quiet $auto --set run.output=q --set data.train=none.csv --checkpoint "$(ls o/checkpoints/*6.h5)" --out p.h5
check "afresh there are more" run 1 train csv.deck --quiet $auto --set checkpoint.resume=never
check "rows" test "$(sed -n 's/^    rows = //p' o/deck.effective | tr -d '\n')" = "5;6;"
# A folder of another model's: not by its rows, which say nothing of these.
sed 's/name = "v"/name = "other"/; s/rows = 100/rows = "auto"/g' csv.deck > other.deck
printf 'x,u,y,v\n1,a,no,k\n1,b,no,l\n1,c,yes,m\n1,d,no,n\n1,a,no,o\n1,b,no,p\n' > more.csv
fails 4 "v.weight[^,]*, which the deck.s model does not have" run 2 train other.deck --set data.train=more.csv
check "a plan" run 1 plan csv.deck 2 $auto > out
fails 3 'none.csv: no such file.*; a plan by rows = "auto" needs the data' run 2 plan csv.deck $auto --set data.train=none.csv --set run.output=none
fails 2 'table u: rows = "auto" is not known: data.csv.encoding = "hash" fits words' checked $auto --set data.csv.encoding=hash --set run.output=none
check "any number" checked --set data.csv.encoding=hash --set run.output=none > out
check "does" grep -Eq '^u +100 +any$' out
fails 2 'ids of format synthetic are made to fit any' run 2 train small.deck --set tables.a.rows=auto
# Ids that are plain: what a file says of itself.
check "convert" run 2 convert csv.deck --quiet $auto --set run.output=none --out a.h5
check "convert eval" run 1 convert csv.deck eval --quiet $auto --set run.output=none --out b.h5
set="--set data.format=dataset --set data.train=a.h5 --set data.eval=b.h5 --set run.output=d"
check "a data set" run 2 train csv.deck --quiet $auto $set
check "its rows" test "$(sed -n 's/^    rows = //p' d/deck.effective | tr -d '\n')" = "5;6;"
check "with rows of the evaluation's ids" run 2 train csv.deck --quiet $auto $set --set data.train=b.h5 --set data.eval=a.h5 --set run.output=e
check "they count" test "$(sed -n 's/^    rows = //p' e/deck.effective | tr -d '\n')" = "5;6;"
fails 3 'feature u has 4 as its largest id and needs 5 rows; table u has 2' checked $set --set tables.u.rows=2 --set tables.v.rows=2
check "the other table" grep -q 'feature v has 5 as its largest id and needs 6 rows; table v has 2' err
check "unless such ids are dropped" checked $set --set tables.u.rows=2 --set data.on_bad_id=drop > out

# Evaluations that never come.
note='NOTE: run.eval_every = 2 has no data to evaluate on'
check "a check says it" checked --set 'data.eval=[]' --set run.eval_every=2 --set run.output=none > out
check "once" test "$(grep -c "$note" out)" = 1
run 2 train csv.deck --set 'data.eval=[]' --set run.eval_every=2 --set run.output=none > out
check "a run says it" test "$(grep -c "$note" none/log)" = 1
check "data that evaluate" checked --set run.eval_every=2 > out
check "without" test "$(grep -c "$note" out)" = 0
passed
