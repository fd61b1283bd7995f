#!/bin/sh
# async.sh - checkpoints written beside the steps are those of a run that waits
# for them, bit for bit; what a killed, failed or stuck writer leaves; the
# mirror.  seconds: 500
. "$srcdir/tests/support/common.sh"
not_sanitized
needs_faults
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
short="--set run.steps=14 --set checkpoint.every=4 --set checkpoint.keep=9"
file() { echo "$work/$1/checkpoints/step-000000$2.h5"; }
# All files of two runs.
all_same() { # run, run
  for at in 04 08 12 14; do
    same_bits "$(file "$1" $at)" "$(file "$2" $at)" &&
      h5diff -q "$(file "$1" $at)" "$(file "$2" $at)" /loader /loader || return 1
  done
}
said() { grep -q "$2" "$work/$1/log"; }

# compare RANKS NAME options: waiting, beside, and with little room.
compare() {
  n=$1; name=$2-$1; shift 2
  check "$name, waiting" train "$n" $name-w $short --set checkpoint.async=false "$@"
  check "$name, beside" train "$n" $name-b $short "$@"
  check "$name, 1 MiB" train "$n" $name-l $short --set checkpoint.buffer_mib=1 "$@"
  check "$name: same bits" all_same $name-w $name-b
  check "$name: same bits from little room" all_same $name-w $name-l
  check "$name: metrics" h5diff -q "$(file $name-w 08)" "$(file $name-b 08)" /metrics /metrics
  check "$name: all of it beside" said $name-b 'written while training goes on, from a copy'
  check "$name: a part of it beside" said $name-l 'there is room for a copy of'
  check "$name: three of four beside" said $name-b 'checkpoints: 4, 3 of them written while training went on'
  check "$name: in the metrics" test "$(grep -c '"checkpoint":true.*"stall_ms"' "$work/$name-b/metrics.jsonl")" = 4
}
large="--set tables.b.rows=60000"
compare 1 rows $large --set table_defaults.sharding=row_wise
compare 2 columns $large --set table_defaults.sharding=column_wise --set sharding.min_column=4
compare 3 cached $large --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.3 --set pipeline.kind=prefetch --set table_defaults.sharding=row_wise
check "where nothing runs beside" train 2 serial $short --set run.lanes=serial
check "it says so" said serial 'training waits until a checkpoint is written: .*serial'
rm "$(file rows-1-b 12)" "$(file rows-1-b 14)"
check "going on from one written beside" train 1 rows-1-b $short $large --set table_defaults.sharding=row_wise
check "the same end" all_same rows-1-w rows-1-b

# Killed while the second one is being written: the first stays.
check "straight run" train 2 straight $short
stuck() { # run, options: no end of the write of step 8
  run=$1; shift
  TESSERA_FAULT=freeze:0:60; export TESSERA_FAULT
  train 2 $run $short "$@" > "$work/out" 2> "$work/err" & pid=$!
  unset TESSERA_FAULT
}
stuck killed
until_holds $pid test -f "$work/killed/checkpoints/.step-00000008.h5.part"
until_holds $pid grep -q '"step":11' "$work/killed/metrics.jsonl"
check "the steps go on beside it" grep -q '"step":11' "$work/killed/metrics.jsonl"
pkill -9 -f "^$TESSERA train $work/small.deck --quiet --set run.output=$work/killed "
wait $pid 2> /dev/null
check "only the first is there" test "$(newest killed)" = "$(file killed 04)"
check "and whole" sh -c "'$TESSERA' inspect '$(file killed 04)' --verify > /dev/null"
check "the same line goes on" train 2 killed $short
check "to the same end" all_same straight killed
check "nothing half-written stays" test -z "$(ls "$work"/killed/checkpoints/.step* 2> /dev/null)"

# A writer that does not get on, while the steps do: they are slow here.
stuck hangs --set run.steps=500 --set checkpoint.every=150 --set run.deadlines.save_s=3 --set run.log_every=1000 --set comm.delay.latency_us=20000 --set metrics.window=0
wait $pid; code=$?
grep -q 'beside step' "$work/err" || cat "$work/err"
check "the watchdog ends it with 5, not $code" test $code = 5
check "and says where" grep -q 'no progress.*writes beside step' "$work/err"

# An error of the writer: one message, code 4, as of a save that is waited for.
rows="--set table_defaults.sharding=row_wise"
check "straight run by rows" train 2 by_rows $short $rows
for n in 1 2; do
  point=write:0:60
  [ $n = 1 ] || point=write:1:20 # of about a dozen pieces that it writes
  TESSERA_FAULT=$point train $n failed$n $short $rows --set run.steps=3000 2> "$work/err"; code=$?
  check "a failed write ends the run on $n with 4, not $code" test $code = 4
  check "one message on $n" test "$(grep -c 'tessera: error' "$work/err")" = 1
  check "with file and reason on $n" grep -q 'step-000000.*\.h5\.part.*No space left' "$work/err"
  check "what was stays on $n" sh -c "'$TESSERA' inspect '$(file failed$n 04)' --verify > /dev/null"
  check "no half of a file on $n" test -z "$(ls "$work"/failed$n/checkpoints/.step* 2> /dev/null)"
done
check "going on after it" train 2 failed2 $short $rows
check "to the end of the others" all_same by_rows failed2

# The mirror.
second="--set checkpoint.mirror=$work/second --set checkpoint.mirror_every=2 --set checkpoint.keep=2"
check "with a mirror" train 2 main $short $second
check "every second one, and the last" test "$(echo $(ls "$work/second"))" = "step-00000008.h5 step-00000014.h5"
check "the same file" cmp "$(file main 14)" "$work/second/step-00000014.h5"
check "counted" said main 'mirror: 2 checkpoints copied, 0 failed'
rm -r "$work/main/checkpoints" "$work/second/step-00000014.h5"
check "from the mirror" train 2 main $short $second
check "it says so" said main 'second/step-00000008.h5 is taken from the mirror'
check "to the same end" same_bits "$(file straight 14)" "$(file main 14)"
check "a mirror that can't be" train 2 main $short --set checkpoint.keep=2 --set checkpoint.mirror=/dev/null/x --set run.steps=18
check "is told" said main 'WARNING: the checkpoint of step 16 is not in the mirror: '
check "and counted" said main 'mirror: 0 checkpoints copied, 2 failed'
check "a new start" train 2 main $short $second --set checkpoint.resume=never --set run.steps=2
check "sets both aside" test -f "$work/second/step-00000014.h5.old" -a -f "$(file main 18).old"
passed
