#!/bin/sh
# data_formats.sh - text formats: .gz, short and bad records, vocabularies,
# quotes; the same samples on any number of ranks.  seconds: 400
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
run() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
cat > "$work/criteo.deck" <<'DECK'
run = { steps = 3; };
data = { train = "log.tsv"; format = "criteo_tsv"; global_batch = 8; };
tables = ( { name = "t{0..25}"; rows = 1000; dim = 16; features = ["C{1..26}"]; } );
model = { dense_features = 13; dense_arch = [16]; over_arch = [1]; };
DECK
run 2 generate "$work/criteo.deck" --quiet --out "$work/log.tsv" --format criteo_tsv --set data.synthetic.samples=3000
check "a line has 40 fields" test "$(head -n 1 "$work/log.tsv" | awk -F '\t' '{ print NF }')" = 40
for n in 1 3; do check "convert on $n" run $n convert "$work/criteo.deck" --quiet --out "$work/c$n.h5"; done
check "ranks don't matter" h5diff -q "$work/c1.h5" "$work/c3.h5"
for form in CONTI CHUNK=700x13; do # with and without HDF5's own reading
  h5repack -l "/dense:$form" -l /labels,/sparse/C1/values:${form%x13} "$work/c1.h5" "$work/form.h5"
  check "a data set of one, $form" run 2 convert "$work/criteo.deck" --quiet --out "$work/again.h5" --set data.format=auto --set data.train=form.h5
  check "is the same" h5diff -q "$work/c1.h5" "$work/again.h5"
done
gzip -c "$work/log.tsv" > "$work/log2.tsv.gz"
check "convert .gz" run 2 convert "$work/criteo.deck" --quiet --out "$work/gz.h5" --set data.train="$work/log2.tsv.gz"
check ".gz is the same" h5diff -q "$work/c1.h5" "$work/gz.h5"
{ printf '\357\273\277'; cat "$work/log.tsv"; } > "$work/mark.tsv"
check "a byte order mark" run 2 convert "$work/criteo.deck" --quiet --out "$work/mark.h5" --set data.train=mark.tsv
check "is none of the data" h5diff -q "$work/c1.h5" "$work/mark.h5"
# Values: label, log(x + 1), hex modulo rows, missing, short lines, negatives.
printf '1\t3\t\t-5\t\t\t\t\t\t\t\t\t\t0\t000003e9\t\tffffffff' > "$work/few.tsv"
printf '\n0\t1\n' >> "$work/few.tsv"
check "convert a few" sh -c "cd '$work' && '$TESSERA' convert criteo.deck --out few.h5 --set data.train=few.tsv > few.log"
check "short lines are counted" grep -q '2 records' "$work/few.log"
value() { h5dump -d "$1" "$work/few.h5" | sed -n 's/.*([0-9,]*): \(.*\)/\1/p' | tr -d ' \n'; }
check "labels" test "$(value /labels)" = "1,0"
check "C1 = 0x3e9 mod 1000, missing" test "$(value /sparse/C1/values)" = "1,0"
check "C3 = 0xffffffff mod 1000" test "$(value /sparse/C3/values)" = "295,0"
check "dense" test "$(h5dump -d /dense -s 0,0 -c 1,3 "$work/few.h5" | sed -n 's/.*): \(.*\)/\1/p' | tr -d ' ')" = "1.38629,0,0"
check "hashed ids" sh -c "cd '$work' && '$TESSERA' convert criteo.deck --quiet --out few.h5 --set data.train=few.tsv --set data.categorical=hash"
check "C1: 0x3e9 and 0, hashed, mod 1000" test "$(value /sparse/C1/values)" = "106,809"
check "rows for all ids" sh -c "cd '$work' && '$TESSERA' convert criteo.deck --quiet --out few.h5 --set data.train=few.tsv --set tables.t2.rows=5000000000"
check "C3 = 0xffffffff" test "$(value /sparse/C3/values)" = "4294967295,0"
# Bad records: named by line, or skipped and counted.
{ head -n 5 "$work/log.tsv"; printf '1\tz\n'; head -n 7 "$work/log.tsv"; } > "$work/bad.tsv"
run 2 convert "$work/criteo.deck" --quiet --out "$work/bad.h5" --set data.train=bad.tsv 2> "$work/err"; code=$?
check "bad record: code 3, not $code" test $code = 3
check "bad record: its line" grep -q 'bad.tsv:6' "$work/err"
check "no file of it" test ! -e "$work/bad.h5"
check "skip" run 2 convert "$work/criteo.deck" --quiet --out "$work/skip.h5" --set data.train=bad.tsv --set data.on_bad_record=skip
check "skipped records have no ids" test "$(h5dump -H -d /sparse/C1/values "$work/skip.h5" | grep -c '( 12 )')" = 1
check "and train" run 2 train "$work/criteo.deck" --quiet --set data.train=bad.tsv --set data.on_bad_record=skip --set run.output="$work/skipped"
# An id of eight bytes of which the second is no digit, behind one with few bits
# and one with many.
line=$(head -n 1 "$work/log.tsv" | cut -f 1-39)
for octal in 001 020 021 031 047 057 060 071 072 100 101 106 107 127 140 141 146 147 160 200 260 301 341 377; do
  for first in 0 8 f; do printf "$line\\t$first\\$octal""345678\\n"; done
