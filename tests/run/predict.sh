#!/bin/sh
# predict.sh - what predict writes: CSV and HDF5 by the name's end, with keys
# of any format, in the input's order on any number of ranks; embeddings with
# their words; and pipes.  seconds: 300
. "$srcdir/tests/support/common.sh"
command -v h5dump > /dev/null || { echo "h5dump (hdf5-tools) is not here"; exit 77; }
cd "$work" || exit 99
run() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
refused() { # CODE TEXT COMMAND...: on two ranks
  code=$1 text=$2; shift 2
  run 2 "$@" > out 2> err; rc=$?
  check "code $code, not $rc, of $*" test $rc = "$code"
  check "\"$text\" of $*" grep -qF -- "$text" err
}
cat > model.deck <<'DECK'
run = { output = "run"; steps = 60; threads = 1; };
data = { train = "train.csv"; eval = "test.csv"; format = "csv"; global_batch = 16;
  csv = { label = "clicked"; dense = ["age"]; dense_transform = "standardise"; encoding = "vocabulary"; }; };
tables = ( { name = "city"; rows = 20; dim = 4; features = ["city"]; },
           { name = "ad"; rows = 300; dim = 4; features = ["ad"]; } );
model = { kind = "dlrm"; dense_features = 1; dense_arch = [16, 4]; over_arch = [32, 1]; };
optimizer = { kind = "adam"; lr = 0.02; };
table_defaults = { optimizer = { kind = "adam"; lr = 0.05; }; };
DECK
awk 'BEGIN { print "user,age,city,clicked,ad"; for (i = 0; i < 300; i++)
  printf "u%d,%d,%s,%d,a%d\n", i, 20 + i % 50, i % 7 == 3 ? "\"Rio, \"\"RJ\"\"\"" : "c" i % 7, i % 3 == 0, i * 7 % 100 }' > train.csv
{ head -n 1 train.csv; tail -n 133 train.csv; } > test.csv
cp test.csv new.csv
check "train" run 2 train model.deck --quiet

# The words that it has learnt, and how often each was there.
printf '"Rio, ""RJ"""\t43\nc0\t43\nc1\t43\nc2\t43\nc4\t43\nc5\t43\nc6\t42\n' > want
check "words" sh -c "'$TESSERA' inspect '$(newest run)' --vocabulary city > have"
check "as often as they are there" cmp want have
check "a feature's" test "$("$TESSERA" inspect "$(newest run)" --vocabulary ad | sed -n '$p')" = "$(printf 'a99\t3')"
refused 2 'has no words of feature "town", but of: city, ad' inspect "$(newest run)" --vocabulary town

# CSV: a header, a row for each sample in the input's order, cells as they were.
for n in 1 2 4; do
  check "CSV on $n" run $n predict model.deck --out p$n.csv --keys user,city,clicked --quiet
  check "the same bytes on $n" cmp p1.csv p$n.csv
  check "HDF5 on $n" run $n predict model.deck --out p$n.h5 --keys user,city --quiet
done
check "header" test "$(head -n 1 p1.csv)" = "user,city,clicked,prediction"
cut -d , -f 1,3- test.csv | sed 's/,a[0-9]*$//; s/\r//' | tail -n +2 > want
sed 's/,[0-9.e-]*$//' p1.csv | tail -n +2 > have
check "scores differ" test "$(sed 's/.*,//' p1.csv | sort -u | wc -l)" -ge 50
check "rows are the input's" cmp want have
check "scores are probabilities" awk -F , 'NR > 1 && !($NF > 0 && $NF < 1) { bad = 1 } END { exit bad || NR != 134 }' p1.csv
check "keys don't depend on ranks" h5diff -q p1.h5 p4.h5 /keys /keys
check "nor scores" h5diff -q -d 1e-6 p1.h5 p4.h5 /predictions /predictions
value() { h5dump -y -w 1 -d "$1" "$2" | sed -n '/DATA {/,/}/p' | grep -v '[{}]' | sed 's/^ *//; s/,$//' | grep .; }
check "keys in HDF5" sh -c "$(command -v h5dump) -d /keys/city p2.h5 | grep -q 'Rio, .RJ'"
value /keys/user p2.h5 | tr -d '"' | sed 's/[\\].*//' > have
tail -n +2 test.csv | cut -d , -f 1 > want
check "users in HDF5" cmp want have
value /predictions p2.h5 > have
sed 1d p2.csv | sed 's/.*,//' > want
check "CSV and HDF5 have the same scores" sh -c "paste want have | awk '{ d = \$1 - \$2; if (d < -1e-5 || d > 1e-5) bad = 1 } END { exit bad || NR != 133 }'"
check "packed" run 2 predict model.deck --out p.csv.gz --keys user,city,clicked --quiet
check "is the same" sh -c "gzip -dc p.csv.gz | cmp - p1.csv"
check "nothing is left" test -z "$(ls | grep part)"
refused 2 "--out p.txt: the end of its name says no format" predict model.deck --out p.txt
refused 3 '--keys: the header has no column "nobody"' predict model.deck --out q.csv --keys user,nobody
refused 2 "a name is empty" predict model.deck --out q.csv --keys user,,city
awk 'BEGIN { getline < "test.csv"; print; for (i = 0; i < 5000; i++) s = s "x"; print s ",20,c1,1,a1" }' > wide.csv
refused 3 "wide.csv:2: a cell of a column of --keys has more than 4096 bytes" predict model.deck --out q.csv --keys user --data wide.csv
check "nothing of them" test ! -e p.txt -a ! -e q.csv -a -z "$(ls | grep part)"
check "--data" run 2 predict model.deck --data new.csv --out q.csv --keys user,city,clicked --quiet
check "is data.eval" cmp p1.csv q.csv

