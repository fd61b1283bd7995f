#!/bin/sh
# train_stop.sh - signals and time limits: nothing is lost.
# seconds: 400
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v pgrep > /dev/null || { echo "pgrep (procps) is not here"; exit 77; }
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
long="--set run.steps=300 --set run.log_every=100 --set checkpoint.every=10"
# Waits instead of work make a step last: they change no bits.
slow="--set comm.delay.latency_us=2000"
check "straight run" train 2 straight $long

# stop FOLDER WHAT SIGNAL...: starts a run, waits for its first checkpoint,
# sends to its ranks (WHAT: ranks), its launcher or its job script, waits.
stop() {
  folder=$1 what=$2; shift 2
  case $what in
  script) job train_stop "$work/small.deck" --quiet --set run.output="$work/$folder" $long $slow > "$work/out" 2>&1 & ;;
  *) mpirun_itself $long $slow > "$work/out" 2>&1 & ;;
  esac
  pid=$!
  until_holds $pid saved "$folder"
  for signal in "$@"; do
    case $what in
    launcher) kill "-$signal" $pid ;;
    # As scancel where all of a job's processes get the signal.
    script) kill "-$signal" $pid $(pgrep -P $pid) $(ranks_of "$folder") ;;
    *) kill "-$signal" $(ranks_of "$folder") ;;
    esac
  done
  wait $pid; code=$?
}
ranks_of() { pgrep -f "^$TESSERA train $work/small.deck --quiet --set run.output=$work/$1 "; }
mpirun_itself() { exec ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/$folder" "$@"; }
job() { # the scripts of jobs/slurm, without Slurm
  exec env TESSERA_JOBS="$srcdir/jobs/slurm" TESSERA_BIND=none SLURM_NTASKS=2 SLURM_RESTART_COUNT=9 TESSERA_REQUEUES=0 \
    bash -c '. "$TESSERA_JOBS/run.sh"; run_job "$@"' "$@"
}
n=0
for case in "ranks USR1" "ranks TERM USR1 TERM" "launcher USR2" "script TERM"; do
  n=$((n + 1))
  stop s$n $case
  [ $code = 75 ] || cat "$work/out"
  check "$case ends with 75, not $code" test $code = 75
  check "$case: a checkpoint and a word" grep -q '^stopped at step' "$work/s$n/log"
  check "going on after $case" train 2 s$n $long
  check "$case: straight = stop + resume" same_bits "$(newest straight)" "$(newest s$n)"
done
# A second signal while a step does not end.
if has_faults; then
  TESSERA_FAULT=pause:1:3 train 2 twice $long --set run.log_every=1 > "$work/out" 2> "$work/err" & pid=$!
  until_holds $pid grep -q '^step' "$work/twice/log"
  for i in 1 2; do kill -TERM $(ranks_of twice); sleep 2.5; done
  wait $pid; code=$?
  check "a second signal ends at once with 75, not $code" test $code = 75
  check "it says so" grep -q 'stopped at once by a second signal' "$work/err"
  check "no checkpoint was made for it" test -z "$(newest twice)"
fi

# In an evaluation: what is saved is saved before it, it's broken off, and the
# same line begins it again.
evals="--set run.steps=4 --set run.eval_every=2 --set checkpoint.every=2 --set data.synthetic.eval_samples=20000"
evaluations() { grep '"eval":true' "$work/$1/metrics.jsonl"; }
same_evaluations() { evaluations evals > "$work/x"; evaluations "$1" > "$work/y"; cmp "$work/x" "$work/y"; }
in_evaluation() { # SIGNAL FOLDER STEP options: once the checkpoint of STEP is there
  signal=$1 folder=$2 step=$3; shift 3
  train 2 "$folder" $evals --set comm.delay.latency_us=20000 "$@" > "$work/out" 2>&1 & pid=$!
  until_holds $pid test -e "$work/$folder/checkpoints/step-$step.h5"
  kill "-$signal" $(ranks_of "$folder")
  wait $pid; code=$?
}
check "a run with evaluations" train 2 evals $evals
check "it has two" test "$(evaluations evals | wc -l)" = 2
for signal in USR1 KILL; do
  in_evaluation $signal e$signal 00000002
  [ $signal = KILL ] || check "in an evaluation: 75, not $code" test $code = 75
  check "$signal: nothing of half an evaluation" test -z "$(evaluations e$signal)"
  check "$signal: saved before it" test -e "$work/e$signal/checkpoints/step-00000002.h5"
  check "$signal: no further" test ! -e "$work/e$signal/checkpoints/step-00000004.h5"
  [ $signal = KILL ] || check "a line says it" grep -q '^the evaluation at step 2 waits' "$work/e$signal/log"
  check "going on after $signal" train 2 e$signal $evals
  check "$signal: the evaluations of the straight run" same_evaluations e$signal
  check "$signal: its bits" same_bits "$(newest evals)" "$(newest e$signal)"
done
in_evaluation TERM last 00000004 --set run.eval_every=0
check "in the last evaluation: 75, not $code" test $code = 75
check "the last one is made by the same line" train 2 last $evals --set run.eval_every=0
check "it is the straight run's" test "$(evaluations last)" = "$(evaluations evals | tail -n 1)"

train 2 timed $long --set run.steps=10000000 --set run.max_time=00:00:02 > "$work/out" 2>&1; code=$?
check "max_time ends with 75, not $code" test $code = 75
# The time is the process's: here the set-up takes it all.
train 2 setup $long --set run.max_time=00:00:03 --set comm.delay.latency_us=300000 > "$work/out" 2>&1; code=$?
check "max_time in the set-up: 75, not $code" test $code = 75
check "it is over after the first step" grep -q '^stopped at step 1 of' "$work/setup/log"
passed
