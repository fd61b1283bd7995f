#!/bin/sh
# larger.sh - a table on a mapped file is trained by a process that may not
# have as much memory as the table takes (TIER_MIB, 512 by default, set it to
# 24576 for the size that matters): with ulimit -d, which counts private
# memory and no mapped files, and, where a memory control group can be made,
# with one that counts the file's pages, too.  kill -9 in the middle leaves a
# checkpoint that resumes, and no file.  seconds: 900
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
mib=${TIER_MIB:-512}
tier=${TIER_DIR:-$work}/tier
mkdir -p "$tier"
rows=$((mib * 4096)) # of 64 floats
cat > "$work/large.deck" <<DECK
run = { name = "large"; seed = 3; steps = 20; threads = 1; log_every = 20; tier_dir = "$tier"; };
data = { format = "synthetic"; global_batch = 512;
         synthetic = { samples = 10240; eval_samples = 100; pooling = [4]; zipf = 1.05; }; };
tables = ( { name = "large"; rows = $rows; dim = 64; features = ["f"]; kernel = "cached";
             cache = { tier = "file"; load_factor = 0.01; };
             optimizer = { kind = "sgd"; lr = 0.1; }; } );
model = { kind = "dlrm"; dense_features = 3; dense_arch = [16, 64]; over_arch = [16, 1]; };
optimizer = { kind = "sgd"; lr = 0.1; };
pipeline = { kind = "prefetch"; };
checkpoint = { dir = "none"; };
sharding = { topology = "default"; memory_gib = 64.0; };
DECK
large() { # KiB of private memory, folder, options
  limit=$1; folder=$2; shift 2
  (ulimit -d "$limit" && exec "$TESSERA" train "$work/large.deck" --quiet --set run.output="$work/$folder" "$@")
}
lacks_memory() { ! "$@" > "$work/out" 2>&1 && grep -qi 'memory' "$work/out"; }
loss_of() { losses "$1" > "$work/$2"; test -s "$work/$2"; }
private=$((${PRIVATE_MIB:-$((mib * 3 / 4))} * 1024))
fused="--set table_defaults.kernel=fused --set tables.large.kernel=fused"
check "not in fast memory" lacks_memory large $private fast $fused
check "on a file with a cache" large $private cached
check "on a file without" large $private host --set tables.large.kernel=host
check "no file is left" test -z "$(ls "$tier")"
# The same numbers as in fast memory, which this shell may have.
if [ "$mib" -le 2048 ]; then
  check "in fast memory, without the limit" large unlimited free $fused
  check "a loss" loss_of free x
  check "a loss" loss_of cached y
  check "same losses" cmp "$work/x" "$work/y"
fi
# A group that counts all pages that the run touches, the file's, too.
group=/sys/fs/cgroup/memory/tessera-test-$$
[ -d /sys/fs/cgroup/memory ] || group=/sys/fs/cgroup/tessera-test-$$
grouped() {
  sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group" "$TESSERA" train "$work/large.deck" --quiet --set run.output="$work/grouped"
}
if mkdir "$group" 2> /dev/null; then
  trap 'rmdir "$group" 2> /dev/null; rm -rf "$work"' EXIT
  if echo $((private * 1024)) > "$group/memory.limit_in_bytes" 2> /dev/null \
    || echo $((private * 1024)) > "$group/memory.max" 2> /dev/null; then
    check "in a control group with less memory than the table" grouped
  else
    echo "left out: the run in a control group: none of memory can be made"
  fi
else
  echo "left out: the run in a control group: none can be made"
fi
# Killed at any time, the next start goes on from the last checkpoint.
small="--set tables.large.rows=20000 --set checkpoint.every=2 --set checkpoint.dir=$work/killed/checkpoints --set run.steps=400"
killed() {
  "$TESSERA" train "$work/large.deck" --quiet --set run.output="$work/killed" $small > /dev/null 2>&1 &
  pid=$!
  two_saved() { [ "$(ls "$work/killed/checkpoints" | grep -c '^step-.*h5$')" -ge 2 ]; }
  until_holds $pid two_saved
  kill -9 $pid
  wait $pid 2> /dev/null
  [ -n "$(newest killed)" ]
}
check "killed after a checkpoint" killed
check "no file is left by kill -9" test -z "$(ls "$tier")"
check "goes on" large unlimited killed $small
check "a straight run" large unlimited straight $small --set checkpoint.dir="$work/straight/checkpoints" --set checkpoint.every=400
check "as if it had not been killed" same_bits "$(newest killed)" "$(newest straight)"
passed
