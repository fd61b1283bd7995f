#!/bin/sh
# init.sh - from a CSV file to a deck that trains: what columns are taken for,
# and what can't be done.  seconds: 200
. "$srcdir/tests/support/common.sh"
cd "$work" || exit 99
make() { # LINES SEED
  awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); print "user_id,city,age,amount,when,kind,key,line,worth,const,clicked"
    split("Rome,Oslo,Kyiv,NA", city, ",")
    for (i = 0; i < n; i++) { c = int(4 * rand()) + 1; a = 18 + int(62 * rand())
      print int(300 * rand()) "," city[c] "," a "," (-log(1 - rand())) "," 1600000000 + 37 * int(i / 3) "," i % 3 ",k" i "," i "," int(1e9 * rand()) ",1," (rand() < (c == 2 ? 0.8 : 0.2) ? "yes" : "no") } }'
}
make 3000 1 > a.csv; make 500 2 > b.csv
check "init" "$TESSERA" init a.csv b.csv --label clicked > out
is() { grep -Eq "^# $1 .* $2: " out && grep -Eq "^# $1 .* $2: " a.deck; } # COLUMN USE
check "an id" is user_id words
check "words" is city words
check "numbers" is age dense
check "amounts" is amount dense
check "a time is no number" is when 'left out: a time'
check "few whole numbers" is kind words
check "a key" is key 'left out: nearly each line has its own value'
check "the line's number" is line 'left out: nearly each line has its own value'
check "an amount of as many values" is worth dense
check "one value" is const 'left out'
check "the label" is clicked label
check "what is missing" grep -Eq '^# city +3 +[1-9][0-9]+ ' a.deck
check "its marker" grep -q 'missing = "NA"' a.deck
check "which word is 1" grep -q 'label_true = \["yes"\]' a.deck
check "what is next" grep -q 'tessera train a.deck --check' out
check "the deck is right" "$TESSERA" train a.deck --check > out
check "rows are the data's" grep -Eq '^city +auto +4$' out
check "and trains" "$TESSERA" train a.deck > out
check "to an AUC of what is there" awk '/^evaluation/ { for (i = 1; i < NF; i++) if (tolower($i) == "auc") auc = $(i + 1) } END { exit !(auc > 0.65) }' out
# One file: a part of it is for validation, what came last.
check "init of one file" "$TESSERA" init a.csv --label clicked --out one.deck > out
check "a split by time" grep -q 'split = { valid = 0.1; by = "time"; key = "when"; }' one.deck
check "its run is its own" grep -q 'run = { name = "one";' one.deck
check "trains" "$TESSERA" train one.deck > out
check "on nine tenths" grep -q '^data: csv, 2,[67][0-9][0-9] samples' out
check "the best AUC is there" awk '/^validation: auc/ { auc = $3 } END { exit !(auc > 0.65) }' out
check "its weights are kept" test -f runs/one/checkpoints/best.h5
# Long work says how far it is; short work, and what is quiet or for programs, does not.
says() { # WHAT: lines of it, each further than the one before
  awk -v what="$1: " 'index($0, what) == 1 && match($0, /: [0-9]+%, [0-9].*\/s, left [0-9:]+$/) { p = substr($0, RSTART + 2) + 0; bad += p < last || p > 100; last = p; n++ }
    END { exit !(n && !bad) }' out
}
check "no lines of short work" sh -c '! "$1" init a.csv --label clicked --out long.deck | grep "left 0"' - "$TESSERA"
rm long.deck
check "init" env TESSERA_PROGRESS=0 "$TESSERA" init a.csv --label clicked --out long.deck > out
check "a look" says 'looking at a.csv'
check "convert" env TESSERA_PROGRESS=0 ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" convert long.deck --out long.h5 > out
for what in "counting lines of $PWD/a.csv" "keeping lines of $PWD/a.csv" "learning words and scales of $PWD/a.csv" 'writing long.h5'; do check "$what" says "$what"; done
gzip -c a.csv > long.csv.gz
check "packed" env TESSERA_PROGRESS=0 "$TESSERA" train long.deck --set run.epochs=0.1 --set run.output=long --set data.train=long.csv.gz --set data.shuffle=none --set data.negatives=0.5 > out
for what in "counting lines of $PWD/long.csv.gz" 'splitting by time' 'choosing negatives of data.train'; do check "$what" says "$what"; done
check "quiet" test -z "$(TESSERA_PROGRESS=0 "$TESSERA" convert long.deck --out long.h5 --quiet)"
check "JSON" env TESSERA_PROGRESS=0 "$TESSERA" plan long.deck --world 2 --json > out 2> err
check "is JSON alone" grep -q '^{' out
check "the log is beside it" sh -c '! grep -q "left 0" out && grep -q "left 0" err'
# Dates, lists, and names with types behind them.
awk 'BEGIN { srand(3); print "user_id:token\twhen\ttags\tclicked"
  for (i = 0; i < 400; i++) printf "%d\t2024-03-%02d 10:00:00\t%s\t%d\n", 900 + i % 90, 1 + i / 20, i % 3 ? "a|b" : "c", rand() < 0.4 }' > typed.tsv
