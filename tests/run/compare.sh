#!/bin/sh
# compare.sh - two runs on the same samples: figures are those of eval, the
# text is the same on any ranks, a run is no better than itself, other samples
# are refused.  seconds: 60
. "$srcdir/tests/support/common.sh"
not_sanitized
cd "$work" || exit 99
run() { # RANKS COMMAND...
  n=$1; shift
  if [ "$n" = 1 ]; then "$TESSERA" "$@"; else ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; fi
}
refused() { # CODE TEXT COMMAND...: on two ranks what ranks find in files
  code=$1 text=$2; shift 2
  run $((code == 2 ? 1 : 2)) "$@" > out 2> err; rc=$?
  check "code $code, not $rc, of $*" test $rc = "$code"
  check "\"$text\" of $*" grep -qF -- "$text" err
  check "one message of $*" test "$(grep -c 'tessera: error' err)" = 1
}
cat > model.deck <<'DECK'
run = { output = "good"; steps = 150; threads = 1; };
data = { train = "train.csv"; eval = "test.csv"; format = "csv"; global_batch = 32;
  columns = ( { name = "label"; kind = "label"; from = "clicked"; }, { name = "age"; kind = "dense"; },
              { name = "w"; kind = "weight"; from = "w"; }, { name = "ad"; kind = "ids"; encoding = "vocabulary"; } ); };
tables = ( { name = "ad"; rows = 60; dim = 4; features = ["ad"]; } );
model = { kind = "dlrm"; dense_features = 1; dense_arch = [8, 4]; over_arch = [16, 1]; };
optimizer = { kind = "adam"; lr = 0.01; };
table_defaults = { optimizer = { kind = "adam"; lr = 0.05; }; };
DECK
# Ads differ in how often they are clicked: there is something to learn.
awk 'BEGIN { print "age,clicked,bought,w,one,ad"; x = 7; for (i = 0; i < 1500; i++) {
  x = (x * 16807) % 2147483647; ad = x % 40; x = (x * 16807) % 2147483647; clicked = x % 40 < ad
  printf "%.6f,%d,%d,%d,1,a%d\n", x / 2147483647, clicked, i % 3 == 0, 1 + i % 3, ad } }' > train.csv
{ head -n 1 train.csv; tail -n 300 train.csv; } > test.csv
other() { # FOLDER SED: the deck with changes, a few steps
  sed "s/\"good\"/\"$1\"/; s/150/3/; $2" model.deck > "$1.deck"; run 1 train "$1.deck" --quiet
}
check "train" run 1 train model.deck --quiet
check "train less" other weak ""

# ---- what it says --------------------------------------------------------------
check "on one rank" run 1 compare weak good > out
grep -v ': weights of' out > text
eval_of() { "$TESSERA" eval "$1.deck" | sed -n 's/.* AUC \([0-9.]*\)  log loss \([0-9.]*\)  NE \([0-9.]*\) .*/\1 \2 \3/p'; }
column() { awk -v c="$1" '/^(AUC|NE) / { print $c } /^log loss / { print $(c + 1) }' text | tr '\n' ' ' | sed 's/ $//'; }
cp model.deck good.deck
check "A's figures are eval's" test "$(column 2)" = "$(eval_of weak)"
check "so are B's" test "$(column 3)" = "$(eval_of good)"
check "A's checkpoint" grep -q '^A: weak, step 3 of weak/checkpoints/step-00000003.h5$' text
check "B's" grep -q '^B: good, step 150 of ' text
check "the better one" test "$(grep -c 'B is better$' text)" = 3
check "and the other way" test "$(run 1 compare good weak --quiet | grep -c 'A is better$')" = 3
check "differences lie in their intervals" awk '/^(AUC|NE) |^log loss / { sub("log loss", "logloss"); n++
  if (!($4 + 0 > $5 + 0 && $4 + 0 < $7 + 0)) bad = 1 } END { exit bad || n != 3 }' text
# A sample for each rank at a time: then predictions have the same bits, too.
check "alone" run 1 compare weak good --quiet --set data.global_batch=1 > one
for n in 2 4; do
  check "on $n" run $n compare weak good --quiet --set data.global_batch=$n > many
  check "the same text on $n" cmp one many
