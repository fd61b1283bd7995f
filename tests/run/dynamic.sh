#!/bin/sh
# dynamic.sh - tables whose ids are any 64-bit number: as a table of as many
# rows wherever ids are below their number, on any ranks, shardings, pipelines;
# restarts on other ranks and with another capacity; damaged checkpoints; ids of
# all 64 bits; full tables; what is refused.  seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
dynamic() { sed 's/rows = \([0-9]*\);/rows = "dynamic"; capacity = \1;/g' "$1"; } # DECK
run() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
fails() { # CODE PATTERN command...
  want=$1; pattern=$2; shift 2
  "$@" > "$work/out" 2> "$work/err"; code=$?
  [ $code = "$want" ] && grep -q -e "$pattern" "$work/err" || cat "$work/out" "$work/err"
  check "code $want for $pattern, not $code" test $code = "$want"
  check "$pattern is said" grep -q -e "$pattern" "$work/err"
}
# Losses of each training step.
losses() { grep -v '"eval":\|"valid":' "$work/$1/metrics.jsonl" | sed -n 's/.*"loss":\([^,}]*\).*/\1/p'; }
same_losses() { # run, run, lines
  losses "$1" > "$work/x"; losses "$2" > "$work/y"
  [ "$(wc -l < "$work/x")" = "$3" ] && cmp "$work/x" "$work/y"
}
# Of dynamic tables, too, which ids these are.
all_same() { same_bits "$1" "$2" && h5diff -q "$1" "$2" /dynamic /dynamic && h5diff -q "$1" "$2" /meta/dynamic /meta/dynamic; }
path() { echo "$work/$1/checkpoints/step-000000$2.h5"; } # RUN STEP
wise="--set table_defaults.sharding=table_wise"
f32="--set tables.c.dtype=f32 --set tables.d.dtype=f32"
cp "$work/small.deck" "$work/plain.deck"
dynamic "$work/plain.deck" > "$work/dynamic.deck"
use() { cp "$work/$1.deck" "$work/small.deck"; } # plain, dynamic: what train takes

# ---- as a table of as many rows ---------------------------------------------
# oracle NAME STEPS [options]: the two decks give the same losses on one rank.
oracle() {
  name=$1; steps=$2; shift 2
  use plain; check "$name: rows" train 1 "$name" $wise "$@"
  use dynamic; check "$name: ids" train 1 "$name-1" $wise "$@"
  check "$name: the same losses" same_losses "$name" "$name-1" "$steps"
}
# others NAME STEPS [options]: and close ones on others, in all shardings.
others() {
  name=$1; steps=$2; shift 2
  use dynamic
  for n in 2 3 4; do for kind in table_wise row_wise table_row_wise; do
    case $n-$kind in 3-table_wise | 4-table_row_wise) continue ;; esac
    check "$name: $kind on $n" train $n "$name-$n-$kind" --set table_defaults.sharding=$kind "$@"
    check "$name: $kind on $n agrees" close_losses "$name" "$name-$n-$kind" 1e-6 "$steps"
  done; done
}
oracle all 40
oracle f32 40 $f32
others f32 40 $f32
check "auto" train 2 auto $f32
check "auto agrees" close_losses f32 auto 1e-6 40
for kind in sgd adagrad adamw lion partial_rowwise_adam partial_rowwise_lamb; do
  few="$f32 --set run.steps=12 --set tables.a.optimizer.kind=$kind --set tables.a.optimizer.lr=0.01 --set tables.b.optimizer.kind=$kind"
  "$TESSERA" train "$work/plain.deck" --check $few > /dev/null 2>&1 || continue
  oracle $kind 12 $few
