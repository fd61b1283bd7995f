#!/bin/sh
# parquet_hostile.sh - damaged and hostile files of Parquet and Arrow: one message
# each; other types of the same samples; folders, and the keys in their names.
# seconds: 100
. "$srcdir/tests/support/common.sh"
. "$srcdir/tests/run/parquet_find.sh"
# Code 3 and one message that names the file.
$python "$make" hostile "$work" > "$work/cases" && $python "$make" twins "$work" > "$work/twins" || { echo "FAILED: hostile files"; exit 1; }
cat > "$work/hostile.deck" <<'DECK'
run = { steps = 1; threads = 1; };
data = { train = "right.parquet"; global_batch = 10; columns = ( { name = "clicked"; kind = "label"; }, { name = "i64"; kind = "dense"; },
  { name = "id"; kind = "ids"; encoding = "none"; }, { name = "word"; kind = "ids"; }, { name = "bag"; kind = "ids"; encoding = "none"; } ); };
table_defaults = { rows = 50; dim = 4; };
tables = ( { name = "id"; features = ["id"]; }, { name = "word"; features = ["word"]; }, { name = "bag"; features = ["bag"]; } );
model = { dense_features = 1; dense_arch = [4]; over_arch = [1]; };
DECK
refused() { # WORDS FILE [options]
  words=$1; file=$2; shift 2
  "$TESSERA" convert "$work/hostile.deck" --quiet --set data.train="$file" --out "$work/none.h5" "$@" > "$work/out" 2> "$work/err"; code=$?
  [ $code = 3 ] && [ "$(grep -c '^tessera: error:' "$work/err")" = 1 ] && grep -qF -- "$words" "$work/err" && [ ! -e "$work/none.h5" ] && return
  echo "code $code, not 3, or not one message \"$words\", or a file:"; cat "$work/err"; return 1
}
while IFS='	' read -r name said; do
  if [ -n "$said" ]; then
    check "$name" refused "$said" "$name"
  else
    check "$name" "$TESSERA" convert "$work/hostile.deck" --quiet --set data.train="$name" --out "$work/right.h5"
  fi
done < "$work/cases"
# Other types, and damage that says nothing, of the same samples.
twins() { # FILE FILE [options]
  first=$1; second=$2; shift 2
  for file in "$first" "$second"; do
    "$TESSERA" convert "$work/hostile.deck" --quiet --set data.train="$file" --out "$work/twin-${file%.*}.h5" "$@" || return 1
  done
  h5diff -q "$work/twin-${first%.*}.h5" "$work/twin-${second%.*}.h5"
}
while read -r first second options; do
  check "$first as $second" twins "$first" "$second" $options
done < "$work/twins"
check "bad records are skipped" "$TESSERA" convert "$work/hostile.deck" --quiet --set data.train=label_two.parquet --set data.on_bad_record=skip --out "$work/right.h5"
check "several ranks: one message" sh -c "! ${MPIRUN:-mpirun} -q -n 2 '$TESSERA' train '$work/hostile.deck' --set data.train=no_pages.parquet --set run.output='$work/no' 2> '$work/err' > '$work/out'"
check "it is one" test "$(grep -c '^tessera: error:.*no_pages.parquet' "$work/err")" = 1
mkdir -p "$work/void/a=1"; check "a folder of nothing" refused 'void: is a folder, in which no file is' void
mkdir -p "$work/mixed/a=1" "$work/mixed/b=1"; cp "$work/right.parquet" "$work/mixed/a=1"; cp "$work/right.parquet" "$work/mixed/b=1"
check "folders of other keys" refused 'its folders have other keys (NAME=VALUE) than those of' mixed
# Keys are those below what is given; the file's own columns come first.
mkdir -p "$work/id=7/part=1/week%20day=x%20y" "$work/id=7/part=2/week%20day=x%20y"
for part in 1 2; do cp "$work/right.parquet" "$work/id=7/part=$part/week%20day=x%20y/a.parquet"; done
named() { "$TESSERA" convert "$work/hostile.deck" --quiet --set data.train="$@"; }
keys() { # NAMES DATA
  "$TESSERA" train "$work/hostile.deck" --quiet --set data.train="$2" --set run.output="$work/keys" > "$work/out" 2>&1 &&
    "$TESSERA" predict "$work/hostile.deck" --quiet --set run.output="$work/keys" --set data.eval="$2" --keys "$1" --out "$work/keys.csv"
}
check "a plain file below a folder of a column's name" named "id=7/part=1/week%20day=x%20y/a.parquet" --out "$work/right.h5"
check "of folders, with the files' own column" sh -c 'mkdir "$1/root" && mv "$1/id=7" "$1/root"' - "$work"
check "they are there" keys "id,part,week day" root
check "their values, and the file's id" test "$(sed -n '2p;402p' "$work/keys.csv" | cut -d, -f1-3 | tr '\n' ';')" = "49,1,x y;49,2,x y;"
scores() { "$TESSERA" predict "$work/hostile.deck" --quiet --set run.output="$work/keys" --set data.eval="$1" --keys word --out "$work/word.$2"; }
check "keys that are UTF-8" scores utf8.parquet parquet
check "are as they were" test "$($python "$make" rows "$work/word.parquet" | sed -n 3p | cut -d, -f1)" = "é€😀"
sh -c '! "$@" 2> "$0"' "$work/err" "$TESSERA" predict "$work/hostile.deck" --quiet --set run.output="$work/keys" --set data.eval=latin.parquet --keys word --out "$work/scored.parquet"
check "keys that are none" grep -q "scored.parquet.*column \"word\": a cell is no UTF-8, .*\.csv" "$work/err"
check "in CSV" scores latin.parquet csv
ln -s ../.. "$work/root/id=7/part=2/up"; check "a link to a parent" refused 'root/id=7/part=2/up: is the folder ' root
rm "$work/root/id=7/part=2/up"; ln -s nowhere "$work/root/gone.parquet"; check "a link to nothing" refused 'root/gone.parquet: No such file' root
rm "$work/root/gone.parquet"; mkfifo "$work/root/pipe.parquet"; check "a pipe" refused 'root/pipe.parquet: is not a file' root
mkdir "$work/several"; cp "$work/right.parquet" "$work/several/a.parquet"; cp "$work/lacks.parquet" "$work/several/b.parquet"
cp "$work/number_list.parquet" "$work/several/b.parquet"
check "lists in the second file" refused 'b.parquet: column "i64" has lists in some files only' several
cp "$work/lacks.parquet" "$work/several/b.parquet"
check "files of other columns" refused 'b.parquet: has no column "bag", which' several
passed
