#!/bin/sh
# trace_overlap.sh - traces of real runs: every span has its batch's number,
# and what a pipeline hides is hidden; with serial lanes the same checks fail.
# The network is slowed so that there is something to hide.  seconds: 400
. "$srcdir/tests/support/common.sh"
not_sanitized
judge=$(dirname "$TESSERA")/tests/runtime/trace_check
cat > "$work/wide.deck" <<'DECK'
run = { name = "overlap"; seed = 3; steps = 19; threads = 1; };
data = { format = "synthetic"; global_batch = 4096; drop_last = true;
         synthetic = { samples = 77824; eval_samples = 4096; pooling = 1; }; };
tables = ( { name = "t{0..7}"; rows = 5000; dim = 16; features = ["f{0..7}"]; sharding = "table_wise"; } );
model = { kind = "dlrm"; dense_features = 8; dense_arch = [512, 512, 512, 16]; over_arch = [64, 1]; };
optimizer = { kind = "adam"; lr = 1e-3; in_backward = false; };
pipeline = { start_batch = 0; lookup = "after_optimizer"; };
comm = { delay = { latency_us = 200.0; gbytes_per_s = 1.0; }; };
checkpoint = { dir = "none"; };
DECK
sed 's/4096/64/; s/512, 512, 512/32/; s/samples = 77824/samples = 1280/' "$work/wide.deck" > "$work/narrow.deck"
# run NAME RANKS DECK PIPELINE [options]: a trace in $work/NAME.json.
run() {
  name=$1; ranks=$2; deck=$3; kind=$4; shift 4
  ${MPIRUN:-mpirun} -q -n "$ranks" "$TESSERA" train "$work/$deck.deck" --quiet --trace "$work/$name.json" --trace-steps 2:16 \
    --set run.output="$work/$name" --set pipeline.kind="$kind" "$@"
}
quiet() { "$@" > "$work/said" || { cat "$work/said"; return 1; }; }
fails() { ! "$@" > "$work/failed" && grep -q FAILED "$work/failed"; }

# Whose data: bytes of output dist are known, 64 samples x 8 tables x 16
# floats, and of n ranks each sends what is not its own.
for kind in base sparse_dist fused_sparse_dist semi_sync prefetch; do
  check "$kind: run" run "$kind" 2 narrow "$kind"
  check "$kind: whose data" quiet "$judge" batches "$work/$kind.json" 16384
done
check "own lane: run" run own 2 narrow fused_sparse_dist --set pipeline.lookup_lane=own --set pipeline.lookup=after_optimizer
check "own lane: whose data" quiet "$judge" batches "$work/own.json" 16384
check "no part is left" test -z "$(ls "$work" | grep part)"
# Wrong numbers, bytes and clocks are found.
spoil() { # pattern of lines, awk code
  awk "/$1/ { $2 } { print }" "$work/base.json" > "$work/bad.json"
  check "spoilt: $1, $2" fails "$judge" batches "$work/bad.json" 16384
}
more='n = match($0, /"batch":/) + 8; sub(/"batch":[0-9]+/, "\"batch\":" substr($0, n) + 1)'
for stage in lookup "input pack" "dense optimizer" "fused backward"; do spoil "\"$stage\"" "$more"; done
spoil '"output dist"' 'sub(/"bytes":/, "\"bytes\":1")'
spoil '"pid":1' 'n = match($0, /"ts":/) + 5; sub(/"ts":[0-9.]+/, "\"ts\":" substr($0, n) + 1e6)'
spoil '"loss"' 'sub(/,"batch":[0-9]+/, "")'

# What is hidden.  The machine may be busy: one of five runs has to show it.
for kind in sparse_dist fused_sparse_dist semi_sync; do
  for try in 1 2 3 4 5; do
    check "$kind: run" run wide 2 wide "$kind"
    "$judge" $kind "$work/wide.json" && break
  done
  check "$kind hides" "$judge" $kind "$work/wide.json"
  check "$kind, serial: run" run serial 2 wide "$kind" --set run.lanes=serial
  check "$kind, serial, hides nothing" fails "$judge" $kind "$work/serial.json"
done
# By default each sharding type is looked up behind its own tables' update:
# half of the tables are weighted, which is a type of its own.  Rows of slow
# memory come beside the step, too.
sed 's/t{0..7}/t{0..3}/; s/f{0..7}/f{0..3}/; s/"table_wise"; } );/"table_wise"; },/; s/^pipeline = .*//
/^tables/a { name = "w{0..3}"; rows = 5000; dim = 16; features = ["w{0..3}"]; weighted = true; sharding = "table_wise"; } );' "$work/wide.deck" > "$work/weighted.deck"
judged() { # judge, pipeline, options of what the judge refuses, those of the run
  rule=$1; kind=$2; not=$3; shift 3
  for try in 1 2 3 4 5; do
    check "$rule: run" run wide 2 weighted "$kind" "$@"
    "$judge" "$rule" "$work/wide.json" && break
  done
  check "$rule" "$judge" "$rule" "$work/wide.json"
  for set in $not; do
    check "not $set: run" run not 2 weighted "$kind" "$@" --set "$set"
    check "$rule, not with $set" fails "$judge" "$rule" "$work/not.json"
  done
}
judged each_lookup fused_sparse_dist pipeline.lookup=after_optimizer
judged prefetch prefetch run.lanes=serial --set data.synthetic.pooling=20 --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.2