done
oracle dedup 12 $f32 --set run.steps=12 --set 'data.dedup=["fb","fd"]'
check "dedup on 3" train 3 dedup-3 $f32 --set run.steps=12 --set 'data.dedup=["fb","fd"]' --set table_defaults.sharding=row_wise
check "dedup agrees" close_losses dedup dedup-3 1e-6 12
oracle parts 12 $f32 --set run.steps=12 --set run.accumulate=2
check "parts on 2" train 2 parts-2 $f32 --set run.steps=12 --set run.accumulate=2 --set table_defaults.sharding=row_wise
check "parts agree" close_losses parts parts-2 1e-6 12
place='feature_processor={kind="position_weighted";max_length=3;}'
for deck in plain dynamic; do
  sed "s/name = \"[bd]\";/&$place;/" "$work/$deck.deck" > "$work/x"; mv "$work/$deck.deck" "$work/$deck.kept"; mv "$work/x" "$work/$deck.deck"
done
oracle place 12 $f32 --set run.steps=12
others place 12 $f32 --set run.steps=12
for deck in plain dynamic; do mv "$work/$deck.kept" "$work/$deck.deck"; done

# ---- pipelines ----------------------------------------------------------------
use dynamic
row="--set table_defaults.sharding=row_wise --set run.steps=15"
check "base" train 2 base $row --set pipeline.kind=base
for set in pipeline.kind=sparse_dist pipeline.kind=prefetch pipeline.kind=fused_sparse_dist run.lanes=serial data.input=columns optimizer.in_backward=false; do
  check "$set" train 2 "$set" $row --set "$set"
  check "$set: the same losses" same_losses base "$set" 15
  check "$set: the same checkpoint" all_same "$(newest base)" "$(newest "$set")"
done
use plain; check "semi_sync: rows" train 1 semi $wise --set run.steps=15 --set pipeline.kind=semi_sync
use dynamic; check "semi_sync: ids" train 1 semi-1 $wise --set run.steps=15 --set pipeline.kind=semi_sync
check "semi_sync: the same losses" same_losses semi semi-1 15

# ---- restarts -----------------------------------------------------------------
for n in 1 3; do
  set="--set table_defaults.sharding=row_wise"
  check "straight on $n" train $n straight$n $set
  check "first half on $n" train $n half$n $set --set run.steps=17
  cp -r "$work/half$n" "$work/late$n"
  check "second half on $n" train $n half$n $set
  check "$n: straight = stop + resume" all_same "$(newest straight$n)" "$(newest half$n)"
  check "$n: the same losses" same_losses straight$n half$n 40
  check "saved beside" train $n late$n $set --set checkpoint.async=true --set checkpoint.every=5
  check "$n: saved beside is the same" all_same "$(newest straight$n)" "$(newest late$n)"
done
# Of files, as synthetic ids go by the capacity.
"$TESSERA" generate "$work/plain.deck" --quiet --out "$work/data.h5"
f32="$f32 --set data.format=dataset --set data.train=$work/data.h5 --set data.eval=[]"
check "a run of f32" train 1 one $f32 --set table_defaults.sharding=row_wise
check "to step 17 on 2" train 2 part $f32 --set table_defaults.sharding=row_wise --set run.steps=17
for n in 1 2 4; do
  cp -r "$work/part" "$work/part$n"
  check "on $n from there" train $n part$n $f32 --set table_defaults.sharding=row_wise
  check "on $n: the same losses" close_losses one part$n 1e-6 40
  ids() { h5diff -q "$(newest one)" "$(newest part$n)" /dynamic /dynamic; }
  check "on $n: the same ids" ids
done
cp -r "$work/part" "$work/larger"
check "more capacity" train 2 larger $f32 --set table_defaults.sharding=table_wise --set tables.b.capacity=9000 --set tables.b.init.scale=0.057735027
check "more capacity: the same losses" close_losses one larger 1e-6 40
n_ids() { h5dump -H -d "/dynamic/$2/ids" "$1" | sed -n 's/.*SIMPLE { ( \([0-9]*\) ).*/\1/p'; }
had=$(n_ids "$(newest part)" b)
cp -r "$work/part" "$work/exact"
check "as much capacity as there are ids" train 1 exact $f32 $wise --set tables.b.capacity="$had" --set run.steps=17
fails 2 "table b: capacity = $((had - 1)), but .* has rows of $had ids" train 2 part $f32 --set tables.b.capacity=$((had - 1))
check "weights of it to begin with" train 2 begun $f32 --set checkpoint.init_from="$(newest part)" --set run.steps=3
use plain; fails 4 'step-00000017.h5' train 2 part $f32
check "a run of rows" train 2 rows $f32 --set run.steps=2
use dynamic; fails 4 'has no ids for table a, whose rows are "dynamic"' train 2 rows $f32

