#!/bin/sh
# csv.sh - CSV as it comes: byte order marks, line ends, quotes, lists, missing
# markers, no labels; what trains badly is said.  seconds: 200
. "$srcdir/tests/support/common.sh"
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
run() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
cat > "$work/csv.deck" <<'DECK'
run = { steps = 3; threads = 1; };
data = { train = "a.csv"; format = "csv"; global_batch = 4;
  csv = { label = "y"; dense = ["x"]; encoding = "vocabulary"; }; };
tables = ( { name = "u"; rows = 100; dim = 4; features = ["u"]; }, { name = "v"; rows = 3000; dim = 4; features = ["v"]; } );
model = { dense_features = 1; dense_arch = [4]; over_arch = [1]; };
sharding = { topology = "default"; };
DECK
# convert RANKS NAME [options]: NAME.csv to NAME.h5, what it says to $work/out.
convert() {
  ranks=$1; of=$2; shift 2
  run "$ranks" convert "$work/csv.deck" --set data.train="$work/$of.csv" --set run.output="$work/o" --out "$work/$of.h5" "$@" > "$work/out" 2> "$work/err"
}
refused() { # code words command...
  want=$1; words=$2; shift 2
  "$@"; code=$?
  [ $code = "$want" ] && grep -qF -- "$words" "$work/err" && return
  echo "code $code, not $want, or no \"$words\":"; cat "$work/err"; return 1
}
says() { grep NOTE "$work/out" | grep -qF -- "$1" || { cat "$work/out"; return 1; }; }
silent() { ! grep NOTE "$work/out"; }
value() { h5dump -d "$1" "$work/$2.h5" | sed -n 's/.*([0-9,]*): \(.*\)/\1/p' | tr -d ' \n'; }
same() { h5diff -q "$work/$1.h5" "$work/$2.h5"; }

# A mark at the start, in quotes or not, packed or not; ends of Windows.
printf 'x,u,y,v\n1,a,1,k\n2,b,0,l\n3,a,1,m\n' > "$work/a.csv"
check "as they are" convert 1 a
printf '\357\273\277x,u,y,v\r\n1,a,1,k\r\n2,b,0,l\r\n3,a,1,m\r\n' > "$work/mark.csv"
printf '\357\273\277"x","u","y","v"\r\n"1","a","1","k"\r\n"2","b","0","l"\r\n"3","a","1","m"\r\n\r\n' > "$work/quotes.csv"
for name in mark quotes; do
  gzip -c "$work/$name.csv" > "$work/z$name.csv.gz"
  for n in 1 3; do
    check "$name on $n" convert $n $name
    check "$name on $n: the same" same a $name
    check "z$name on $n" convert $n "z$name" --set data.train="$work/z$name.csv.gz"
    check "z$name on $n: the same" same a "z$name"
  done
done
iconv -f UTF-8 -t UTF-16 "$work/a.csv" > "$work/wide.csv"
check "UTF-16" refused 3 'wide.csv: is UTF-16' convert 1 wide

# Quotes with separators, quotes and line ends inside, at places that more ranks
# than lines cut; a quote within a field is none.
{ echo 'x,u,y,v'
  for i in $(seq 1 3000); do
    case $((i % 4)) in
    0) printf '%d,"a, %d\n\n""b"" ",%d,k\\n\n' $i $((i % 7)) $((i % 2)) ;;
    1) printf '%d,5" disk,%d,"\n%d"\r\n' $i $((i / 2 % 2)) $i ;;
    *) printf '%d,c,%d, "k" \n' $i $((i / 2 % 2)) ;;
    esac
  done; } > "$work/inside.csv"
python3 - "$work" <<'PY' || exit 77
import csv, sys
w = sys.argv[1]
rows = list(csv.reader(open(w + "/inside.csv", newline=""), skipinitialspace=True))
assert len(rows) == 3001
words = sorted({r[3].strip() for r in rows[1:]})
open(w + "/wanted", "w").write(",".join(str(words.index(r[3].strip()) + 1) for r in rows[1:]))
PY
gzip -c "$work/inside.csv" > "$work/zinside.csv.gz"
check "line ends in quotes" convert 1 inside
check "as others read them" test "$(value /sparse/v/values inside)" = "$(cat "$work/wanted")"
cp "$work/inside.h5" "$work/first.h5"
check "its words as a checkpoint has them" run 2 convert "$work/csv.deck" eval --quiet --set data.train="$work/inside.csv" --set data.eval="$work/inside.csv" --out "$work/inside.h5"
check "the same" same first inside
for n in 2 4; do
  check "line ends in quotes on $n" convert $n inside
  check "on $n: the same" same first inside
