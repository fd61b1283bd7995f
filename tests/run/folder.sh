#!/bin/sh
# folder.sh - a run and its folders: a second run is refused, a lock dies with
# its process, planted links are not followed, a folder that can't be written to
# is met at the start.  seconds: 300
. "$srcdir/tests/support/common.sh"
command -v pgrep > /dev/null || { echo "pgrep (procps) is not here"; exit 77; }
chmod 755 "$work"; chmod 644 "$work/small.deck"
# refused CODE PATTERN options: at the start, with one message.
refused() {
  want=$1; pattern=$2; shift 2
  timeout -k 5 300 $as "$TESSERA" train "$work/small.deck" --quiet "$@" > "$work/out" 2> "$work/err"; code=$?
  [ $code = "$want" ] || cat "$work/err"
  check "$*: code $want, not $code" test $code = "$want"
  check "$*: one message" test "$(grep -c 'tessera: error' "$work/err")" = 1
  check "$*: $pattern" grep -q "tessera: error: .*$pattern" "$work/err"
  check "$*: nothing was trained" test -z "$(grep '^step' "$work/err" "$work/out")"
}
as=

# Two runs at once: on one output folder, on one folder of checkpoints.
train 2 run --set run.steps=1000000 --set run.log_every=1000 --set checkpoint.every=10 --set checkpoint.mirror="$work/second" > "$work/first" 2>&1 & pid=$!
check "the first run trains" until_holds $pid saved run
refused 2 'run is in use by another run; give this one its own run.output' --set run.output="$work/run"
refused 2 'checkpoints is in use by another run; give this one its own checkpoint.dir' --set run.output="$work/other" --set checkpoint.dir="$work/run/checkpoints"
refused 2 'second is in use by another run; give this one its own checkpoint.mirror' --set run.output="$work/other" --set checkpoint.mirror="$work/second"
# A dry run writes nothing there, and needs no folder.
cp "$work/run/plan" "$work/plan.before"
check "a dry run beside a run" "$TESSERA" train "$work/small.deck" --check --set run.output="$work/run" > "$work/out"
check "the plan is the run's" cmp -s "$work/run/plan" "$work/plan.before"
check "a dry run of a new one" "$TESSERA" train "$work/small.deck" --check --set run.output="$work/fresh" > "$work/out"
check "which has no folder" test ! -e "$work/fresh"
mkdir -p "$work/itself/checkpoints"; ln -s itself/checkpoints "$work/twice"
refused 2 'twice is checkpoint.dir, which can.t be its own mirror' --set run.output="$work/itself" --set checkpoint.mirror="$work/twice"
# All ranks die at once: nothing is locked any more.
kill -9 $(pgrep -P "$(pgrep -P $pid | head -n 1)") 2> /dev/null
kill -9 $(pgrep -P $pid) 2> /dev/null
wait $pid; code=$?
check "killed, not $code" test $code = 137
step=$(newest run); step=${step##*step-}; step=$(expr "${step%.h5}" + 0)
check "the same line goes on" train 2 run --set run.steps=$((step + 10))
check "from its checkpoint" grep -q "^resumed at step $step " "$work/run/log"

# A node was lost, and its lock outlives it for a while.
if command -v flock > /dev/null; then
  mkdir -p "$work/held"
  flock "$work/held/lock" sleep 4 & pid=$!
  for i in $(seq 1 100); do flock -n "$work/held/lock" true || break; sleep 0.05; done
  refused 2 'held is in use by another run' --set run.output="$work/held"
  env SLURM_RESTART_COUNT=1 "$TESSERA" train "$work/small.deck" --set run.output="$work/held" --set run.steps=2 > "$work/out" 2>&1; code=$?
  check "queued again: it waits for the lock, code $code" test $code = 0
  check "and says so" grep -q 'held is locked; .*waiting' "$work/out"
  wait $pid
fi
# A file system without locks.
if [ -z "${TESSERA_SANITIZED:-}" ] && echo '#include <errno.h>
  int flock(int fd, int how) { (void)fd, (void)how; errno = ENOSYS; return -1; }' |
  ${CC:-cc} -shared -fPIC -x c - -o "$work/none.so" 2> /dev/null; then
  check "no locks" env LD_PRELOAD="$work/none.so" "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/none" --set run.steps=2
  check "a note" test "$(grep -c 'has no locks' "$work/none/log")" = 1
fi

# Links at the names of the run's files.
echo secret > "$work/secret"
for name in lock log metrics.jsonl deck.effective plan; do
  mkdir -p "$work/$name.run"
  ln -s "$work/secret" "$work/$name.run/$name"
  set="--set run.output=$work/$name.run --set run.steps=2"
  if [ $name = plan ]; then
    check "$name" "$TESSERA" train "$work/small.deck" --quiet $set
  else
    refused 1 "$name: is a symbolic link, which is not followed" $set
  fi
  check "$name: what the link led to is untouched" test "$(cat "$work/secret")" = secret
done
ln -s "$work/secret" "$work/p.h5.part"; ln -s "$work/secret" "$work/p.h5"
check "predictions" "$TESSERA" predict "$work/small.deck" --quiet --set run.output="$work/run" --out "$work/p.h5"
check "a new file in the place of a link" test ! -L "$work/p.h5" -a -s "$work/p.h5"
check "generated" "$TESSERA" generate "$work/small.deck" eval --quiet --set run.output="$work/run" --out "$work/d.h5"
check "what the links led to is untouched" test "$(cat "$work/secret")" = secret

# As somebody who may not write there.
mkdir -p "$work/closed" "$work/open"
chmod 555 "$work/closed"; chmod 777 "$work/open"
if [ "$(id -u)" = 0 ]; then
  as="setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$work/open TMPDIR=$work/open"
  $as "$TESSERA" version > "$work/out" 2>&1 || { echo "who may write everywhere can't show what is refused, and setpriv does not help here"; exit 77; }
fi
refused 1 'closed/run can.t be made: Permission denied' --set run.output="$work/closed/run"
refused 1 'closed/lock: Permission denied' --set run.output="$work/closed"
refused 4 'checkpoint.dir: .*closed: Permission denied' --set run.output="$work/open/run" --set checkpoint.dir="$work/closed"
refused 4 'closed/c can.t be made: Permission denied' --set run.output="$work/open/run" --set checkpoint.dir="$work/closed/c"
passed
