#!/bin/sh
# parquet.sh - Parquet and Arrow's own files as pyarrow writes them, against the
# same samples in CSV, to the bit: types of columns, files, folders, ranks,
# shuffles, going on inside an epoch; what is written is read by pyarrow.  With
# TESSERA_DATA_DIR UCI Adult, too.  A build without Arrow says so, which is all
# that is checked of it.  With sanitizers: each way in and out, once.
# seconds: 200
. "$srcdir/tests/support/common.sh"
cat > "$work/own.deck" <<'DECK'
run = { steps = 40; seed = 3; threads = 1; log_every = 1; };
data = { train = "all.parquet"; global_batch = 250;
  columns = ( { name = "clicked"; kind = "label"; }, { name = "weight"; kind = "weight"; },
    { name = "f32"; kind = "dense"; transform = "standardise"; }, { name = "f64"; kind = "dense"; }, { name = "f16"; kind = "dense"; },
    { name = "i64"; kind = "dense"; transform = "quantile"; bins = 20; }, { name = "u8"; kind = "dense"; transform = "log1p"; },
    { name = "bool"; kind = "dense"; }, { name = "money"; kind = "dense"; transform = "min_max"; },
    { name = "hour"; kind = "dense"; from = "time"; part = "hour"; },
    { name = "word"; kind = "ids"; encoding = "vocabulary"; }, { name = "dict"; kind = "ids"; encoding = "hash"; missing = "word"; },
    { name = "large"; kind = "ids"; encoding = "hash"; seed = 4; }, { name = "bytes"; kind = "ids"; encoding = "vocabulary"; min_count = 90; },
    { name = "id"; kind = "ids"; encoding = "none"; }, { name = "wide"; kind = "ids"; encoding = "modulo"; },
    { name = "number"; kind = "ids"; from = "u8"; encoding = "vocabulary"; }, { name = "bucket"; kind = "ids"; from = "i64"; encoding = "bucketise"; bins = 9; },
    { name = "bag"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 3; },
    { name = "words"; kind = "ids"; encoding = "vocabulary"; list_separator = "|"; },
    { name = "three"; kind = "ids"; encoding = "modulo"; list_separator = "|"; },
    { name = "map"; kind = "ids"; encoding = "hash"; list_separator = "|"; }, { name = "pairs"; kind = "ids"; encoding = "none"; list_separator = "|"; },
    { name = "month"; kind = "ids"; from = "date"; part = "month"; encoding = "none"; },
    { name = "weekday"; kind = "ids"; from = "time"; part = "weekday"; encoding = "vocabulary"; },
    { name = "both"; kind = "ids"; cross = ["word", "u8"]; encoding = "hash"; }, { name = "day"; kind = "ids"; encoding = "none"; } ); };
table_defaults = { dim = 4; rows = 300; optimizer = { kind = "rowwise_adagrad"; lr = 0.1; }; };
tables = ( { name = "word"; features = ["word"]; }, { name = "dict"; features = ["dict"]; }, { name = "large"; features = ["large"]; },
  { name = "bytes"; features = ["bytes"]; }, { name = "id"; features = ["id"]; }, { name = "wide"; features = ["wide"]; },
  { name = "number"; features = ["number"]; }, { name = "bucket"; features = ["bucket"]; }, { name = "bag"; features = ["bag"]; },
  { name = "words"; features = ["words"]; pooling = "mean"; }, { name = "three"; features = ["three"]; },
  { name = "map"; features = ["map"]; weighted = true; }, { name = "pairs"; features = ["pairs"]; weighted = true; },
  { name = "month"; features = ["month"]; }, { name = "weekday"; features = ["weekday"]; }, { name = "both"; features = ["both"]; },
  { name = "day"; features = ["day"]; } );