done
check "packed" convert 2 zinside --set data.train="$work/zinside.csv.gz"
check "packed: the same" same first zinside
line=$(($(wc -l < "$work/inside.csv") + 1))
{ cat "$work/inside.csv"; echo '1,a,1'; } > "$work/few.csv"
gzip -c "$work/few.csv" > "$work/few2.csv.gz"
check "the line of the file" refused 3 "few.csv:$line: 3 fields, the header has 4" convert 2 few
check "of a packed one" refused 3 "few2.csv.gz:$line: 3 fields" convert 2 few2 --set data.train="$work/few2.csv.gz"
{ cat "$work/inside.csv"; printf '1,"a,1,k\n1,a,1,k\n'; } > "$work/few.csv"
check "a quote without end" refused 3 "few.csv:$line: a quote has no end" convert 3 few

# What is wrong with a field: column and value.
printf 'x,u,y,v\n1,a,1,k\nV,b,0,l\nNA,a,1,?\nnull,b,0,m\n' > "$work/miss.csv"
check "no number" refused 3 'miss.csv:3: column "x": a numeric field is no number: "V"' convert 2 miss
check "no marker" refused 3 'miss.csv:4: column "x": a numeric field is no number: "NA"' convert 1 miss --set data.csv.missing=V
check "markers" convert 2 miss --set 'data.csv.missing=["V", "NA", "?", "null"]'
check "are 0 among numbers" test "$(value /dense miss)" = "1,0,0,0"
check "and row 0" test "$(value /sparse/v/values miss)" = "1,2,0,3"
printf 'x,u,y,v\n1,a,1,k\n1,b,maybe,l\n' > "$work/label.csv"
check "a label" refused 3 'label.csv:3: column "y": the label is neither 0 nor 1: "maybe"' convert 1 label

# Lists, with weights and without.
printf 'x,u,y,v\n1,b|a,1,k:0.5|l\n2,,0,\n3,c,1,l: 2\n4,a||b |a,0,k:0.25|z\n' > "$work/lists.csv"
lists="--set data.csv.list_separator=| --set tables.v.weighted=true"
for n in 1 3; do
  check "lists on $n" convert $n lists $lists
  check "their ids on $n" test "$(value /sparse/u/values lists)" = "2,1,3,1,2,1"
  check "their bags on $n" test "$(value /sparse/u/offsets lists)" = "0,2,2,3,6"
  check "words without weights on $n" test "$(value /sparse/v/values lists)" = "1,2,2,1,3"
  check "weights on $n" test "$(value /sparse/v/weights lists)" = "0.5,1,2,0.25,1"
done
check "in one column" convert 2 lists --set 'data.csv.list_separator=|' --set 'data.csv.lists=["u"]'
check "the other's fields are ids" test "$(value /sparse/v/values lists)" = "2,0,3,1"
check "another name" refused 2 'data.csv.lists names 1 columns, of which 0' convert 1 lists --set 'data.csv.list_separator=|' --set 'data.csv.lists=["w"]'
printf '5,a|b,1,k:x\n6,a,1,k\n' >> "$work/lists.csv"
check "a weight" refused 3 'lists.csv:6: column "v": an id'"'"'s weight is no number: "k:x"' convert 2 lists $lists
check "left out" convert 2 lists $lists --set data.on_bad_record=skip
check "its bags are empty" test "$(value /sparse/u/offsets lists)" = "0,2,2,3,6,6,7"
check "hashed" convert 1 lists $lists --set data.on_bad_record=skip --set data.csv.encoding=hash
check "as many" test "$(value /sparse/u/offsets lists)" = "0,2,2,3,6,6,7"
for input in kjt columns; do
  check "train lists, $input" run 2 train "$work/csv.deck" --quiet $lists --set data.on_bad_record=skip --set data.train=lists.csv --set data.input=$input --set run.log_every=1 --set run.output="$work/train-$input"