sed '1!s/^u[0-9]*,\([0-9]*\),\("Rio, ""RJ"""\|c[0-9]\),[01],\(a[0-9]*\)$/"k\n,1",\1,\2,\3/; 1s/.*/user,age,city,ad/' test.csv > bare.csv
check "without labels" run 2 predict model.deck --data bare.csv --out q.csv --quiet
sed 's/.*,//' p1.csv > want
check "the same scores" cmp want q.csv
check "keys with line ends" run 3 predict model.deck --data bare.csv --out q.csv --keys user --quiet
check "are as they were" test "$(grep -c '^"k$' q.csv) $(grep -c '^,1",0.[0-9]*$' q.csv)" = "133 133"

{ cat test.csv; echo 'a user of many words,20,c1,1,a1'; } > long.csv
for n in 1 4; do check "a long cell at the end, on $n" run $n predict model.deck --data long.csv --out l$n.h5 --quiet --keys user; done
check "the same keys" h5diff -q l1.h5 l4.h5 /keys /keys
check "it is whole" sh -c "h5dump -d /keys/user l4.h5 | grep -q 'a user of many words'"

# Keys of other formats.
check "a data set" run 2 convert model.deck eval --quiet --out test.h5
for n in 1 3; do check "its keys" run $n predict model.deck --quiet --out d$n.csv --data test.h5 --set data.format=dataset --set data.train=test.h5 --keys labels,ad; done
check "don't depend on ranks" cmp d1.csv d3.csv
check "its labels" sh -c "sed '1d; s/.*,\([01]\),a.*/\1/' test.csv > want; sed 1d d1.csv | cut -d , -f 1 | cmp - want"
value /sparse/ad/values test.h5 > want
check "its ids" sh -c "sed 1d d1.csv | cut -d , -f 2 | cmp - want"
check "of two files" run 2 predict model.deck --quiet --out q.csv --set data.format=dataset --set data.train=test.h5 --set 'data.eval=["test.h5", "test.h5"]' --keys ad
check "both" sh -c "cat want want > twice; sed 1d q.csv | cut -d , -f 1 | cmp - twice"
refused 3 'has no dataset "user"' predict model.deck --out q.csv --data test.h5 --set data.format=dataset --set data.train=test.h5 --keys user
cat > criteo.deck <<'DECK'
run = { output = "criteo"; steps = 3; };
data = { train = "log.tsv"; eval = "log.tsv"; format = "criteo_tsv"; global_batch = 8; };
tables = ( { name = "t{0..25}"; rows = 100; dim = 4; features = ["C{1..26}"]; } );
model = { dense_features = 13; dense_arch = [4]; over_arch = [1]; };
DECK
check "a log" run 1 generate criteo.deck --quiet --out log.tsv --format criteo_tsv --set data.synthetic.samples=50
check "train on it" run 2 train criteo.deck --quiet
check "its keys" run 2 predict criteo.deck --quiet --out c.csv --keys label,I13,C26
cut -f 1,14,40 log.tsv | tr '\t' , > want
check "are its columns" sh -c "sed 1d c.csv | cut -d , -f 1-3 | cmp - want"
refused 3 '"C27" is no column' predict criteo.deck --out q.csv --keys C27
check "train on none" train 1 small --set run.steps=2
refused 2 "data of format synthetic has no columns to name" predict small.deck --out q.csv --keys x --set run.output=small

