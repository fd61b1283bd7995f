#!/bin/sh
# report.sh - what the log of a run says: where it ran and by which words, a
# row for each phase, ranks that others wait for, binding, the figure at the
# end.  seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
log() { grep -q -- "$1" "$work/run/log"; }
begin() { rm -rf "$work/run"; train 2 run --set run.steps=30 --set checkpoint.dir=none --set run.eval_every=0 "$@"; }

TESSERA_OUTPUT=$work; export TESSERA_OUTPUT
check "a run" begin
check "its host" log "^  on $(hostname): "
check "its words" log 'train .*small.deck --quiet --set run.output='
check "its variables" log "^  TESSERA_OUTPUT=$work"
check "version, libraries, deck" test "$(grep -c '^tessera [0-9]\|^  Open MPI.*HDF5\|^  deck .*small.deck, hash [0-9a-f]\{16\}$' "$work/run/log")" = 3
check "the plan" log '^plan: predicted .*slowest / mean'
check "memory, predicted and met" log '^memory in flight'
check "a row for each phase" log '^fused backward  *[0-9.]* *[0-9.]* *[0-9.]* *[0-9.]*$'
check "samples/s in the last line" test -n "$(tail -n 1 "$work/run/log" | grep '^Performance: [0-9,.]* samples/s$')"
check "progress with the time left" log '^step .* samples/s  left '
check "nothing is out of balance" test -z "$(grep 'at work on its tables' "$work/run/log")"

# One table on one rank is all there is to do.
skewed='--set model.dense_arch=[512] --set model.over_arch=[1] --set model.dense_features=1'
sed 's/^tables.*/tables = ( { name = "a"; rows = 20000; dim = 512; features = ["fa"]; sharding = "table_wise"; },/
  s/^  *{ name = "b".*/{ name = "b"; rows = 10; dim = 512; features = ["fb"]; sharding = "table_wise"; } );/
  /name = "[cde]"/d; s/pooling = \[.*\];/pooling = [60, 1];/' "$work/small.deck" > "$work/skewed.deck"
mv "$work/skewed.deck" "$work/small.deck"
check "a run out of balance" begin $skewed --set data.global_batch=2048 --set optimizer.kind=sgd
check "says which rank, and what to do" log '^NOTE: rank [01] was at work on its tables for .* times the mean .*row_wise'

# Two ranks on one core.
command -v taskset > /dev/null || { passed; exit 0; }
check "ranks on one core" taskset -c 0 ${MPIRUN:-mpirun} -q --bind-to none -n 2 "$TESSERA" train "$work/small.deck" --quiet \
  --set run.output="$work/run" $skewed --set run.steps=2 --set checkpoint.dir=none
check "is said" log '^NOTE: rank 0 shares 1 CPUs with other ranks'
passed