done
check "the same losses" close_losses train-kjt train-columns 0 3

# What is allowed, and likely not meant.
lines() { # expressions of awk for u and v, and y
  awk "BEGIN { print \"x,u,y,v\"; for (i = 0; i < 40000; i++) print i % 10 \",\" $1 \",\" $3 \",\" $2 }"
}
lines 'i % 3' 'i % 5' '(i * 7919 % 13 > 6)' > "$work/good.csv"
check "good" convert 2 good
check "nothing to say" silent
lines 'i % 3' 'i % 5' '(i > 35000)' > "$work/sorted.csv"
check "sorted" convert 2 sorted
check "is said" says 'sorted by label: column "y" changes 1 times'
check "and the way out" says 'data.shuffle'
check "once" test "$(grep -c NOTE "$work/out")" = 1
gzip -c "$work/sorted.csv" > "$work/zsorted.csv.gz"
check "sorted, packed" convert 2 zsorted --set data.train="$work/zsorted.csv.gz" --set 'data.csv.encoding=hash'
check "is not known yet" says '(column "y") are all 0'
lines 'i % 3' 'i % 5' '0' > "$work/one.csv"
check "one class" convert 1 one
check "is said" says '(column "y"), are 0: with one class'
lines '(i % 3) "|" (i % 5)' '(i % 4 ? "g" i % 4 " h" (i % 3 ? " k" : "") : "g")' 'i % 2' > "$work/notlists.csv"
check "lists taken as ids" convert 2 notlists
check "are said" says 'column "u" looks like lists'
check "with the key" says 'data.csv.list_separator = "|"'
check "blanks, too" says 'data.csv.list_separator = " "'
lines '(i % 5 ? "\"p" (i % 4 ? ",q" : "") ",r" i % 7 "\"" : "p")' 'i % 9' 'i % 2' > "$work/commas.csv"
check "lists in quotes" convert 1 commas
check "are said" says 'data.csv.list_separator = ","'
check "are read" convert 1 commas --set data.csv.list_separator=,
check "nothing to say of them" silent
lines '"2014-10-21 00:00"' '"St. John (" i % 9 ")"' 'i % 2' > "$work/texts.csv"
check "texts" convert 1 texts
check "are none" silent
awk 'BEGIN { print "x,u,y,v"; for (i = 0; i < 100; i++) print 1700000000 + i ",a," i % 2 ",k" }' > "$work/time.csv"
check "a time as a number" convert 2 time
check "is said, with its range" says 'column "x" has numbers from 1700000000 to 1700000099'
check "and the way out" says 'data.csv.dense_transform = "standardise"'
check "scaled" convert 2 time --set data.csv.dense_transform=standardise
check "nothing to say of it" silent

both="--set data.train=$work/a.csv --set tables=({name=\"w\";rows=100;dim=4;features=[\"u\",\"v\"];})"
check "two vocabularies of one table" convert 2 pair $both
check "are said" says 'table w: features u and v share its rows'
check "in a group" convert 2 pair $both --set 'data.columns=({name="u";kind="ids";group="g";},{name="v";kind="ids";group="g";})'
check "there is one" silent
check "for both" test "$(value /sparse/u/values pair) $(value /sparse/v/values pair)" = "1,2,1 3,4,5"

# Headers.
tail -n +2 "$work/a.csv" > "$work/none.csv"
check "no header" refused 3 'none.csv: the first line looks like data' convert 2 none
tr , ';' < "$work/a.csv" > "$work/semi.csv"
sed '1s/y/clicked/' "$work/a.csv" > "$work/named.csv"
check "a name that is nearly right" refused 3 'named.csv: the header has no column "Clicked"; did you mean "clicked"?: x,u,clicked,v' convert 2 named --set data.csv.label=Clicked
check "semicolons" refused 3 'data.csv.separator = ";"' convert 2 semi
check "are read" convert 2 semi --set 'data.csv.separator=;'
check "the same" same a semi
tr , '\t' < "$work/a.csv" > "$work/tabs.csv"
check "tabs" refused 3 'data.csv.separator = "tab"' convert 1 tabs

