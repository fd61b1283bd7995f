#!/bin/sh
# faults.sh - one run that meets every fault in turn, on rank 0 and on rank 1:
# files, HDF5, memory, MPI, and kills between the calls of a save.  Each ends
# with one message and the documented code, leaves no damaged checkpoint, and
# the next start of the same line goes on from the newest; in the end the run
# has the bits of one that met nothing.  seconds: 600
. "$srcdir/tests/support/common.sh"
not_sanitized
needs_faults
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
line="--set run.steps=400 --set run.log_every=5 --set checkpoint.every=5 --set checkpoint.keep=3"
check "straight run" train 2 straight $line
check "the beginning" train 2 run $line --set run.steps=10
log=$work/run/log
touch -d @0 "$work/looked"

# meets CODE PATTERN FAULTS: the line goes on from the newest and meets them.
meets() {
  at=$(newest run); at=${at##*step-}; at=$(expr "${at%.h5}" + 0)
  : > "$log"
  TESSERA_FAULT=$3 timeout -k 5 3000 ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/run" $line > "$work/out" 2> "$work/err"; code=$?
  n=$(grep -c 'tessera: error' "$work/err")
  if [ $code != "$1" ] || [ "$n" != 1 ] || ! grep -q "tessera: error: .*$2" "$work/err"; then
    echo "$3: code $code ($1 is right), $n messages:"; cat "$work/err"; tail -n 3 "$log"
    check "$3" false
  fi
  n_checks=$((n_checks + 1))
  # Each file that was written since the last look.
  for file in $(find "$work/run/checkpoints" -name 'step-*' -newer "$work/looked"); do
    check "$3: $file is whole" sh -c "'$TESSERA' inspect '$file' --verify > '$work/inspected'"
  done
  touch "$work/looked"
  resumed=$(sed -n 's/^resumed at step \([0-9]*\) .*/\1/p' "$log")
  [ -z "${4-}" ] || "$4" "$3"
}
# The newest was taken, and a newer one left.
onwards() {
  check "$1: resumed at step $at, not $resumed" test "$resumed" = "$at"
  now=$(newest run); now=${now##*step-}
  check "$1: went on" test "$(expr "${now%.h5}" + 0)" -gt "$at"
}
# The newest could not be read, so the one before it was taken.
back() {
  check "$1: says so" grep -q "^WARNING: .*step-[0-9]*$at.h5.*going back to the checkpoint before" "$log"
  check "$1: resumed before step $at, at $resumed" test "$resumed" -lt "$at"
}

meets 1 'lock: Permission denied' open:rank0:nth1
meets 1 'deck.effective: No space left' flush:rank0:nth1
meets 4 'h5.part: Too many open files' open:rank0:nth16:EMFILE onwards
meets 4 'h5.part: Permission denied' open:rank1:nth10 onwards
meets 1 'metrics.jsonl: Disk quota exceeded' flush:rank0:nth5:EDQUOT onwards
meets 4 'h5.part: No space left' write:rank0:nth60 onwards
meets 4 'h5.part: Stale file handle' write:rank1:nth14:ESTALE onwards
meets 4 'h5.part: Input/output error' fsync:rank0:nth5 onwards
meets 4 'h5.part: No space left' fsync:rank1:nth3:ENOSPC onwards
meets 4 'h5: Read-only file system' rename:rank0:nth2:EROFS onwards
meets 4 'bytes can.t be reserved: No space left' reserve:rank0:nth6 onwards
meets 4 'h5.part: .*Input/output error' hdf5:rank0:nth320 onwards
# A file of rows that one rank alone can't make ends them all, at once.
fast=$line
line="$line --set run.tier_dir=$work --set table_defaults.kernel=cached --set table_defaults.cache.tier=file --set table_defaults.sharding=row_wise"
meets 1 'tier can.t be created: Permission denied (rank 1)$' open:rank1:nth6
meets 1 'bytes can.t be reserved: No space left on device (rank 0)$' reserve:rank0:nth3
line=$fast
# Two at once: one in the load, one that ends the run.
for rank in 0 1; do
  meets 4 'No space left' read:rank$rank:nth40,write:rank1:nth12 back
  meets 4 'No space left' hdf5:rank$rank:nth2,write:rank1:nth12 back
  # While the run sets itself up: later the reader may be met in a batch that
  # nobody will ask for.
  meets 1 'out of memory' alloc:rank$rank:nth800
  meets 5 'known error' mpi:rank$rank:nth9000
  meets 5 'fault asked for' comm:rank$rank:nth500 onwards
  meets 5 'fault asked for' save:rank$rank:nth3 onwards
  # Killed where a save is about to write, to sync and to rename.
  meets 137 'was killed in section' write:rank$rank:nth12:KILL
  meets 137 'was killed in section' fsync:rank$rank:nth2:KILL
done
meets 137 'was killed in section' rename:rank0:nth2:KILL onwards
meets 137 'was killed in section' fsync:rank0:nth6:KILL onwards
# Through MPI-IO, on one rank, as others would wait inside HDF5: from the last
# groups to the file's end each failing call ends the run, and a save that comes
# through is whole.
nth=20
while :; do
  TESSERA_FAULT=hdf5:rank0:nth$nth timeout -k 5 300 "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/mpio" --set run.steps=1 --set checkpoint.io=mpio > "$work/out" 2> "$work/err"; code=$?
  grep -q 'needs parallel HDF5' "$work/err" && break
  [ $code = 0 ] && break
  check "mpio, hdf5 call $nth: code 4, not $code" test $code = 4
  check "mpio, hdf5 call $nth: one message" test "$(grep -c 'tessera: error' "$work/err")" = 1
  nth=$((nth + 1))
done
[ $code != 0 ] || check "mpio: whole after $nth calls" sh -c "test $nth -gt 25 && '$TESSERA' inspect '$(newest mpio)' --verify > /dev/null"
check "the run ends" train 2 run $line
check "straight = all of this" same_bits "$(newest straight)" "$(newest run)"
check "no temporary file stays" test -z "$(ls "$work"/run/checkpoints/.step* 2> /dev/null)"
check "no step is logged twice" test "$(losses run | wc -l)" = 80
passed
