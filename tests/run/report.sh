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
check "progress with the time left" log '^step .*  epoch [0-9.]*  loss .* samples/s  00:[0-9:]*, left '
# Parts stand under their phases, and are no longer than these.
check "parts of phases" awk '
  /^time per phase/ { on = 1; next } !NF { on = 0 } !on { next }
  / of it / { n++; part += $(NF - 2) } !/ of it / { phase = $(NF - 2); part = 0 }
  part > phase + 0.002 { print; bad = 1 } END { exit bad || n < 3 }' "$work/run/log"
check "nothing is out of balance" test -z "$(grep 'at work on its tables' "$work/run/log")"

# Batches of 96: 12 ids of 8 bytes, a weight and 6 lengths of 4, 6 bags of 64;
# of table a's one row each rank sends one bag.
check "another run" begin --set data.synthetic.samples=960 --set tables.a.rows=1 --set 'data.dedup=["fa"]' --set table_defaults.sharding=table_wise
for line in 'tables: 5, 52.8 KiB; 5 table_wise' 'dense parameters: 2,417' \
  'data: synthetic, 960 samples, 3 dense and 6 sparse features' 'pooled embeddings  *30.1 KiB  *30.1 KiB  *100%' \
  'their gradients  *30.1 KiB  *30.1 KiB  *100%' 'ids  *10.9 KiB ' 'data.dedup: 96 bags a step went as 2' \
  'data.dedup: 96 ids a step went as 2, as many rows not looked up' 'trained on 2,880 samples in .* s'; do
  check "$line" log "^$line"
done
rate=$(sed -n 's/,//g; s/^Performance: \(.*\) samples.*/\1/p' "$work/run/log")
check "means of phases, shares of the run" awk -v rate="$rate" '/^time per/ { on = 1; next } on && NF < 5 { exit bad }
  on { d = $(NF - 2) - ($(NF - 3) + $(NF - 1)) / 2; e = $NF / 100 * 2880 / rate - $(NF - 2); if (d * d > 2e-6 || e * e > 4e-6) { print; bad = 1 } }' "$work/run/log"
cp "$work/run/metrics.jsonl" "$work/rows"
check "progress" holds "" '"loss" not in r or "step %8d/30  epoch %.2f  loss %.5f  NE %.4f  AUC %.4f  " % (r["step"], r["samples"] / 960, r["loss"], r["window_ne"], r["window_auc"]) in open("'"$work/run/log"'").read()'

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