# A file without labels, or with some, to predict.
cut -d , -f 1,2,4 "$work/good.csv" | head -n 50 > "$work/new.csv"
head -n 50 "$work/good.csv" | sed '3s/\(.*\),[01],/\1,,/' > "$work/half.csv"
head -n 50 "$work/good.csv" > "$work/old.csv"
model="--set data.train=good.csv --set run.output=$work/model --set data.csv.dense_transform=standardise"
check "train" run 2 train "$work/csv.deck" --quiet $model
for name in old new half; do
  check "predict $name" run 2 predict "$work/csv.deck" $model --set data.eval=$name.csv --out "$work/$name.h5" > "$work/out"
  check "$name: the same" test "$(value /predictions "$name")" = "$(value /predictions old)"
done
check "eval needs labels" refused 3 'the header has no column "y"' sh -c "'$TESSERA' eval '$work/csv.deck' $model --set data.eval=new.csv 2> '$work/err'"
hashed="--set data.train=good.csv --set run.output=$work/hashed"
check "train on hashes" run 2 train "$work/csv.deck" --quiet $hashed --set data.csv.encoding=hash
check "words that it has not learnt: to go on" refused 4 'the checkpoint has no vocabulary for categorical column 1' sh -c "'$TESSERA' train '$work/csv.deck' $hashed 2> '$work/err'"
check "words that it has not learnt" refused 4 'the checkpoint has no vocabulary for categorical column 1' sh -c "'$TESSERA' eval '$work/csv.deck' $hashed --set data.eval=old.csv 2> '$work/err'"
# data.columns: weights w are rows w times, and soft labels rows of both classes,
# in losses and metrics.
cat > "$work/columns.deck" <<'DECK'
run = { steps = 6; threads = 1; log_every = 1; seed = 5; };
data = { train = "w.csv"; eval = "w.csv"; format = "csv"; global_batch = 40;
  columns = ( { name = "label"; kind = "label"; from = "y"; label = "soft"; }, { name = "w"; kind = "weight"; },
    { name = "x"; kind = "dense"; transform = "log1p"; }, { name = "u"; kind = "ids"; encoding = "vocabulary"; },
    { name = "hour"; kind = "time"; part = "hour"; from = "t"; }, { name = "uv"; kind = "ids"; cross = ["u", "v"]; },
    { name = "pair"; kind = "key"; from = "v"; } ); };
table_defaults = { dim = 4; rows = 100; optimizer = { kind = "sgd"; lr = 0.5; }; };
tables = ( { name = "u"; features = ["u"]; }, { name = "hour"; features = ["hour"]; }, { name = "uv"; features = ["uv"]; } );
model = { dense_features = 1; dense_arch = [4]; over_arch = [4, 1]; };
optimizer = { kind = "sgd"; lr = 0.5; };
metrics = { report = ["auc", "logloss", "ne", "calibration", "pr_auc"]; };
sharding = { topology = "default"; };
DECK
awk -v w="$work" 'BEGIN { for (k = split("w often soft both", f); k; k--) print "y,w,x,u,v,t" > (w "/" f[k] ".csv")
  for (i = 0; i < 40; i++) {
    row = sprintf(",%d,a%d,b%d,2024-05-%02d %02d:10", i % 5, i % 6, i % 4, 1 + i % 28, i % 24)
    y = i * 13 % 5 < 2; n = i * 7 % 4; s = i * 13 % 5 / 4
    print y "," n row > (w "/w.csv")
    for (k = 0; k < n; k++) print y ",1" row > (w "/often.csv")
    print s "," n row > (w "/soft.csv")
    print "1," s * n row "\n0," (1 - s) * n row > (w "/both.csv") } }'
