#!/bin/sh
# one_message.sh - whatever fails on whatever rank of four: one message on
# stderr, and the code that the man page documents.  seconds: 600
. "$srcdir/tests/support/common.sh"
command -v pgrep > /dev/null || { echo "pgrep (procps) is not here"; exit 77; }
not_sanitized
needs_faults
# ends CODE PATTERN: the last run's.
ends() {
  n=$(grep -c 'tessera: error' "$work/err")
  if [ $code != "$1" ] || [ "$n" != "${3-1}" ] || { [ -n "$2" ] && ! grep -Eq "$2" "$work/err"; }; then
    echo "code $code ($1 is right), $n messages ($what):"; cat "$work/err"
    check "$what" false
  fi
  n_checks=$((n_checks + 1))
}
meets() { # FAULT options: a run of the small deck that meets it
  fault=$1; shift; what="$fault $*"
  TESSERA_FAULT=$fault train 4 run "$@" --set checkpoint.resume=never > "$work/out" 2> "$work/err"; code=$?
}
meets none --set optimizer.lrr=1
ends 2 'did you mean'
meets none --set data.format=dataset --set data.train=nowhere.h5
ends 3 'no such file'
meets batch:2:3
ends 3 'sample [0-9]*: .*\(rank 2\)'
meets write:1:2
ends 4 'No space left'
meets comm:1:40
ends 5 'fault asked for'
meets message:2:3
ends 5 'sent a message that ends early'
meets internal:3:2
ends 1 'internal error .*\(rank 3 on '
meets crash:2:3
ends 1 'rank 2 on .* crashed in section step of step 3: Segmentation fault'
meets pause:1:3 --set run.deadlines.step_s=3
ends 5 'rank 1 on .* has not begun'
meets none --set tables.a.rows=51 --set run.steps=1
check "a checkpoint to damage" test $code = 0
truncate -s 3000 "$(newest run)"
what="a damaged checkpoint"
train 4 run > "$work/out" 2> "$work/err"; code=$?
ends 4 'HDF5 file'

# Out of memory on one rank, wherever: in the set-up, in a step, in a save.
n_failed=0
for nth in ${TESSERA_ALLOC_POINTS:-1 30 120 350 700 1200 2500}; do
  meets "alloc:$((nth % 4)):$nth" --set run.steps=20
  [ $code = 0 ] && continue
  n_failed=$((n_failed + 1))
  ends 1 "out of memory: [0-9]* (bytes|items)"
done
check "$n_failed points of memory failed" test $n_failed -ge 5

# Signals: asked once, twice; a rank that is killed.
signalled() { # SIGNAL...
  rm -rf "$work/run"; what="signals $*"
  ${MPIRUN:-mpirun} -q -n 4 "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/run" --set run.steps=100000 --set run.log_every=1000 --set checkpoint.every=20 > "$work/out" 2> "$work/err" & pid=$!
  until_holds $pid saved run
  for signal in "$@"; do kill "-$signal" $(pgrep -P $pid | head -n "${victims:-4}"); done
  wait $pid; code=$?
}
signalled TERM
ends 75 '' 0
check "its log says so" grep -q 'the same command goes on' "$work/run/log"
victims=1 signalled KILL
ends 137 'rank [0-3] on .* was killed in section'

# The job's script: what keeps the program from beginning is said, too.
job() { # VARIABLE=VALUE... -- words: jobs/slurm without Slurm
  set -- "$@"; vars=
  while [ "$1" != -- ]; do vars="$vars $1"; shift; done
  shift
  env TESSERA_JOBS="$srcdir/jobs/slurm" TESSERA_BIND=none $vars \
    bash -c '. "$TESSERA_JOBS/run.sh"; run_job "$@"' job "$@" > "$work/job" 2>&1; code=$?
}
job TESSERA=nowhere/tessera -- small.deck
check "no program: 2, not $code" test $code = 2
check "it says so" grep -q 'TESSERA=nowhere/tessera: no such program' "$work/job"
job TESSERA_BIND=core SLURM_CPUS_PER_TASK=9999 SLURM_NTASKS=2 -- small.deck
check "a launcher that can't launch: a code" test $code != 0
check "it is asked again" grep -q "code $code without a message: mpirun --map-by" "$work/job"
check "and says why" grep -qi 'request\|available\|resource' "$work/job"
job SLURM_CPUS_PER_TASK= SLURM_NTASKS=1 -- nowhere.deck
check "the program's own message: 2, not $code" test $code = 2
check "nobody is asked again" test "$(grep -c 'without a message' "$work/job")" = 0
job TESSERA_DRY=1 SLURM_JOB_NUM_NODES=2 SLURM_NTASKS_PER_NODE=3 -- small.deck
check "ranks from ranks per node" grep -q -- ' -n 6 ' "$work/job"
passed
