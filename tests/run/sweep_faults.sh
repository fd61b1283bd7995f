#!/bin/sh
# sweep_faults.sh - calls that fail at random places of setting up, training
# and saving, one in each run: it ends with one message and a documented code,
# or goes on as if nothing had been; nobody waits for anybody, no checkpoint is
# damaged, the same line goes on, and in the end the run has the bits of one
# that met nothing.  6 faults; TESSERA_FAULTS=N others, 200 with
# TESSERA_SWEEP=long.  TESSERA_SEED chooses the places.  seconds: 600
. "$srcdir/tests/support/common.sh"
not_sanitized
needs_faults
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
n=4
[ "${TESSERA_SWEEP-}" = long ] && n=200
n=${TESSERA_FAULTS:-$n}
seed=${TESSERA_SEED:-1}
echo "$n faults, seed $seed"
steps=300
line="--set run.log_every=5 --set checkpoint.every=5 --set checkpoint.keep=3 --set data.synthetic.eval_samples=1"
# What there is to fail, and about how often each passes in a run.
awk -v seed="$seed" -v n="$n" 'BEGIN { srand(seed)
  m = split("mpi 12000 comm 4000 alloc 4000 hdf5 900 write 300 fsync 60 rename 60 open 200 save 60", of, " ")
  for (i = 0; i < n; i++) { k = 2 * int(rand() * m / 2) + 1
    print of[k] ":rank" int(rand() * 2) ":nth" int(rand() * of[k + 1]) + 1 } }' > "$work/faults"

# meets FAULT: on the way to step $steps.
meets() {
  TESSERA_FAULT=$1 timeout -k 5 600 ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/run" --set run.steps=$steps $line > "$work/out" 2> "$work/err"; code=$?
  said=$(grep -c 'tessera: error' "$work/err")
  case $code:$said in
  0:0) n_missed=$((n_missed + 1)) ;;
  [1345]:1) n_met=$((n_met + 1)) ;;
  *) cat "$work/err"; check "$1: code $code, $said messages" false ;;
  esac
  n_checks=$((n_checks + 1))
  for file in "$work"/run/checkpoints/step-*; do
    [ -f "$file" ] || continue
    check "$1: $file is whole" sh -c "'$TESSERA' inspect '$file' --verify > /dev/null"
  done
}
n_met=0; n_missed=0
while read -r fault <&3; do
  meets "$fault" 3<&-
  # There is always some way left.
  [ $code = 0 ] && steps=$((steps + 300))
done 3< "$work/faults"
check "some faults were met" test $n_met -gt 0
check "the run ends" train 2 run --set run.steps=$steps $line
check "straight run" train 2 straight --set run.steps=$steps $line
check "straight = all of this" same_bits "$(newest straight)" "$(newest run)"
check "no temporary file stays" test -z "$(ls "$work"/run/checkpoints/.step* 2> /dev/null)"
echo "$n_met faults that ended the run, $n_missed that no call came to: 0 hangs, 0 damaged checkpoints; $steps steps"
passed