done
check "threads" run 1 compare weak good --quiet --set data.global_batch=1 --set run.threads=3 > many
check "change nothing" cmp one many
run 1 compare weak good --quiet --set data.global_batch=1 --seed 2 > many
check "another seed has other intervals" sh -c '! cmp -s one many'
check "the same figures" test "$(cut -c 1-40 one | tail -n 4)" = "$(cut -c 1-40 many | tail -n 4)"
check "itself" run 2 compare good good --quiet --resamples 100 > text
check "is no better" test "$(grep -c ' +0.00000  +0.00000 to +0.00000  no difference beyond chance$' text)" = 3
check "JSON" run 2 compare good weak/checkpoints/step-00000003.h5 --json > json 2> err
check "the log is on stderr" grep -q '^good: weights of step 150' err
check "it is one line" test "$(wc -l < json)" = 1
if command -v python3 > /dev/null; then
  check "of these members" python3 -c 'import json
x = json.load(open("json")); t = x["tasks"][0]; auc = t["auc"]
assert x["a"] == {"run": "good", "checkpoint": "good/checkpoints/step-00000150.h5", "step": 150}, x
assert (x["samples"], x["resamples"], x["seed"], len(x["tasks"])) == (300, 1000, 1, 1), x
assert auc["better"] == t["logloss"]["better"] == t["ne"]["better"] == "a", t
assert auc["low"] < auc["difference"] < auc["high"] < 0 and abs(auc["b"] - auc["a"] - auc["difference"]) < 1e-5, t'
fi

# ---- what is compared ----------------------------------------------------------
mkdir -p both/checkpoints
cp good/checkpoints/step-00000150.h5 both/checkpoints; cp weak/checkpoints/step-00000003.h5 both/checkpoints/best.h5
check "the best comes first" sh -c "'$TESSERA' compare both weak --quiet | grep -q '^A: both, step 3 of both/checkpoints/best.h5$'"
sed 201q train.csv > first.csv; { head -n 1 train.csv; sed -n '202,301p' train.csv; } > second.csv
check "other data" run 2 compare weak good --quiet --data first.csv,second.csv > text
check "are both files" grep -q '^the same 300 samples' text
two='--set model.tasks=({name="click";},{name="buy";}) --set model.over_arch=[8,2] --set run.steps=3'
check "two tasks" train 1 two $two
check "a table each" test "$(run 2 compare two two --quiet | grep '^task' | tr '\n' ' ')" = "task click task buy "

# ---- refused -------------------------------------------------------------------
check "another label" other bought 's/"clicked"/"bought"/'
check "other weights" other flat 's/from = "w"/from = "one"/'
check "no data.eval" other bare 's/eval = "test.csv"; //'
check "made samples" train 1 made --set run.steps=3
check "fewer of them" train 1 fewer --set run.steps=3 --set data.synthetic.eval_samples=200
refused 2 "usage: tessera compare RUN RUN" compare weak
refused 2 "--resamples 99 is no number in 100 to 100000" compare weak good --resamples 99
refused 2 "--seed -1 is no number in 0 to" compare weak good --seed -1
refused 2 "two and good have different tasks" compare two good
refused 2 "the deck of bare has no data.eval: give the data to compare on by --data FILE" compare bare good
refused 2 'the deck of fewer has data.format = "synthetic", which reads no --data' compare good fewer --data test.csv
refused 3 "nobody.csv: no such file" compare weak good --data nobody.csv
refused 3 "with the deck of good and" compare good bought
check "says where" grep -q 'sample [0-9]* has label [01] with the deck of good and [01] with that of bought' err
refused 3 "sample 1 has weight" compare good flat
refused 3 "the data has 300 samples with the deck of made and 200 with that of fewer: compare needs the same ones" compare made fewer
refused 4 "nowhere holds no checkpoint: give a run's folder (run.output), or the file of a checkpoint" compare good nowhere
mkdir -p empty/checkpoints
refused 4 "empty holds no checkpoint" compare empty good
refused 4 "train.csv" compare good train.csv
check "with --data" run 2 compare bare good --quiet --data test.csv > text
passed