done > "$work/ids.tsv"
check "ids that are none" run 1 convert "$work/criteo.deck" --quiet --out "$work/ids.h5" --set data.train=ids.tsv --set data.on_bad_record=skip
check "and no others" test "$(h5dump -H -d /sparse/C26/values "$work/ids.h5" | grep -c '( 18 )')" = 1
{ head -n 2 "$work/log.tsv"; head -n 1 "$work/log.tsv" | sed 's/$/\t1/'; } > "$work/long.tsv"
run 1 convert "$work/criteo.deck" --quiet --out "$work/long.h5" --set data.train=long.tsv 2> "$work/err"; code=$?
check "41 fields: code 3" test $code = 3
# CSV: quotes, blanks, missing values, a vocabulary that all ranks share.
cat > "$work/csv.deck" <<'DECK'
run = { steps = 3; };
data = { train = "a.csv"; eval = "b.csv"; format = "csv"; global_batch = 4;
  csv = { label = "y"; label_true = ["yes"]; missing = "?"; dense = ["x"]; dense_transform = "standardise"; encoding = "vocabulary"; }; };
tables = ( { name = "u"; rows = 4; dim = 16; features = ["u"]; }, { name = "v"; rows = 100; dim = 16; features = ["v"]; } );
model = { dense_features = 1; dense_arch = [16]; over_arch = [1]; };
DECK
printf 'x,u,y,v\n1,"b, c",yes,k\n3, a ,no,k\n?,?,yes,m\n5,a,no,l\n' > "$work/a.csv"
printf 'x,u,y,v\n3,new,yes,m\n' > "$work/b.csv"
for n in 1 3; do check "csv on $n" run $n convert "$work/csv.deck" --quiet --out "$work/v$n.h5"; done
check "csv: ranks don't matter" h5diff -q "$work/v1.h5" "$work/v3.h5"
h5copy -i "$work/v1.h5" -o "$work/v3.h5" -s labels -d sample_weights
check "samples' weights" run 3 convert "$work/csv.deck" --quiet --out "$work/few.h5" --set data.format=dataset --set data.train=v3.h5
check "are kept" h5diff -q "$work/v3.h5" "$work/few.h5"
cp "$work/v1.h5" "$work/few.h5"
check "vocabulary is sorted, from 1" test "$(value /sparse/u/values)" = "2,1,0,1"
check "labels" test "$(value /labels)" = "1,0,1,0"
check "standardised, missing is 0" test "$(value /dense)" = "-1.22474,0,0,1.22474"
check "eval" run 2 convert "$work/csv.deck" eval --quiet --out "$work/few.h5"
check "unknown value is row 0" test "$(value /sparse/u/values)" = "0"
check "eval uses the training scale" test "$(value /dense)" = "0"
run 2 train "$work/csv.deck" --quiet --set tables.u.rows=2 --set run.output="$work/o" 2> "$work/err"; code=$?
check "too many values: code 3" test $code = 3
check "and which" grep -q 'feature u has 2 values' "$work/err"
# Bytes that end a C string are bytes, packed or not: no line is lost.
printf 'x,u,y,v\n1,a\0b,yes,k\n2,\0,no,k\n3,c,no,k\n' > "$work/nul.csv"
gzip -c "$work/nul.csv" > "$work/nul2.csv.gz"
check "NULs" run 1 convert "$work/csv.deck" --quiet --out "$work/nul.h5" --set data.train=nul.csv
check "NULs, packed" run 2 convert "$work/csv.deck" --quiet --out "$work/nulgz.h5" --set data.train=nul2.csv.gz
check "NULs: packed is the same" h5diff -q "$work/nul.h5" "$work/nulgz.h5"
# Numbers that are large beside what differs.
{ echo x,u,y,v; for i in 0 1 2 3 4 5 6 7; do echo "170000000$i.5,a,yes,k"; done; } > "$work/date.csv"
check "dates" run 3 convert "$work/csv.deck" --quiet --out "$work/few.h5" --set data.train=date.csv
check "their scale" test "$(value /dense)" = "-1.52753,-1.09109,-0.654654,-0.218218,0.218218,0.654654,1.09109,1.52753"
# Files follow each other; their columns are the same.
printf 'u,x,y,v\n3,1,yes,m\n' > "$work/other.csv"
run 2 convert "$work/csv.deck" --quiet --out "$work/two.h5" --set 'data.train=["a.csv", "other.csv"]' 2> "$work/err"; code=$?
check "another header: code 3, not $code" test $code = 3
check "and which" grep -q "other.csv: its header is not that of $work/a.csv" "$work/err"
check "the same header" run 2 convert "$work/csv.deck" --quiet --out "$work/two.h5" --set 'data.train=["a.csv", "b.csv"]'
# Ids out of range.
run 1 convert "$work/csv.deck" --quiet --out "$work/id.h5"
run 2 train "$work/csv.deck" --quiet --set data.format=dataset --set data.train="$work/id.h5" --set 'data.eval=[]' --set tables.u.rows=2 --set run.output="$work/o" 2> "$work/err"; code=$?
check "id out of range: code 3, not $code" test $code = 3
check "file, sample, feature, id, rows" grep -q 'id.h5: sample 0, feature u: id 2 .*2 rows' "$work/err"
cp "$work/id.h5" "$work/id2.h5"
printf 'x,u,y,v\n1,a,yes,k\n1,a,yes,l\n1,a,no,m\n' > "$work/low.csv"
run 1 convert "$work/csv.deck" --quiet --out "$work/low.h5" --set data.train=low.csv
run 1 convert "$work/csv.deck" --quiet --out "$work/two.h5" --set data.format=dataset --set "data.train=[\"$work/low.h5\", \"$work/id2.h5\"]" --set tables.u.rows=2 2> "$work/err"
check "the file of the sample, of several in a batch" grep -q 'id2.h5: sample 0, feature u: id 2 ' "$work/err"
check "drop" run 2 train "$work/csv.deck" --quiet --set data.format=dataset --set data.train="$work/id.h5" --set 'data.eval=[]' --set tables.u.rows=2 --set data.on_bad_id=drop --set run.output="$work/o2"
check "dropped ids are counted" grep -q 'bad ids were dropped' "$work/o2/log"
# Data that is cut short, a byte or half of it: the file is named, nobody waits.
bytes=$(wc -c < "$work/id.h5")
for keep in $((bytes - 1)) $((bytes / 2)) 100; do
  head -c $keep "$work/id.h5" > "$work/short.h5"
  run 2 train "$work/csv.deck" --quiet --set data.format=dataset --set data.train="$work/short.h5" --set 'data.eval=[]' --set run.output="$work/o4" 2> "$work/err"; code=$?
  check "$keep bytes of $bytes: code 3, not $code" test $code = 3
  check "and which file" grep -q 'tessera: error: .*short.h5' "$work/err"
