# run.sh - sourced by the sbatch scripts: run_job DECK [OPTION]..., and
# run_search DECK --space FILE [OPTION]...
#
# The same for the first run and every later one: the program goes on from its
# newest checkpoint, if there is one.  USR1 comes to this shell before the time
# is over (--signal=B:USR1@120) and is passed on; the program saves and ends
# with 75; the job is queued again, TESSERA_REQUEUES times at most.  The script's
# first line notes a USR1 that comes before the program has begun: the job is
# queued again at once.  Any other code is the job's.  TERM is somebody's
# scancel, or a preemption that Slurm itself queues again: then the program
# saves and nothing more is done here.
# TESSERA_DRY=1 prints the command and runs nothing.

: "${TESSERA_JOBS:=$(dirname "${BASH_SOURCE[0]}")}"
. "${TESSERA_CLUSTER:-$TESSERA_JOBS/cluster.env}"

say() { echo "$(date '+%F %T') job ${SLURM_JOB_ID:-?}: $*"; }

# The job's name in scontrol: of an array, this task and not the whole.
job_name() {
  if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    echo "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
  else
    echo "$SLURM_JOB_ID"
  fi
}

# What Slurm gave, and what of it can't be meant.
look() {
  nodes=${SLURM_JOB_NUM_NODES:-1}
  ranks=${SLURM_NTASKS:-$((nodes * ${SLURM_NTASKS_PER_NODE:-1}))}
  per=$(((ranks + nodes - 1) / nodes)) gpus=${SLURM_GPUS_ON_NODE:-0}
  say "start $((${SLURM_RESTART_COUNT:-0} + 1)) of at most $((TESSERA_REQUEUES + 1)): $ranks ranks on $nodes nodes (${SLURM_JOB_NODELIST:-this one}), ${SLURM_CPUS_PER_TASK:-all} CPUs each, $gpus GPUs per node"
  if [ $((ranks % nodes)) != 0 ]; then
    say "NOTE: $ranks ranks on $nodes nodes: some nodes have more to do; --ntasks-per-node makes them equal"
  fi
  case $gpus in
  0) ;;
  "$per") ;;
  *[!0-9]*) say "NOTE: GPUs of several kinds ($gpus): one rank to a GPU is what the program expects" ;;
  *) say "NOTE: $per ranks on a node with $gpus GPUs: ranks share GPUs, or GPUs lie idle; --ntasks-per-node=$gpus gives each its own" ;;
  esac
}

# The command, as words in the positional parameters of who calls it.
launcher() {
  case $TESSERA_LAUNCHER in
  srun)
    bind="--cpu-bind=cores"
    [ "$TESSERA_BIND" = core ] || bind="--cpu-bind=none"
    echo "srun $TESSERA_SRUN $bind -n $ranks${SLURM_CPUS_PER_TASK:+ --cpus-per-task=$SLURM_CPUS_PER_TASK}"
    ;;
  mpirun)
    bind="--bind-to none"
    [ "$TESSERA_BIND" = core ] && bind="--map-by slot:PE=${SLURM_CPUS_PER_TASK:-1} --bind-to core"
    echo "mpirun $TESSERA_MPIRUN $bind -n $ranks"
    ;;
  *)
    echo "TESSERA_LAUNCHER=$TESSERA_LAUNCHER: mpirun or srun" >&2
    return 2
    ;;
  esac
}

# scancel and preemption send TERM, and KILL after KillWait (30 s): to this
# shell and the first processes of each step, with proctrack/linuxproc to all.
# Who starts ranks must not take it: mpirun, and its daemons on other nodes,
# kill all ranks 2 s later.  The ranks' own is unblocked again, and to those
# that get none the trap below sends USR1.
deaf() {
  [ "$TESSERA_LAUNCHER" = mpirun ] || return 0
  if ! env --block-signal=TERM true 2> /dev/null; then
    say "NOTE: env knows no --block-signal (coreutils 8.31): scancel may leave no time for a checkpoint"
    return 0
  fi
  deaf="env --block-signal=TERM"
  export OMPI_MCA_orte_launch_agent="${OMPI_MCA_orte_launch_agent:-$deaf orted}"
}

