# slurm_cluster.sh - sourced: a Slurm of its own on this host, as root, in
# $work/slurm; nothing of an installed one is touched.  Accounts and cgroups
# are left out; several nodes are several slurmd on one host.
#
# cluster_up NODES CPUS   (CPUs of a node may be more than there are)
# cluster_down            stops what cluster_up started, by its pid files
cluster=$work/slurm

# A missing part, or nothing.
slurm_lacks() {
  [ "$(id -u)" = 0 ] || { echo "root, to start Slurm's daemons"; return; }
  for program in munged slurmctld slurmd sbatch scontrol squeue sinfo; do
    command -v $program > /dev/null || { echo "$program (packages slurm-wlm, munge)"; return; }
  done
}

stop_pid_file() {
  [ -s "$1" ] || return 0
  pid_of_file=$(cat "$1")
  kill "$pid_of_file" 2> /dev/null
  for i in $(seq 1 60); do kill -0 "$pid_of_file" 2> /dev/null || break; sleep 0.25; done
  kill -9 "$pid_of_file" 2> /dev/null
  rm -f "$1"
}

cluster_down() {
  [ -d "$cluster" ] || return 0
  for job in $(squeue -h -o %A 2> /dev/null | sort -u); do scancel "$job" 2> /dev/null; done
  for i in $(seq 1 40); do [ -z "$(squeue -h 2> /dev/null)" ] && break; sleep 0.5; done
  for file in "$cluster"/pids/slurmd*.pid "$cluster"/pids/slurmctld.pid "$cluster"/pids/munged.pid; do
    stop_pid_file "$file"
  done
  # Steps' daemons and tasks that are left know this cluster by its settings.
  for p in $(ours SLURM_CONF="$cluster/slurm.conf"); do
    [ "$p" = $$ ] || kill -9 "$p" 2> /dev/null
  done
  rm -rf "$cluster"
}

# Processes started with VARIABLE=VALUE in their environment, but for this
# script's own.
ours() {
  for e in /proc/[0-9]*/environ; do
    p=${e#/proc/}; p=${p%/environ}
    [ "$p" = $$ ] && continue
    tr '\0' '\n' < "$e" 2> /dev/null | grep -qxF "$1" && echo "$p"
  done 2> /dev/null
}

write_conf() { # NODES CPUS
  port=$((20000 + $$ % 20000))
  host=$(hostname -s)
  cat > "$cluster/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$cluster/munge.socket,cred_expire=5
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool/%n
SlurmctldPidFile=$cluster/pids/slurmctld.pid
SlurmdPidFile=$cluster/pids/slurmd.%n.pid
SlurmctldLogFile=$cluster/log/slurmctld.log
SlurmdLogFile=$cluster/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=5,sched_interval=5,batch_sched_delay=1
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
KillWait=30
MinJobAge=3600
SlurmctldTimeout=30
SlurmdTimeout=30
NodeName=n[1-$1] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + $1))] CPUs=$2 State=UNKNOWN
PartitionName=test Nodes=n[1-$1] Default=YES MaxTime=60 State=UP
CONF
  cat > "$cluster/cgroup.conf" <<CONF
CgroupAutomount=no
ConstrainCores=no
ConstrainRAMSpace=no
CONF
}

cluster_up() {
  mkdir -p "$cluster/log" "$cluster/state" "$cluster/spool" "$cluster/pids"
  chmod 0755 "$work" "$cluster"
  (umask 077; head -c 1024 /dev/urandom > "$cluster/munge.key")
  munged --socket="$cluster/munge.socket" --key-file="$cluster/munge.key" \
    --pid-file="$cluster/pids/munged.pid" --log-file="$cluster/log/munged.log" \
    --seed-file="$cluster/munged.seed" --num-threads=2 || return 1
  write_conf "$1" "$2"
  export SLURM_CONF="$cluster/slurm.conf"
  slurmctld -f "$SLURM_CONF" > /dev/null 2>&1 || return 1
  for i in $(seq 1 "$1"); do
    mkdir -p "$cluster/spool/n$i"
    slurmd -f "$SLURM_CONF" -N "n$i" > /dev/null 2>&1 || return 1
  done
  for i in $(seq 1 600); do
    [ "$(sinfo -h -N -o %T 2> /dev/null | sort -u)" = idle ] && return 0
    sleep 0.5
  done
  sinfo -N; tail -n 20 "$cluster"/log/*.log
  return 1
}

field() { scontrol -o show job "$1" 2> /dev/null | tr ' ' '\n' | sed -n "s/^$2=//p" | head -n 1; }

# Until JOB is in STATE.  One that comes to another end and stays there fails:
# not one that Slurm is about to queue again, nor one whose shell USR1 met before
# its first line (0:10), which is queued again here.
await() { # JOB STATE
  ends=0
  while [ "$(field "$1" JobState)" != "$2" ]; do
    case $(field "$1" JobState) in
    PENDING | RUNNING | COMPLETING | REQUEUED | SUSPENDED | CONFIGURING) ends=0 ;;
    *) ends=$((ends + 1)) ;;
    esac
    if [ $ends = 10 ] && [ "$(field "$1" ExitCode)" = 0:10 ]; then
      echo "job $1: USR1 came before its first line; queued again"
      scontrol requeue "$1"; ends=0
    fi
    [ $ends -lt 60 ] || { tell_of "$1"; return 1; }
    sleep 0.5
  done
}

tell_of() { # JOB
  echo "job $1 is $(field "$1" JobState)"
  scontrol show job "$1"; cat "$work"/*-"$1".out 2> /dev/null
}