model = { dense_features = 8; dense_arch = [4]; over_arch = [8, 1]; };
optimizer = { kind = "adam"; lr = 1e-2; };
sharding = { topology = "default"; };
DECK
# A build without Arrow, or without its module, knows the format all the same.
mkdir "$work/alone"; cp "$TESSERA" "$work/alone"; printf PAR1 > "$work/all.parquet"
"$work/alone/tessera" convert "$work/own.deck" --out "$work/none.h5" > "$work/out" 2> "$work/err"; code=$?
check "without Arrow: code 3, not $code" test $code = 3
missing='this build has no Apache Arrow.*pip install pyarrow.*--with-arrow\|Apache Arrow.* is not where it was installed: .*of .*/alone, nor in /'
check "how to get it" grep -q "all.parquet: \($missing\)" "$work/err"
"$work/alone/tessera" generate "$work/small.deck" --out "$work/none.parquet" > "$work/out" 2> "$work/err"; code=$?
check "nor is it written: code 2, not $code" test $code = 2
check "which is said" grep -q "none.parquet.*\($missing\)" "$work/err"
mkdir "$work/alone/io"; echo module > "$work/alone/io/parquet.so"
"$work/alone/tessera" convert "$work/own.deck" --out "$work/none.h5" > "$work/out" 2> "$work/err"; code=$?
check "a module that is none: code 3, not $code" test $code = 3
check "why it is none" grep -q "all.parquet: Apache Arrow.* can't be loaded: .*parquet.so" "$work/err"
if command -v cc > /dev/null; then # of a program that was here before
  echo 'const unsigned long ts_parquet_this[16] = {16};' > "$work/old.c"; cc -shared -fPIC -o "$work/alone/io/parquet.so" "$work/old.c"
  "$work/alone/tessera" convert "$work/own.deck" --out "$work/none.h5" > "$work/out" 2> "$work/err"; code=$?
  check "an old module: code 3, not $code" test $code = 3
  check "which is said" grep -q "all.parquet: Apache Arrow.* can't be loaded: .*alone/io/parquet.so is of another version" "$work/err"
fi
rm -r "$work/alone"
. "$srcdir/tests/run/parquet_find.sh"
check "files" $python "$make" make "$work"
out() { "$TESSERA" "$@" --quiet; }
if [ -n "${TESSERA_SANITIZED:-}" ]; then
  for file in all.parquet plain.parquet all.arrow days; do check "$file" out convert "$work/own.deck" --set data.train=$file --out "$work/made.h5"; done
  TESSERA_FAULT=pieces:rank0:nth1; export TESSERA_FAULT
  check "in pieces" out convert "$work/own.deck" --out "$work/made.parquet"; unset TESSERA_FAULT
  check "parts" ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" convert "$work/own.deck" --quiet --out "$work/made.arrow/"
  check "trained on" "$TESSERA" train "$work/own.deck" --quiet --set run.output="$work/run" --set run.steps=8 --set data.shuffle=block --set data.streams=2 --set data.eval=days
  check "predict" "$TESSERA" predict "$work/own.deck" --quiet --set run.output="$work/run" --set data.eval=bare.parquet --keys id,large,time --out "$work/scores.parquet"
  passed; exit
fi

go() { # RANKS FOLDER FILE [options]
  ranks=$1; folder=$2; file=$3; shift 3
  ${MPIRUN:-mpirun} -q -n "$ranks" "$TESSERA" train "$work/own.deck" --quiet --set run.output="$work/$folder" --set data.train="$file" "$@"
}
same() { # RUN RUN: losses and weights
  [ "$(losses "$1" | wc -l)" = 40 ] && [ "$(losses "$1")" = "$(losses "$2")" ] && same_bits "$(newest "$1")" "$(newest "$2")"
}

# The same samples, by any way.
for ranks in 1 2; do check "CSV, $ranks ranks" go $ranks csv-$ranks all.csv; done
for file in all.parquet plain.parquet all.arrow; do
  for ranks in 1 2; do
    check "$file, $ranks ranks" go $ranks "$file-$ranks" "$file"
    check "$file, $ranks ranks: as CSV" same "$file-$ranks" csv-$ranks
  done
done
for file in zstd.parquet all.feather days 'days/day=*/*.parquet' 'half-*.parquet'; do
  check "$file" go 2 other "$file"; check "$file: as CSV" same other csv-2; rm -r "$work/other"
done
check "by name" go 1 named all.parquet --set data.format=parquet; check "by name: as CSV" same named csv-1
check "CSV, full" go 2 csv-full all.csv --set data.shuffle=full
check "full" go 2 full all.parquet --set data.shuffle=full; check "full: as CSV" same full csv-full
check "a part of it is for validation" go 2 split all.parquet --set data.split.valid=0.2 --set run.valid_every=12
check "the same of CSV" go 2 split-csv all.csv --set data.split.valid=0.2 --set run.valid_every=12
check "validation: as CSV" same_bits "$(newest split)" "$(newest split-csv)"

# Row groups in another order, each mixed: on any ranks, and on from inside an
# epoch (12 steps) on other ranks.
for ranks in 1 3; do check "block, $ranks ranks" go $ranks block-$ranks all.parquet --set data.shuffle=block; done
check "block, 1 and 3 ranks" close_losses block-1 block-3 1e-5 40
check "orders differ" test "$(losses block-1)" != "$(losses csv-1)"
check "seventeen steps" go 3 again all.parquet --set data.shuffle=block --set run.steps=17
check "the rest" go 1 again all.parquet --set data.shuffle=block
check "as without a break" close_losses again block-1 1e-5 40