columns() { # NAME ROWS RANKS: trains on all of its rows at each step
  run "$3" train "$work/columns.deck" --quiet --set run.output="$work/c-$1" --set data.train="$1.csv" --set data.eval="$1.csv" --set data.global_batch="$2"
}
figures() { sed -n 's/,"samples":.*//;s/.*"eval":true,//p' "$work/c-$1/metrics.jsonl"; }
same_figures() { # of two evaluations, but for their last digits
  figures "$1" | tr ',:' '\n\n' > "$work/x"; figures "$2" | tr ',:' '\n\n' > "$work/y"
  paste "$work/x" "$work/y" | awk '$1 ~ /^[0-9]/ { n++; d = $1 - $2; if (d > 2e-6 || d < -2e-6) bad = 1 } END { exit bad || n != 5 }'
}
check "weights" columns w 40 2
check "keys" run 2 predict "$work/columns.deck" --quiet --set run.output="$work/c-w" --set data.train="w.csv" --set data.eval="w.csv" --out "$work/scores.csv"
check "by the deck's names" test "$(sed -n '1p;3s/,.*//p' "$work/scores.csv" | tr '\n' ' ')" = "pair,prediction b1 "
check "rows as often" columns often $(($(wc -l < "$work/often.csv") - 1)) 2
check "the same losses" close_losses c-w c-often 1e-6 6
check "the same figures" same_figures w often
check "soft labels" columns soft 40 1
check "rows of both classes" columns both 80 2
check "as good" close_losses c-soft c-both 1e-6 6
check "with the same figures" same_figures soft both
# data.positive_weight: as that weight in the file, but not in evaluations.
awk -F, -v OFS=, 'NR > 1 && $1 == 1 { $2 *= 3 } 1' "$work/w.csv" > "$work/heavy.csv"
check "positives that weigh more, by the file" columns heavy 40 2
cp "$work/w.csv" "$work/positive.csv"
sed -i 's/^data = {/& positive_weight = 3.0;/' "$work/columns.deck"
check "by the deck" columns positive 40 2
check "the same losses of them" close_losses c-heavy c-positive 1e-7 6
evaluation() { run 2 eval "$work/columns.deck" --set run.output="$work/c-positive" --set data.train=w.csv --set data.eval=w.csv "$@" | grep '^evaluation: '; }
evaluation > "$work/x"; evaluation --set data.positive_weight=1 > "$work/y"
check "evaluations count samples as they are" sh -c "grep -q AUC '$work/x' && cmp '$work/x' '$work/y'"
# eval --by: a value's figures are those of a file of its samples.
{ head -n 1 "$work/w.csv"; grep ',a3,' "$work/w.csv"; } > "$work/a3.csv"
sed 's/,a3,/,,/' "$work/w.csv" > "$work/blank.csv"
{ head -n 1 "$work/w.csv"; for i in $(seq 1 30); do for k in 1 2 3; do echo "$((k % 2)),1,$i,z$i,b1,2024-05-01 01:10"; done; done
  for i in $(seq 31 70); do echo "$((i % 2)),1,$i,z$i,b1,2024-05-01 01:10"; done; } > "$work/many.csv"
{ head -n 1 "$work/w.csv"; sed -n '/,z[3-7][0-9],/p' "$work/many.csv" | sed '/,z30,/d' | sort -t, -k4 | tail -n 20; } > "$work/rest.csv"
by() { n=$1; file=$2; shift 2; run "$n" eval "$work/columns.deck" --set run.output="$work/c-positive" --set data.train=w.csv --set data.eval="$file.csv" "$@" > "$work/log"; }
figures_of() { sed -n "s/^$1: //p" "$work/log"; }
by 1 a3; alone=$(figures_of evaluation)
for n in 1 3; do
  check "by u on $n" by $n w --by u
  check "six values on $n" test "$(grep -c '^u = a[0-5]: ' "$work/log")" = 6
  check "as a file of them on $n" test "$(figures_of 'u = a3')" = "$alone" -a -n "$alone"
