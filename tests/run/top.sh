#!/bin/sh
# top.sh - the first ids of a table in a checkpoint, by steps or by norms, beside
# a script that sorts all of them; of plain tables, of deltas; what is refused.
# seconds: 30
. "$srcdir/tests/support/common.sh"
not_sanitized
python=
for p in /usr/bin/python3 python3; do
  [ -n "$python" ] || { $p -c 'import h5py, numpy' 2> /dev/null && python=$p; }
done
[ -n "$python" ] || { echo "Python with h5py is not here"; exit 77; }
cd "$work" || exit 99
dynamic() { sed 's/rows = \([0-9]*\);/rows = "dynamic"; capacity = \1;/g' "$1"; } # DECK
top() { "$TESSERA" inspect "$1" --table "$2" --top "$3"; } # FILE TABLE K
as_sorted() { # FILE TABLE K
  top "$1" "$2" "$3" > printed || return 1
  $python "$srcdir/tests/run/top.py" "$1" "$2" "$3" > wanted && [ -s wanted ] && sed 's/^ *//; s/  */ /g' printed | cmp - wanted
}
cp small.deck plain.deck
check "plain tables" train 1 plain
dynamic plain.deck > small.deck
check "tables of any id" train 2 any --set table_defaults.sharding=row_wise
for kind in lru lfu score; do
  check "$kind" train 2 $kind --set table_defaults.evict.kind=$kind --set table_defaults.evict.every=5
done
for run in plain any lru lfu score; do
  for table in a b c d e; do
    for k in 1 7 100000; do check "$run: $k of $table" as_sorted "$(newest $run)" $table $k; done
  done
done
check "20 by default" test "$("$TESSERA" inspect "$(newest lru)" --table b | wc -l)" = 21
said() { "$TESSERA" inspect "$(newest any)" | sed -n "s/^ids of table $1: //p"; }
for table in a b c d e; do
  check "how many ids $table has" test "$(said $table)" = "$(top "$(newest any)" $table 100000 | sed 1d | wc -l)"
done

# A table of several pieces, and rows that have changed since another file.
cp plain.deck small.deck
check "many rows" train 1 many --set run.steps=2 --set tables.c.rows=600000
check "they come in pieces" as_sorted "$(newest many)" c 50
check "deltas" train 1 deltas --set run.steps=9 --set checkpoint.every=4 --set checkpoint.delta_every=1 --set checkpoint.keep=9
check "none" train 1 full --set run.steps=9 --set checkpoint.every=7
delta=deltas/checkpoints/delta-00000007.h5; full=full/checkpoints/step-00000007.h5
for table in a b c d e; do
  top $delta $table 50 > one; top $full $table 50 > other
  check "of a delta: $table" cmp one other
done

refused() { # CODE TEXT command...
  want=$1; text=$2; shift 2
  "$TESSERA" inspect "$@" > out 2> err; code=$?
  check "code $want, not $code: $text" test $code = "$want"
  check "$text" grep -q -e "$text" err
}
refused 2 'has no table "nope", but: a, b, c, d, e' "$(newest lru)" --table nope
refused 2 '--top 0 is no number in 1 to' "$(newest lru)" --table b --top 0
refused 2 '--top goes with --table' "$(newest lru)" --top 5
refused 2 '--verify goes alone: without --table' "$(newest lru)" --table b --verify
refused 2 '--verify goes alone: without --table' "$(newest lru)" --vocabulary fa --verify
"$TESSERA" generate plain.deck --quiet --out data.h5
refused 4 'data.h5: is not a tessera checkpoint' data.h5 --table a
hurt() { # DATASET: its bytes
  cp "$(newest lru)" hurt.h5
  at=$(h5dump -p -H -d "$1" hurt.h5 | sed -n 's/.*OFFSET \([0-9]*\).*/\1/p')
  printf 'tessera' | dd of=hurt.h5 bs=1 seek=$((at + 16)) conv=notrunc 2> dd.err
}
for set in ids seen last; do
  hurt /dynamic/b/$set
  refused 4 "hurt.h5: .*dynamic/b/$set.*damaged" hurt.h5 --table b
done
passed