check "dates and lists" "$TESSERA" init typed.tsv --label clicked > out
check "ids" grep -Eq '^# user_id:token .* words: numbers that are names' out
check "a date" grep -Eq '^# when .* left out: a time' out
check "lists" grep -Eq '^# tags .* lists: words with | between them' out
check "trains, too" "$TESSERA" train typed.deck --set run.epochs=1 > out
check "the lists are taken apart" grep -Eq '^  { name = "tags"; features' typed.deck
check "three tags" test "$("$TESSERA" train typed.deck --check --set run.output=none | awk '/^tags/ { print $3 }')" = 4
fails() { # CODE PATTERN command...
  want=$1; pattern=$2; shift 2
  "$@" > out 2> err; code=$?
  check "$*: code $want, not $code" test $code = "$want"
  check "$*: $pattern" grep -q "$pattern" err
}
fails 2 'a.deck is there already; --out names another' "$TESSERA" init a.csv --label clicked
fails 2 'usage: tessera init' "$TESSERA" init a.csv
fails 3 'no column "click" for --label' "$TESSERA" init a.csv --label click --out x.deck
fails 3 'label const is the same in all lines' "$TESSERA" init a.csv --label const --out x.deck
fails 3 'label city is missing in' "$TESSERA" init a.csv --label city --out x.deck
fails 3 'none.csv: No such file' "$TESSERA" init none.csv --label y
sed 1d a.csv | cut -d, -f1,3-6 > headless.csv
fails 3 'headless.csv: its first line is data' "$TESSERA" init headless.csv --label y
printf 'x,y\n1\n' > none.csv
fails 3 'no line has as many fields as its header, 2' "$TESSERA" init none.csv --label y
printf 'x,y\n1.5,0\n2.25,1\n' > dense.csv
fails 3 'no column has words or ids' "$TESSERA" init dense.csv --label y --out x.deck
check "no deck of it" test ! -e x.deck
# Other forms: semicolons, a mark at the start, Windows ends, packed; one word.
{ printf '\357\273\277city;y\r\n'; for i in 1 2 3 4 5 6 7 8; do printf 'a;1\r\n"b c";0\r\n'; done; } | gzip > forms.csv.gz
check "another form" "$TESSERA" init forms.csv.gz --label y > out
check "separator" grep -q 'separator = ";"' forms.deck
check "without the mark" grep -q 'features = \["city"\]' forms.deck
check "a single feature" grep -q 'kind = "sparsenn"' forms.deck
# One file in odd forms: all of it is read, or what can't be is said.
awk 'BEGIN { srand(7); print "city,n,y"; for (i = 0; i < 90; i++) printf "c%d,%.3f,%d\n", i % 7, rand(), rand() < (i % 2 ? 0.7 : 0.2) }' > plain.csv
odd() { # FILE WORDS LINE: a row for each of so many words of the column that LINE names, and another; it trains
  name=${1%%.*}
  check "$1: init" "$TESSERA" init "$1" --label y > out 2> err
  check "$1: nothing to note" sh -c '! grep NOTE out'
  check "$1: check" "$TESSERA" train "$name.deck" --check > rows 2> err
  check "$1: $3 has $2 words" grep -Eq "^$3 +auto +$(($2 + 1))\$" rows
  check "$1: trains" "$TESSERA" train "$name.deck" --set run.epochs=1 > out 2> err
  check "$1: on all lines" grep -q '^data: csv, 90 samples' out
}
tr , ';' < plain.csv > semicolons.csv; odd semicolons.csv 7 city
{ printf '\357\273\277'; cat plain.csv; } > marked.csv; odd marked.csv 7 city
sed 's/$/\r/' plain.csv > windows.csv; odd windows.csv 7 city
gzip -c plain.csv > packed.csv.gz; odd packed.csv.gz 7 city
awk -F, 'NR == 1 { print "text," $0; next } { printf "\"say \"\"%d\"\",\n\nand more\",%s\n", NR % 5, $0 }' plain.csv > quoted.csv
odd quoted.csv 5 text
check "fields of several lines" grep -q "^city  *auto  *8$" rows
awk -F, '{ print NR == 1 ? "city,none,n,na,y" : $1 ",," $2 ",NA," $3 }' plain.csv > empty.csv; odd empty.csv 7 city
check "empty columns" test "$(grep -c '^# n.* left out: one value or none$' empty.deck)" = 2
awk -F, '{ print NR == 1 ? "user_id,n,y" : "90071992547409" 920 + NR % 40 "," $2 "," $3 }' plain.csv > ids.csv; odd ids.csv 40 user_id
awk -F, '{ print NR == 1 ? ",city,,y" : NR "," $1 "," $2 "," $3 }' plain.csv > unnamed.csv; odd unnamed.csv 7 city
check "columns without names" test "$(grep -c 'left out: it has no name$' unnamed.deck)" = 2
awk -F, '{ print NR == 1 ? "n,city,n,y" : NR "," $1 "," $2 "," $3 }' plain.csv > twice.csv; odd twice.csv 7 city
check "two of a name" test "$(grep -c '^# n .* left out: another column has its name' twice.deck)" = 2
tr . , < semicolons.csv > commas.csv; odd commas.csv 7 city
check "numbers with a comma" grep -q '^# n .* left out: numbers with a comma' commas.deck
{ sed 1d semicolons.csv | sed '1i "city, town";"n,";"y"'; echo short; } > short.csv
check "a short line, and commas in names" "$TESSERA" init short.csv --label y > out
check "numbers are numbers all the same" grep -q '^# n, .* dense: ' short.deck
check "lines that can be read" grep -qx '# 90 lines' short.deck
# Very many columns, of one kind.
awk 'BEGIN { for (i = 0; i <= 8; i++) { printf "%s", i ? "a" i % 4 "," i % 2 : "city,y"
  for (k = 0; k < 20000; k++) printf i ? ",%.2f" : ",w%.0f", i ? (i + k % 50) / 97 : k; print "" } }' > wide.csv