# Bytes that this job has printed; nothing where they can't be counted.
printed() {
  [ -f /proc/$$/fd/1 ] && [ -f /proc/$$/fd/2 ] && stat -L -c %s /proc/$$/fd/1 /proc/$$/fd/2
}

# The program says why it fails.  A launcher that was told to be quiet doesn't:
# then it's asked once more, aloud.
explain_silence() {
  case $code in 0 | 75) return 0 ;; esac
  [ -n "$before" ] && [ "$(printed)" = "$before" ] || return 0
  aloud=
  for word in $words; do
    case $word in -q | -Q | --quiet) ;; *) aloud="$aloud $word" ;; esac
  done
  say "code $code without a message:$aloud $TESSERA version"
  timeout 60 $aloud "$TESSERA" version
}

# Communication failed, or a rank was killed: it may be a node that Slurm has
# not missed yet.  When it does it queues the job again by itself, but only one
# that still runs.
await_node_loss() {
  [ "$nodes" -gt 1 ] && [ -z "$cancelled" ] || return 0
  case $code in 0 | 2 | 3 | 4 | 6 | 75) return 0 ;; esac
  say "waiting $TESSERA_NODE_WAIT s: Slurm queues the job again if a node was lost"
  sleep "$TESSERA_NODE_WAIT" & wait $!
}

# The signal may meet a launcher that has not begun the program: it dies of it,
# with a code of its own, and nothing was trained.
early() { # code: true then
  case $1 in [0-6] | 75) return 1 ;; esac
  [ -n "$asked" ] && [ $((asked - began)) -lt 15 ]
}

# Starts the command and waits for its code, with signals passed on.
run_command() {
  trap 'say "USR1: the time is nearly over"; asked=$(date +%s); [ -z "$child" ] || kill -USR1 $child 2>/dev/null' USR1
  trap 'say "TERM"; cancelled=1; [ -z "$child" ] || kill -USR1 $child 2>/dev/null' TERM
  code=75
  [ -z "$asked$cancelled" ] || return
  $deaf "$@" & child=$!
  [ -z "$asked$cancelled" ] || kill -USR1 $child
  # A signal ends wait, not the program.
  while :; do
    wait "$child"; code=$?
    kill -0 "$child" 2>/dev/null || break
  done
}

run_job() { run_command_of train "$@"; }
run_search() { run_command_of tune "$@"; } # it starts its runs by the launcher itself

run_command_of() { # COMMAND DECK [OPTION]...
  command=$1; shift
  if [ $# = 0 ]; then echo "no deck: sbatch SCRIPT DECK [OPTION]..." >&2; exit 2; fi
  look
  words=$(launcher) || exit 2
  set -- "$@" ${SLURM_CPUS_PER_TASK:+--set run.threads=$SLURM_CPUS_PER_TASK}
  case $command in
  train) set -- $words "$TESSERA" train "$@" ;;
  tune) set -- "$TESSERA" tune "$@" --launch "$words" ;;
  esac
  if [ -n "${TESSERA_DRY:-}" ]; then echo "$*"; exit 0; fi
  if ! command -v "$TESSERA" > /dev/null; then
    say "TESSERA=$TESSERA: no such program on $(hostname); cluster.env says where it comes from"
    exit 2
  fi
  deaf='' cancelled='' child='' asked=${asked:-} began=$(date +%s)
  deaf
  before=$(printed)
  run_command "$@"
  trap '' USR1 TERM # Slurm ends what it queues again
  explain_silence
  say "ended with code $code"
  if [ -z "$child" ] || early "$code"; then say "the signal came before the program had begun"; code=75; fi
  await_node_loss
  [ "$code" = 75 ] && [ -z "$cancelled" ] || exit "$code"
  if [ "${SLURM_RESTART_COUNT:-0}" -ge "$TESSERA_REQUEUES" ]; then
    say "not queued again: it was $TESSERA_REQUEUES times (TESSERA_REQUEUES)"
    exit "$code"
  fi
  say "queued again"
  scontrol requeue "$(job_name)" || exit "$code"
  trap - TERM
  sleep 60 # until Slurm ends it
  exit "$code"
}