done
# A dense feature that is no number would poison weights unseen.
cp "$work/id.h5" "$work/nan.h5"
at=$(h5ls -va "$work/nan.h5/dense" | sed -n 's/.*Address: *\([0-9]*\).*/\1/p')
printf '\000\000\300\177' | dd of="$work/nan.h5" bs=4 seek=$((at + 8)) oflag=seek_bytes conv=notrunc 2> /dev/null
run 2 train "$work/csv.deck" --quiet --set data.format=dataset --set data.train="$work/nan.h5" --set 'data.eval=[]' --set run.output="$work/o3" 2> "$work/err"; code=$?
check "not a number: code 3, not $code" test $code = 3
check "and where" grep -q 'nan.h5: sample 2: dense feature 0 is not a number' "$work/err"

# Numbers as words: a run on a data set, gone on with on other ranks, has them.
run 1 generate "$work/criteo.deck" --quiet --out "$work/ids.h5" --set data.format=synthetic --set data.synthetic.samples=400
cat > "$work/ids.deck" <<'DECK'
run = { steps = 4; threads = 1; output = "ids"; };
data = { train = "ids.h5"; eval = "ids.h5"; global_batch = 32;
  columns = ( { name = "u"; kind = "ids"; from = "C1"; encoding = "vocabulary"; group = "g"; }, { name = "v"; kind = "ids"; from = "C2"; encoding = "vocabulary"; group = "g"; } ); };
tables = ( { name = "t"; rows = "auto"; dim = 4; features = ["u", "v"]; } );
model = { dense_features = 13; dense_arch = [4]; over_arch = [1]; };
sharding = { topology = "default"; };
DECK
check "ids as words" run 2 train "$work/ids.deck" --quiet
check "go on" run 3 train "$work/ids.deck" --quiet --set run.steps=6
check "their vectors" run 2 predict "$work/ids.deck" --quiet --embeddings v --out "$work/v.csv"
rm "$work/ids.h5"
"$TESSERA" inspect "$(newest ids)" --vocabulary v > "$work/words"
check "each sample has two" test "$(awk '{ n += $2 } END { print n }' "$work/words")" = 800
sed 's/,.*//; 1,2d' "$work/v.csv" > "$work/have"
check "the same words" sh -c "cut -f 1 '$work/words' | cmp - '$work/have'"
check "in order" sh -c "LC_ALL=C sort -u '$work/have' | cmp - '$work/have'"
passed