# Batches of two streams: a rank, or half of one, decodes the groups of each.
for ranks in 1 2; do
  check "streams of CSV, $ranks ranks" go $ranks csv-streams all.csv --set data.streams=2
  check "streams, $ranks ranks" go $ranks streams all.parquet --set data.streams=2; check "streams: as CSV" same streams csv-streams
  check "of shuffled groups" go $ranks mixed-$ranks all.parquet --set data.streams=2 --set data.shuffle=block
  rm -r "$work/csv-streams" "$work/streams"
done
check "of shuffled groups, 1 and 2 ranks" close_losses mixed-1 mixed-2 1e-5 40

# Evaluations: ranks decode groups of their own (6 and 7 of
# the 12 of plain.parquet), and the figures are those of any order.
evaluated() { # RANKS FOLDER FILE
  ${MPIRUN:-mpirun} -q -n "$1" "$TESSERA" train "$work/own.deck" --quiet --set run.output="$work/$2" --set data.train=all.csv --set data.eval="$3" &&
    sed -n '/"eval":true/p' "$work/$2/metrics.jsonl" > "$work/$2.eval" && [ -s "$work/$2.eval" ]
}
for ranks in 1 2; do
  for file in all.csv plain.parquet; do check "evaluated on $file, $ranks ranks" evaluated $ranks eval-$file-$ranks $file; done
  check "the same figures, $ranks ranks" cmp "$work/eval-all.csv-$ranks.eval" "$work/eval-plain.parquet-$ranks.eval"
done
decode() { # FEWER than so many row groups on each rank
  TESSERA_FAULT=group:rank0:nth$1,group:rank1:nth$1 ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" eval "$work/own.deck" --quiet --set run.output="$work/eval-all.csv-2" --set data.train=all.csv --set data.eval=plain.parquet > "$work/out" 2>&1
}
if has_faults; then
  check "a rank decodes its own groups" decode 8
  for n in 6 7; do ! decode $n || { echo "FAILED: $n row groups are too few"; exit 1; }; done
fi

# Out of it.
check "convert to a data set" out convert "$work/own.deck" --out "$work/made.h5"
check "CSV to a data set" out convert "$work/own.deck" --set data.train=all.csv --out "$work/csv.h5"
check "the same" h5diff -q "$work/made.h5" "$work/csv.h5"
for end in csv parquet; do
  check "what is bad is left out, $end" out convert "$work/own.deck" --set data.train=bad.$end --set data.on_bad_record=skip --set data.on_bad_id=drop --set data.max_bad=100000 --set tables.bag.rows=30 --set tables.id.rows=30 --out "$work/bad-$end.h5"
done
check "the same is left" h5diff -q "$work/bad-csv.h5" "$work/bad-parquet.h5"
check "convert to Parquet" out convert "$work/own.deck" --set data.train=all.csv --out "$work/made.parquet"
# Its numbers and rows, as they are.
{ sed '/^  columns/,/^    { name = "both"/d; s/^data.*/data = { train = "made.parquet"; global_batch = 250; columns = (/' "$work/own.deck" | sed '/^data/q'
  for name in f32 f64 f16 i64 u8 bool money hour; do echo "{ name = \"$name\"; kind = \"dense\"; transform = \"none\"; },"; done
  for name in word dict large bytes id wide number bucket bag words three map pairs month weekday both day; do echo "{ name = \"$name\"; kind = \"ids\"; encoding = \"none\"; },"; done
  echo '{ name = "clicked"; kind = "label"; }, { name = "weight"; kind = "weight"; from = "sample_weight"; } ); };'
  sed -n '/^table_defaults/,$p' "$work/own.deck"; } > "$work/rows.deck"
for end in arrow feather; do
  check "convert to .$end" out convert "$work/own.deck" --set data.train=all.csv --out "$work/made.$end"
  for of in parquet $end; do check ".$of to a data set" out convert "$work/rows.deck" --set data.train=made.$of --out "$work/of-$of.h5"; done
  check ".$end: as Parquet" h5diff -q "$work/of-parquet.h5" "$work/of-$end.h5"
  check "it is Arrow's own" test "$(head -c 6 "$work/made.$end")" = ARROW1
done
check "trained on" "$TESSERA" train "$work/rows.deck" --quiet --set run.output="$work/rows"
check "as CSV" same rows csv-1
if has_faults; then # as if a column had 2 GiB of texts
  TESSERA_FAULT=pieces:rank0:nth1; export TESSERA_FAULT
  for file in all.parquet plain.parquet days; do
    check "$file in pieces" out convert "$work/own.deck" --set data.train=$file --out "$work/pieces.h5"
    check "$file in pieces: the same" h5diff -q "$work/pieces.h5" "$work/csv.h5"
  done
  unset TESSERA_FAULT
