#!/bin/sh
# slurm.sh - the scripts of jobs/slurm under a real Slurm on this host: stopped
# before the time limit, queued again, resumed at the same step, with the
# weights of a straight run; the limit of that; arrays with a dependency; one
# message and one code under srun; cancelled with a checkpoint; a node lost; an
# installed tree's job, of which sbatch runs a copy.
# `make check-slurm`.
# seconds: 1800
. "$srcdir/tests/support/common.sh"
not_sanitized
. "$srcdir/tests/run/slurm_cluster.sh"
lacks=$(slurm_lacks)
[ -z "$lacks" ] || { echo "a Slurm to submit to needs: $lacks"; exit 77; }
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
trap 'trap "" INT TERM HUP; cluster_down; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

TESSERA_JOBS=$srcdir/jobs/slurm TESSERA_BIND=none OMPI_MCA_btl_vader_single_copy_mechanism=none
export TESSERA TESSERA_JOBS TESSERA_BIND OMPI_MCA_btl_vader_single_copy_mechanism
unset OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_pml OMPI_MCA_ess_singleton_isolated HWLOC_COMPONENTS # of tests/support/launch
build=$PWD
cd "$work" || exit 1
# Waits instead of work make a step last: they change no bits.
slow="--set run.log_every=5 --set comm.delay.latency_us=60000"
submit() { # SCRIPT options of sbatch -- arguments
  script=$1; shift
  sbatch --parsable --ntasks-per-node=2 --cpus-per-task=1 --output="$work/%x-%j.out" "$@"
}
check "a straight run" train 2 straight

# Where control groups can't be seen or changed slurmd ends at once.
if ! cluster_up 1 10 > up 2>&1; then
  why=$(sed -n 's/^.*error: \(.*cgroup.*\)/\1/p' "$cluster"/log/slurmd.n1.log 2> /dev/null | head -n 1)
  [ -z "$why" ] || { echo "slurmd does not start here: $why"; exit 77; }
  cat up "$cluster"/log/*.log; echo "FAILED: a cluster of one node"; exit 1
fi
n_checks=$((n_checks + 1))
echo "== the time limit"
limit=$(submit one-node --time=1 --signal=B:USR1@20 "$TESSERA_JOBS/one-node.sbatch" small.deck --set run.output="$work/limit" $slow --set comm.delay.latency_us=150000)
echo "== the limit of requeues, under srun"
often=$(TESSERA_LAUNCHER=srun TESSERA_REQUEUES=1 submit one-node --time=10 "$TESSERA_JOBS/one-node.sbatch" small.deck --set run.output="$work/often" $slow --set run.steps=100000)
echo "== USR1 before the program has begun"
cat > early.env <<'END'
. "$TESSERA_JOBS/cluster.env"
[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || kill -USR1 $$
END
early=$(TESSERA_CLUSTER=$work/early.env submit one-node --time=10 "$TESSERA_JOBS/one-node.sbatch" small.deck --set run.output="$work/early")
echo "== a job of an installed tree, which nothing names to it"
installed() { (cd "$build" && env -u MAKEFLAGS -u MFLAGS make -s install prefix="$work/tree") > "$work/made" 2>&1 || { cat "$work/made"; return 1; }; }
check "make install" installed
tree=$(unset TESSERA TESSERA_JOBS; submit one-node --time=10 "$work/tree/share/tessera/jobs/slurm/one-node.sbatch" small.deck --set run.output="$work/installed")
echo "== an array, and what comes after it"
for k in 1 2; do echo "small.deck --set run.output=$work/sweep$k --set run.seed=$k $slow"; done > list
array=$(submit sweep --time=10 --array=1-2 "$TESSERA_JOBS/sweep.sbatch" list)
after=$(sbatch --parsable --dependency=afterok:"$array" --output="$work/after-%j.out" --wrap="ls $work/sweep1/checkpoints $work/sweep2/checkpoints")

started() { # FOLDER N JOB: the run has N starts behind it and a step in its log
  until [ "$(grep -c '^tessera ' "$work/$1/log" 2> /dev/null)" = "$2" ] &&
    tail -n 1 "$work/$1/log" | grep -q '^step '; do
    case $(field "$3" JobState) in
    COMPLETED | FAILED | CANCELLED | TIMEOUT) cat "$work/$1/log"; tell_of "$3"; return 1 ;;
    esac
    sleep 0.5
  done
}
same_step() { # FOLDER: where it stopped it went on
  stopped=$(sed -n 's/^stopped at step \([0-9]*\) of.*/\1/p' "$work/$1/log")
  resumed=$(sed -n 's/^resumed at step \([0-9]*\) .*/\1/p' "$work/$1/log")
  [ -n "$stopped" ] && [ "$stopped" = "$resumed" ]
}
echo "== scancel, under both launchers: all of a job's processes get TERM"
for launcher in mpirun srun; do
  eval "job_$launcher=$(TESSERA_LAUNCHER=$launcher submit one-node --time=10 "$TESSERA_JOBS/one-node.sbatch" small.deck --set run.output="$work/$launcher" $slow --set comm.delay.latency_us=10000 --set run.steps=100000)"
done

check "the first task of the array trains" started sweep1 1 "${array}_1"
scancel --batch --signal=USR1 "${array}_1"
for launcher in mpirun srun; do
  eval "job=\$job_$launcher"
  check "the run under $launcher trains" started $launcher 1 "$job"
  scancel "$job"