check "20,000 columns" "$TESSERA" init wide.csv --label y > out
check "are said together" grep -q '^# and 19002 more columns; of all, 1 are words or lists, 20000 dense$' wide.deck
check "they train" "$TESSERA" train wide.deck --set run.epochs=1 > out
check "all of them" grep -q '8 samples, 20,\{0,1\}000 dense' out
# What can't be read.
fails 3 'the header has 2 columns "n"' "$TESSERA" train windows.deck --check --set data.train=$work/twice.csv
tr '\n' '\r' < plain.csv > old.csv
fails 3 'old.csv: its lines end with .r alone' "$TESSERA" init old.csv --label y
{ echo 'sep=;'; cat semicolons.csv; } > sheet.csv
fails 3 "sheet.csv: its first line, sep=;, is a spreadsheet's" "$TESSERA" init sheet.csv --label y
iconv -f UTF-8 -t UTF-16 plain.csv > utf16.csv
fails 3 'utf16.csv: is UTF-16' "$TESSERA" init utf16.csv --label y
head -n 1 plain.csv > nothing.csv
fails 3 'nothing.csv: no line is behind its header' "$TESSERA" init nothing.csv --label y
: > nothing.csv
fails 3 'nothing.csv: has no header' "$TESSERA" init nothing.csv --label y
sed 's/[01]$/1/' plain.csv > class.csv
fails 3 'label y is the same in all lines' "$TESSERA" init class.csv --label y
sed 1d plain.csv > headless.csv
fails 3 'headless.csv: its first line is data' "$TESSERA" init headless.csv --label y
passed