# A kill in the middle, and what is damaged is gone back from.
kill_at() { # RUN STEP
  train 2 "$1" $row --set run.steps=400 --set checkpoint.every=5 --set checkpoint.keep=99 --set comm.delay.latency_us=2000 > /dev/null 2>&1 & pid=$!
  until_holds $pid test -f "$(path "$1" "$2")"; pkill -9 -f "set run.output=$work/$1 "; wait $pid 2> /dev/null
  rm -f "$work/$1"/checkpoints/.*part*
}
check "straight to 30" train 2 long $row --set run.steps=30
kill_at killed 10
for path in "$work"/killed/checkpoints/step-*.h5; do at=${path##*-}; case $at in 00000005.h5 | 00000010.h5) ;; *) rm "$path" ;; esac; done
cp -r "$work/killed" "$work/hurt"; cp -r "$work/killed" "$work/cut"
check "goes on" train 2 killed $row --set run.steps=30
check "to the same end" all_same "$(newest long)" "$(newest killed)"
offset() { h5dump -p -H -d "$1" "$2" | sed -n 's/.*OFFSET \([0-9]*\).*/\1/p'; } # DATASET FILE
flip() { # FILE PLACE
  printf 'tessera' | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
}
for set in /dynamic/b/ids /meta/dynamic/b; do
  rm -rf "$work/hurt2"; cp -r "$work/hurt" "$work/hurt2"
  at=$(offset $set "$(path hurt2 10)")
  check "$set has a place" test -n "$at"
  flip "$(path hurt2 10)" $((at + 16))
  check "$set is damaged" train 2 hurt2 $row --set run.steps=30 2> "$work/err"
  check "$set: it says so" grep -q "step-00000010.h5: .*damaged.*going back to the checkpoint before: .*step-00000005.h5" "$work/err" "$work/hurt2/log"
  check "$set: to the same end" all_same "$(newest long)" "$(newest hurt2)"
done
truncate -s -2000 "$(path cut 10)"; rm "$(path cut 05)"
train 2 cut $row --set run.steps=30 > "$work/out" 2> "$work/err"; code=$?
check "cut off: code 4, not $code" test $code = 4
check "cut off: named" grep -q 'step-00000010.h5' "$work/err"

# ---- ids of 64 bits -------------------------------------------------------------
cd "$work" || exit 99
awk 'BEGIN {
  n = split("-5 0 7 9223372036854775807 -9223372036854775808 1099511627776 -1 123456789012345678 123456789012345679", id, " ")
  print "label,user,list"
  for (i = 0; i < 200; i++) print (i * i % 7 % 2) "," id[i % n + 1] "," id[i % 4 + 1] "|" id[i * 7 % n + 1] } ' > ids.csv
awk 'NR == 1 || NR % 3 { print; next } { sub(/,[^,]*,/, ",4242424242424242,"); print }' ids.csv > other.csv
cat > ids.deck <<'DECK'
run = { steps = 12; log_every = 1; threads = 1; };
data = { train = "ids.csv"; eval = "other.csv"; format = "csv"; global_batch = 40;
  columns = ( { name = "label"; kind = "label"; }, { name = "user"; kind = "ids"; encoding = "none"; },
    { name = "list"; kind = "ids"; encoding = "none"; list_separator = "|"; } ); };