done
check "the run with a limit trains" started often 1 "$often"
scancel --batch --signal=USR1 "$often"
check "it is queued again" started often 2 "$often"
scancel --batch --signal=USR1 "$often"
check "it is not queued a second time" await "$often" FAILED
check "its code is 75" test "$(field "$often" ExitCode)" = 75:0
check "it says so" grep -q 'not queued again' "$work/tessera-$often.out"
check "srun: one restart" test "$(field "$often" Restarts)" = 1

for launcher in mpirun srun; do
  eval "job=\$job_$launcher"
  check "cancelled under $launcher" await "$job" CANCELLED
  check "$launcher: with a checkpoint" test -n "$(newest $launcher)"
  check "$launcher: the step was ended" grep -q '^stopped at step' "$work/$launcher/log"
  check "$launcher: not queued again" test "$(field "$job" Restarts)" = 0
done
check "the run with a time limit completes" await "$limit" COMPLETED
check "it was stopped by the signal" grep -q 'USR1: the time is nearly over' "$work/tessera-$limit.out"
check "it was queued again" test "$(field "$limit" Restarts)" -ge 1
check "one file for all its lives" grep -q 'start 2 of' "$work/tessera-$limit.out"
check "it went on where it stopped" same_step limit
check "straight = stopped, queued again, resumed" same_bits "$(newest straight)" "$(newest limit)"
check "no step is logged twice" test "$(losses limit | wc -l)" = 8
check "USR1 before the program begins queues the job again" await "$early" COMPLETED
check "it had not begun" grep -q 'before the program had begun' "$work/tessera-$early.out"
check "one start more" test "$(field "$early" Restarts)" = 1
check "the installed tree's job completes" await "$tree" COMPLETED
check "with the program that is there" grep -q "$work/tree/bin/tessera train small.deck" "$work/installed/log"
check "its weights are those of a straight run" same_bits "$(newest straight)" "$(newest installed)"
check "the array's dependency" await "$after" COMPLETED
check "both runs left checkpoints" test "$(grep -c 'step-00000040.h5' "$work/after-$after.out")" = 2
check "a task of an array resumes" same_step sweep1
check "its sister was left alone" test "$(grep -c '^tessera ' "$work/sweep2/log")" = 1

echo "== codes and messages under srun"
srun_ends() { # CODE FAULT options
  want=$1; fault=$2; shift 2
  [ "$fault" = none ] || has_faults || return 0
  TESSERA_FAULT=$fault srun --mpi=pmix --kill-on-bad-exit=0 -n 4 -t 5 "$TESSERA" train small.deck --quiet --set run.output="$work/srun" --set checkpoint.resume=never "$@" > out 2> err; code=$?
  [ $code = "$want" ] || cat err
  check "srun, $fault $*: code $want, not $code" test $code = "$want"
  check "srun, $fault $*: one message" test "$(grep -c 'tessera: error' err)" = 1
}
srun_ends 2 none --set optimizer.lrr=1
srun_ends 3 batch:2:3
srun_ends 4 write:1:2
srun_ends 1 alloc:3:400
srun_ends 1 internal:1:3
srun_ends 1 crash:2:3
srun_ends 5 message:3:2
srun_ends 5 pause:1:3 --set run.deadlines.step_s=3
bad=$(submit one-node --time=5 "$TESSERA_JOBS/one-node.sbatch" small.deck --set optimizer.lrr=1)
check "a bad deck fails" await "$bad" FAILED
check "its code is the program's" test "$(field "$bad" ExitCode)" = 2:0
check "it is not queued again" test "$(field "$bad" Restarts)" = 0
cluster_down

echo "== a node is lost"
check "a cluster of three nodes" cluster_up 3 2
train 4 two_nodes --set sharding.ranks_per_node=2; check "a straight run of two nodes" test $? = 0
# Nodes that are one host would meet in shared memory.
lost=$(TESSERA_NODE_WAIT=120 TESSERA_MPIRUN="-q --mca btl self,tcp" submit nodes --time=10 --nodes=2 "$TESSERA_JOBS/nodes.sbatch" small.deck --set run.output="$work/lost" --set checkpoint.every=10 --set sharding.ranks_per_node=2 $slow)
until [ -n "$(newest lost)" ]; do
  case $(field "$lost" JobState) in
  COMPLETED | FAILED | CANCELLED | TIMEOUT) tell_of "$lost"; echo "FAILED: it trains on two nodes"; exit 1 ;;
  esac
  sleep 0.5
done
check "n1 is not the one to lose" test "$(field "$lost" BatchHost)" = n1
gone=$(ours SLURMD_NODENAME=n2)
check "ranks run on n2" test -n "$gone"
for p in $gone; do # and the daemon above the first of them
  parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$p/status")
  case $(cat "/proc/$parent/comm" 2> /dev/null) in slurmstepd*) gone="$gone $parent" ;; esac
done
kill -9 $(cat "$cluster/pids/slurmd.n2.pid") $gone 2> /dev/null
check "Slurm queues it again and it completes" await "$lost" COMPLETED
check "Slurm found the node lost" grep -q 'NODE FAILURE\|waiting 120 s' "$work/tessera-$lost.out"
check "once" test "$(field "$lost" Restarts)" = 1
check "on other nodes" test "$(field "$lost" NodeList)" = "n[1,3]"
check "it resumed" grep -q '^resumed at step' "$work/lost/log"
check "straight = a node lost, resumed" same_bits "$(newest two_nodes)" "$(newest lost)"
cluster_down
passed