fi
# A folder with a part of each rank, in the order of the samples, which is there
# once all of it is.
into() { # RANKS OUT [options]
  ranks=$1; out=$2; shift 2
  ${MPIRUN:-mpirun} -q -n "$ranks" "$TESSERA" convert "$work/own.deck" --quiet --set data.train=all.csv --out "$work/$out" "$@"
}
for ranks in 1 3; do
  check "parts of $ranks ranks" into $ranks parts-$ranks/
  check "they are $ranks" test "$(ls "$work/parts-$ranks")" = "$(seq -f 'part-%05g.parquet' 0 $((ranks - 1)))"
  check "trained on parts of $ranks" ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" train "$work/rows.deck" --quiet --set data.train=parts-$ranks --set run.output="$work/of-parts-$ranks"
  check "as CSV" same of-parts-$ranks csv-2
done
check "one file of 3 ranks" into 3 three.parquet
check "the same file" cmp "$work/made.parquet" "$work/three.parquet"
check "parts of Arrow's own" into 2 own.arrow/
check "read, too" out convert "$work/rows.deck" --set data.train=own.arrow --out "$work/of-own.h5"
check "the same samples" h5diff -q "$work/of-parquet.h5" "$work/of-own.h5"
head -n 3 "$work/all.csv" > "$work/two.csv"
check "more ranks than samples" into 3 two/ --set data.train=two.csv
check "read: two samples" out convert "$work/rows.deck" --set data.train=two --out "$work/of-two.h5"
not_into() { # CODE WORDS RANKS OUT [options]: refused, and nothing is there
  code=$1; words=$2; shift 2
  into "$@" 2> "$work/err"; was=$?
  [ $was = "$code" ] && [ "$(grep -c '^tessera: error:' "$work/err")" = 1 ] && grep -qF -- "$words" "$work/err" || { echo "code $was:"; cat "$work/err"; return 1; }
}
check "nothing is written over" not_into 2 'is there, and no empty folder' 2 parts-3/
check "a folder of a data set" not_into 2 'a folder has parts of Parquet or Arrow, and --format is dataset' 2 h5/ --format dataset
if has_faults; then
  for fault in fsync:rank1:nth1 rename:rank0:nth1; do
    TESSERA_FAULT=$fault; export TESSERA_FAULT
    check "$fault: one message" not_into 1 '(rank ' 2 broken/; unset TESSERA_FAULT
    check "$fault: nothing is left" test "$(ls -d "$work"/broken* 2> /dev/null)" = ""
  done
  TESSERA_FAULT=fsync:rank1:nth1:KILL; export TESSERA_FAULT
  into 2 broken/ 2> "$work/err"; unset TESSERA_FAULT
  check "killed: it has no name" test "$(cd "$work" && ls -d broken*)" = broken.part
  check "again" into 1 broken/
  check "of this run alone" test "$(ls "$work/broken")" = part-00000.parquet
fi
for end in csv parquet arrow; do
  check "predict, $end" ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" predict "$work/own.deck" --quiet --set run.output="$work/csv-2" --set data.eval=all.parquet --keys id,large,time --out "$work/scores.$end"
done
for end in parquet arrow; do
  check ".$end is read" $python "$make" rows "$work/scores.$end" > "$work/rows.csv"
  check ".$end: predictions as CSV" cmp "$work/scores.csv" "$work/rows.csv"
done
check "of CSV" "$TESSERA" predict "$work/own.deck" --quiet --set run.output="$work/csv-2" --set data.eval=all.csv --keys id,large,time --out "$work/of.csv"
check "the same" cmp "$work/scores.csv" "$work/of.csv"
check "without labels" "$TESSERA" predict "$work/own.deck" --quiet --set run.output="$work/csv-2" --set data.eval=bare.parquet --keys id,large,time --out "$work/bare.csv"
check "the same scores" cmp "$work/scores.csv" "$work/bare.csv"

if [ -n "${TESSERA_DATA_DIR:-}" ]; then
  for part in data test; do check "Adult, $part" $python "$make" adult "$TESSERA_DATA_DIR/adult/adult.$part" "$work/adult.$part.parquet"; done
  adult() { folder=$1; shift; "$TESSERA" train "$srcdir/input/adult.deck" --quiet --set run.output="$work/$folder" --set run.threads=1 --set run.epochs=1.0 --set run.log_every=4 "$@"; }
  check "Adult, CSV" adult adult-csv
  check "Adult" adult adult --set data.format=parquet --set data.train="$work/adult.data.parquet" --set data.eval="$work/adult.test.parquet"
  check "the same losses" test "$(losses adult)" = "$(losses adult-csv)"
  check "the same weights" same_bits "$(newest adult)" "$(newest adult-csv)"
fi
passed