done
check "missing ones" by 2 blank --by u
check "have a name" test "$(figures_of 'u = (none)' | cut -d' ' -f1)" = "$(($(wc -l < "$work/a3.csv") - 1))"
by 1 rest; alone=$(figures_of evaluation)
check "many values" by 2 many --by u
check "fifty lines" test "$(grep -c '^u = ' "$work/log")" = 50
check "and the others" test "$(figures_of 'u, 20 other values')" = "$alone" -a -n "$alone"
check "no column" refused 3 '--by: the header has no column "nobody"' sh -c "'$TESSERA' eval '$work/columns.deck' --set run.output='$work/c-positive' --set data.train=w.csv --set data.eval=w.csv --by nobody 2> '$work/err'"
# eval --importance, --calibration: u decides, x and the weighted lists n are noise.
cat > "$work/looks.deck" <<'DECK'
run = { steps = 80; threads = 1; seed = 5; output = "looks"; };
data = { train = "looks.csv"; eval = "looks2.csv"; format = "csv"; global_batch = 64;
  columns = ( { name = "label"; kind = "label"; from = "y"; }, { name = "x"; kind = "dense"; }, { name = "u"; kind = "ids"; encoding = "vocabulary"; },
    { name = "n"; kind = "ids"; encoding = "vocabulary"; list_separator = "|"; } ); };
table_defaults = { dim = 4; rows = 100; optimizer = { kind = "adam"; lr = 0.02; }; };
tables = ( { name = "u"; features = ["u"]; }, { name = "n"; weighted = true; features = ["n"]; } );
model = { dense_features = 1; dense_arch = [4]; over_arch = [4, 1]; };
optimizer = { kind = "adam"; lr = 0.02; };
sharding = { topology = "default"; };
DECK
awk -v w="$work" 'BEGIN { srand(3); for (k = split("looks2 looks", f); k; k--) { print "y,x,u,n" > (w "/" f[k] ".csv"); for (i = 0; i < 600; i++) {
  u = int(rand() * 8); s = ""; for (j = int(rand() * 4); j; j--) s = s (s ? "|" : "") "n" int(rand() * 9) ":" (1 + int(rand() * 4)) / 4
  print (rand() < (u < 4 ? 0.1 : 0.8)) "," int(rand() * 100) / 100 ",u" u "," s > (w "/" f[k] ".csv") } } }'
looks() { n=$1; shift; run "$n" eval "$work/looks.deck" "$@" > "$work/looks-$n"; }
check "train" run 2 train "$work/looks.deck" --quiet
for n in 1 2 4; do
  check "importance and calibration on $n" looks $n --importance --repeats 3 --calibration "$work/looks.svg"
  check "the same as on 1" cmp "$work/looks-1" "$work/looks-$n"
done
lost() { sed -n "s/^  $1  *//p" "$work/looks-1"; } # AUC, spread, log loss, spread
check "u is first and far ahead" sh -c "grep -A 1 '^  feature ' '$work/looks-1' | tail -n 1 | awk '{ exit !(\$1 == \"u\" && \$2 > 0.2 && \$2 > 5 * \$3 && \$4 > 0.1) }'"
for name in x n; do
  check "$name is noise" sh -c "echo '$(lost $name)' | awk '{ exit !(NF == 4 && \$1 < 0.02 && \$1 > -0.02 && \$2 < 0.02 && \$3 < 0.05) }'"
done
check "ten bins of all samples" test "$(awk '/^calibration/ { on = 1 } /^drawing/ { on = 0 } on && /^  *[0-9]/ { n++; s += $5 } END { print n, s }' "$work/looks-1")" = "10 600"
if command -v python3 > /dev/null; then check "the drawing is XML" python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$work/looks.svg"; fi
check "a mark for each" test "$(grep -c '<circle' "$work/looks.svg")" = 10
check "one feature alone" looks 2 --importance --repeats 3 --features n
check "has the figures that it had" test "$(sed -n 's/^  n  *//p' "$work/looks-2")" = "$(lost n)"
asked() { code=$1; text=$2; shift 2; run 2 eval "$work/looks.deck" "$@" > "$work/out" 2> "$work/err"; [ $? = "$code" ] && grep -qF -- "$text" "$work/err" && [ "$(grep -c error "$work/err")" = 1 ]; }
check "no such feature" asked 2 '--features: no feature "nobody"; there are: u, n, x' --importance --features u,nobody
check "no importance" asked 2 '--repeats goes with --importance' --repeats 3
check "no bins" asked 2 '--bins 1 is no number in 2 to 1000' --calibration --bins 1
check "no such drawing" asked 2 '--calibration=x.png: drawings are SVG' --calibration=x.png
passed