# Embeddings: words, or numbers of rows, whatever the sharding and the ranks.
for n in 1 2 4; do
  check "embeddings on $n" run $n predict model.deck --embeddings city --out e$n.csv --quiet
  check "the same on $n" cmp e1.csv e$n.csv
  check "several on $n" run $n predict model.deck --embeddings city,ad --out e$n.h5 --quiet
done
check "header" test "$(head -n 1 e1.csv)" = "word,e0,e1,e2,e3"
check "words" test "$(sed 's/,-\{0,1\}[0-9][^,]*,[^,]*,[^,]*,[^,]*$//' e1.csv | tr '\n' ' ')" = 'word,e0,e1,e2,e3  "Rio, ""RJ""" c0 c1 c2 c4 c5 c6 '
table=/model/sparse_arch.embedding_bag_collection.embedding_bags.city.weight
h5dump -y -w 1 -m %.9g -d $table -s 0,0 -c 8,4 "$(newest run)" | sed -n '/DATA {/,/}/p' | grep -v '[{}]' | tr -d ' ,' | grep . > want
sed 1d e1.csv | grep -oE '(,-?[0-9][^,]*){4}$' | tr , '\n' | grep . > have
check "vectors are the checkpoint's" cmp want have
check "HDF5: words" sh -c "h5dump -d /embeddings/city/words e2.h5 | grep -q c6"
check "and all vectors" h5diff -q e1.h5 e4.h5
check "of 101 words" test "$(h5dump -H -d /embeddings/ad/vectors e2.h5 | grep -c '( 101, 4 )')" = 1
check "rows" run 2 predict model.deck --embeddings city --out r.csv --quiet --checkpoint "$(newest criteo)" \
  --set 'tables=({name="t1";rows=100;dim=4;features=["city"];},{name="t2";rows=100;dim=4;features=["ad"];})'
check "without a vocabulary" test "$(wc -l < r.csv) $(sed -n 's/,.*//; 1p; 101p' r.csv | tr '\n' ' ')" = "101 row 99 "
refused 2 'no feature "town"; there are: city, ad' predict model.deck --embeddings town --out q.csv
refused 2 "a file of this format takes one feature" predict model.deck --embeddings city,ad --out q.csv
refused 2 "neither --keys nor --data" predict model.deck --embeddings city --keys user --out q.csv

# The best checkpoint.
refused 4 "checkpoints/best.h5 is not there" predict model.deck --checkpoint best --out q.csv
refused 4 "checkpoints/best.h5 is not there" predict model.deck --checkpoint best --embeddings city --out q.csv
cp "$(newest run)" run/checkpoints/best.h5
check "train on" run 2 train model.deck --quiet --set run.steps=80
check "other scores" sh -c "'$TESSERA' predict model.deck --out - --quiet --keys user,city,clicked | cmp -s - p1.csv; test \$? = 1"
check "best" run 2 predict model.deck --checkpoint best --out q.csv --keys user,city,clicked --quiet
check "is that file" cmp p1.csv q.csv

rm run/checkpoints/step-00000080.h5

# Pipes: stdout is for the result alone.
for n in 1 3; do
  check "pipes on $n" sh -c "cat new.csv | ${MPIRUN:-mpirun} -q -n $n '$TESSERA' predict model.deck --data - --out - --keys user,city,clicked > q.csv 2> err"
  check "the same" cmp p1.csv q.csv
  check "the log is on stderr" grep -q '^weights of step 60' err
done
check "packed, in a pipe" sh -c "gzip -c new.csv | '$TESSERA' predict model.deck --data - --out - --quiet --keys user,city,clicked | cmp - p1.csv"
mkdir tmp
check "its copy" sh -c "cat new.csv | TMPDIR=$work/tmp '$TESSERA' predict model.deck --data - --out q.csv --quiet"
check "is removed" test -z "$(ls tmp | grep stdin)"
"$TESSERA" predict model.deck --out - > /dev/full 2> err; rc=$?
check "a pipe that takes no more: code 1, not $rc" test $rc = 1
passed