tables = ( { name = "user"; rows = "dynamic"; capacity = 40; features = ["user"]; }, { name = "list"; rows = "dynamic"; capacity = 40; features = ["list"]; } );
table_defaults = { dim = 8; optimizer = { kind = "rowwise_adagrad"; lr = 0.1; }; };
model = { kind = "dlrm"; dense_features = 0; over_arch = [8, 1]; };
sharding = { topology = "default"; };
DECK
go() { n=$1; folder=$2; shift 2; run $n train ids.deck --quiet --set run.output="$work/$folder" --set table_defaults.sharding=row_wise "$@"; }
listed() { h5dump -w 1 -y -d "/dynamic/$2/ids" "$(newest "$1")" | tr -d ' ,' | grep -E '^-?[0-9]+$' | sort -n; } # RUN TABLE
figures() { # RUN RANKS: of an evaluation, and of each sample
  run "$2" eval ids.deck --quiet --set run.output="$work/$1" > "$work/$1-$2.eval" 2>&1 &&
    run "$2" predict ids.deck --quiet --set run.output="$work/$1" --out "$work/$1-$2.csv" > /dev/null
}
close_columns() { # FILE FILE: numbers of the last column
  paste -d , "$1" "$2" | awk -F, '{ d = $(NF / 2) - $NF; if (d < 0) d = -d; if (d > 1e-5) bad = 1 } END { exit bad || NR < 100 }'
}
for set in none modulo hash; do
  sed "s/encoding = \"none\"/encoding = \"$set\"/g" ids.deck > x.deck; cp ids.deck kept.deck; mv x.deck ids.deck
  for n in 1 2; do check "$set on $n" go $n $set$n; done
  check "$set: ranks agree" close_losses ${set}1 ${set}2 1e-6 12
  check "$set: the same ids" test "$(listed ${set}1 user)" = "$(listed ${set}2 user)"
  check "$set: nine ids" test "$(listed ${set}1 user | wc -l)" = 9
  for n in 1 2; do check "$set: figures on $n" figures ${set}2 $n; done
  check "$set: the same predictions" close_columns ${set}2-1.csv ${set}2-2.csv
  check "$set: nothing is learnt of others" test "$(listed ${set}2 user | grep -c 4242424242424242)" = 0
  check "$set: a data set" run 2 convert ids.deck --quiet --out $set.h5
  sed '/^  columns/d; /^    { name = "list"; kind/d; s/global_batch = 40;/& };/' kept.deck > ids.deck
  check "$set: trains" go 2 set$set --set data.format=dataset --set data.train=$set.h5 --set data.eval=[]
  check "$set: as the text does" close_losses ${set}1 set$set 1e-6 12
  mv kept.deck ids.deck
done
check "none and modulo are one" close_losses none1 modulo1 1e-9 12
printf '%s\n' -9223372036854775808 -5 -1 0 7 1099511627776 123456789012345678 123456789012345679 9223372036854775807 > wanted
listed none2 user > got
check "the ids as they are" cmp wanted got

# ---- full tables ------------------------------------------------------------------
for n in 1 2; do fails 1 'table user is full: there is no row for id .* (capacity = 8, of which this rank has [0-9]*)' go $n full$n --set tables.user.capacity=8 --set tables.user.sharding=table_wise; done
check "as many as there are" go 1 filled --set tables.user.capacity=9 --set tables.user.sharding=table_wise
check "all rows are taken" test "$(listed filled user | wc -l)" = 9
check "the same losses" close_losses none1 filled 1e-1 12

# ---- what is refused ------------------------------------------------------------------
refused() { pattern=$1; shift; fails 2 "$pattern" go 1 refused "$@"; }
takes='table user: rows = "dynamic" takes'
refused 'table user: rows = "dynamic" needs capacity' --set tables.user.capacity=0
refused 'table user: capacity is for rows = "dynamic"' --set tables.user.rows=40
for kind in column_wise table_column_wise grid data_parallel; do
  refused "$takes sharding table_wise, row_wise or table_row_wise" --set tables.user.sharding=$kind
done
refused "$takes an optimizer of rows, not \"none\"" --set tables.user.optimizer.kind=none
refused "$takes init.kind uniform, normal or constant" --set tables.user.init.kind=file --set tables.user.init.path=rows.npy
fails 2 'capacity = 1 is less than the 2 ranks' go 2 refused --set tables.user.capacity=1 --set tables.user.sharding=row_wise
passed
