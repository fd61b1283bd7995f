#!/bin/sh
# columns.sh - data.input = "columns" trains the same bits as "kjt": one id,
# several, weights, empty bags, bad ids; from offsets in files.  seconds: 500
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
same() { # name of a pair of runs
  losses "$1-kjt" > "$work/x"; losses "$1-columns" > "$work/y"
  [ "$(wc -l < "$work/x")" -ge 20 ] && cmp "$work/x" "$work/y" &&
    same_bits "$(newest "$1-kjt")" "$(newest "$1-columns")"
}
# pair NAME RANKS [options]: trains with both inputs and compares.
pair() {
  name=$1; n=$2; shift 2
  for input in kjt columns; do
    check "$name, $input on $n" train "$n" "$name-$input" --set data.input=$input --set run.steps=20 "$@"
  done
  check "$name on $n: the same bits" same "$name"
}
for n in 1 2 3; do pair "synthetic$n" $n; done
# A data set with bags of many lengths, some empty: ids that are no rows of
# smaller tables are left out.  Weights are written over in place.
"$TESSERA" generate "$work/small.deck" --quiet --out "$work/wide.h5" --set tables.b.rows=600 --set tables.d.rows=150 --set tables.e.rows=9 --set 'data.synthetic.pooling=[1,3,2,1,4,5]' --set data.synthetic.zipf=0
file="--set data.format=dataset --set data.eval=[] --set data.on_bad_id=drop --set data.max_bad=1000000"
check "convert" "$TESSERA" convert "$work/small.deck" --quiet --out "$work/ragged.h5" $file --set "data.train=$work/wide.h5"
"$TESSERA" convert "$work/small.deck" --quiet --out "$work/ragged2.h5" $file --set "data.train=$work/wide.h5" --set data.input=columns
check "convert by columns" h5diff -q "$work/ragged.h5" "$work/ragged2.h5"
at=$(h5ls -va "$work/ragged.h5/sparse/ff/weights" | sed -n 's/.*Address: *\([0-9]*\).*/\1/p')
n_ids=$(h5ls "$work/ragged.h5/sparse/ff" | sed -n 's/^weights.*{\([0-9]*\)}.*/\1/p')
check "bags have lost ids" test "$n_ids" -gt 1000 -a "$n_ids" -lt 5000
i=0
while [ $i -lt $((n_ids / 3)) ]; do # 0.5, 2, -1.5
  printf '\000\000\000\077\000\000\000\100\000\000\300\277'; i=$((i + 1))
done | dd of="$work/ragged.h5" bs=64k seek="$at" oflag=seek_bytes conv=notrunc 2> /dev/null
check "weights" sh -c "h5dump -d /sparse/ff/weights -s 0 -c 3 '$work/ragged.h5' | grep -q '0.5, 2, -1.5'"
file="$file --set data.train=$work/ragged.h5"
for n in 1 2 3; do pair "file$n" $n $file; done
# Two files: batches that lie in both.
pair two 2 $file --set "data.train=[\"$work/ragged.h5\",\"$work/ragged.h5\"]" --set data.global_batch=150
for kind in row_wise data_parallel; do
  pair "$kind" 2 $file --set table_defaults.sharding=$kind --set tables.e.optimizer.kind=sgd
done
# Text: one id a sample, and records that are skipped.
{ echo label,x,y,z,fa,fb,fc,fd,fe,ff
  for i in $(seq 1 300); do
    if [ $((i % 50)) = 0 ]; then echo "1,x,$i"; else echo "$((i % 2)),1,2,$i,$i,$((i * 7)),$i,$i,$i,$i"; fi
  done; } > "$work/text.csv"
pair text 2 --set data.format=csv --set "data.train=$work/text.csv" --set 'data.csv.dense=["x","y","z"]' --set tables.e.weighted=false --set data.on_bad_record=skip
# Ranks with no samples.
pair tiny 3 --set data.global_batch=2
# How often an id is written after it was read.
check "bench input" ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" bench input "$work/small.deck" $file --set table_defaults.sharding=table_wise iters=4 steps=2 rounds=1 --json --out "$work/rows"
check "kjt: twice, columns: once" holds inputs 'r["copies"] == 1 + (r["input"] == "kjt")'
check "its figures" ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" bench input "$work/small.deck" iters=4 steps=2 rounds=3 --json --out "$work/rows"
check "its batches" holds inputs 'list(zip(column("global_batch"), column("input"))) == [(96, "kjt"), (96, "columns"), (384, "kjt"), (384, "columns")]'
check "rates of 12 ids, a weight" holds inputs 'near(r["million_ids_per_s"] * r["dist_ms"], r["global_batch"] * 12e-3) and near(r["gb_per_s"] * r["dist_ms"], r["global_batch"] * 100e-6)'
check "rates of steps" holds inputs 'near(r["samples_per_s"] * r["step_ms"], r["global_batch"] * 1e3) and r["dist_ms"] <= r["dist_p90_ms"] and r["step_ms"] <= r["step_p90_ms"]'
check "the reader's copies" holds inputs '(r["concat_ms"] > 0) == (r["input"] == "kjt") and r["pack_ms"] > 0 and r["unpack_ms"] > 0'
passed