# Nor does base hide what another pipeline does.
check "base: run" run wide 2 wide base
for kind in sparse_dist semi_sync; do check "base is not $kind" fails "$judge" $kind "$work/wide.json"; done

# Dense gradients under the backward pass, and optimizers in it.
small="--set dense.bucket_mb=0.01 --set optimizer.in_backward"
for try in 1 2 3 4 5; do
  check "dense: run" run wide 2 wide base $small=true
  "$judge" ddp "$work/wide.json" && "$judge" in_backward "$work/wide.json" && break
done
check "reductions are hidden" "$judge" ddp "$work/wide.json"
check "updates in backward" "$judge" in_backward "$work/wide.json"
check "one rank: run" run one 1 wide base --set optimizer.in_backward=true
check "one rank: updates in backward" "$judge" in_backward "$work/one.json"
check "separate: run" run separate 2 wide base $small=false
check "separate: no update in backward" fails "$judge" in_backward "$work/separate.json"
check "one bucket: run" run bucket 2 wide base --set optimizer.in_backward=true
check "one bucket: nothing is hidden" fails "$judge" in_backward "$work/bucket.json"

# The commands.
"$TESSERA" trace summary "$work/base.json" > "$work/summary"
check "summary: compute is exposed" grep -Eq '^lookup +compute +28 +[0-9.]+ +0\.000 ' "$work/summary"
check "summary: bytes" grep -Eq '^output dist, forward +comm +28 +224.0 KiB ' "$work/summary"
check "summary: parts" awk '/ (comm|data|compute) / && ($(NF - 5) - $(NF - 4) - $(NF - 3)) ^ 2 > 1e-5 { exit 1 }' "$work/summary"
check "plot" "$TESSERA" trace plot "$work/base.json" -o "$work/plot.svg" --steps 5:7 --rank 1
if command -v xmllint > /dev/null; then check "the drawing is XML" xmllint --noout "$work/plot.svg"; fi
for text in '>lookup<' '<title>input dist, batch 6, ' '<title>lookup, batch 6, ' '>5</text>' '</svg>'; do
  check "plot has $text" grep -qF "$text" "$work/plot.svg"
done
check "plot: one rank, two batches" test "$(grep -c '<title>lookup' "$work/plot.svg")" = 2
message() { # text, command...
  text=$1; shift
  "$@" > "$work/out" 2>&1; rc=$?
  [ $rc != 0 ] && grep -qF -- "$text" "$work/out"
}
check "no trace" message 'deck:1: this is no trace of tessera' "$TESSERA" trace summary "$work/wide.deck"
check "no file" message 'No such file' "$TESSERA" trace summary "$work/none.json"
check "no batches" message 'no spans of batches 90 to 91' "$TESSERA" trace plot "$work/base.json" -o "$work/x.svg" --steps 90:92
check "no rank" message 'has ranks 0 to 1' "$TESSERA" trace plot "$work/base.json" -o "$work/x.svg" --rank 2
check "no range" message '--steps 7:7 is not A:B' "$TESSERA" trace plot "$work/base.json" -o "$work/x.svg" --steps 7:7
check "no such folder" message 'No such file' train 2 lost --trace "$work/nowhere/x.json"
check "usage" message 'usage: tessera trace' "$TESSERA" trace plot "$work/base.json"

# The deck's key: the whole run; three ranks; --trace alone: ten batches.
check "run.trace" train 3 whole --set run.trace=all.json --set run.steps=8
check "whole run, all ranks" awk '/"name":"loss".*"batch":/ { n++ } END { exit n != 3 * (8 + 4) }' "$work/whole/all.json"
check "evaluation is told apart" grep -q '"name":"loss".*"evaluation"' "$work/whole/all.json"
check "memory" grep -q '"name":"memory in flight (MB)".*"activations":[0-9.]*,"communication":' "$work/whole/all.json"
check "default: run" train 1 ten --trace "$work/ten.json"
check "default: ten batches" awk '/"name":"loss"/ { n++ } END { exit n != 10 }' "$work/ten.json"
"$TESSERA" train "$work/small.deck" --set run.output="$work/few" --set run.steps=5 --trace "$work/few.json" > "$work/out"
check "an empty trace is said" grep -q 'few.json is empty' "$work/out"
check "bench step" "$TESSERA" bench step "$work/narrow.deck" iters=24 --quiet --trace "$work/bench.json"
check "bench step: ten batches" awk '/"name":"loss"/ { n++ } END { exit n != 10 }' "$work/bench.json"
passed
