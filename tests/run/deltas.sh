#!/bin/sh
# deltas.sh - checkpoints that hold the rows that have changed: each one, with
# what it builds on, is the full checkpoint of its step, bit for bit, under every
# sharding; runs go on from them on other ranks; damaged, missing and stale
# links; weights alone; kills while deltas are written and compacted.
# seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 5; steps = 10; threads = 1; log_every = 1; };
data = { format = "synthetic"; global_batch = 40;
         synthetic = { samples = 480; eval_samples = 80; pooling = [1, 3, 2, 1, 4, 2, 1]; }; };
table_defaults = { dim = 32; };
tables = ( { name = "a"; rows = 5000; features = ["fa"]; optimizer = { kind = "rowwise_adagrad"; lr = 0.05; }; },
           { name = "b"; rows = 30000; features = ["fb", "fc"]; pooling = "mean"; optimizer = { kind = "adam"; lr = 0.01; eps = 1e-5; }; },
           { name = "c"; rows = 1310; features = ["fd"]; weighted = true; optimizer = { kind = "partial_rowwise_lamb"; lr = 0.01; eps = 1e-5; }; },
           { name = "d"; rows = 77; features = ["fe"]; dtype = "bf16"; pooling = "mean"; optimizer = { kind = "rowwise_adagrad"; lr = 0.05; }; },
           { name = "e"; rows = 3; features = ["ff"]; optimizer = { kind = "adam"; lr = 0.01; eps = 1e-5; }; },
           { name = "f"; rows = 2003; features = ["fg"]; optimizer = { kind = "lamb"; lr = 0.01; eps = 1e-5; }; } );
model = { kind = "dlrm"; dense_features = 3; dense_arch = [32, 32]; over_arch = [32, 16, 1]; };
optimizer = { kind = "adagrad"; lr = 1e-2; };
sharding = { min_column = 8; ranks_per_node = 2; topology = "default"; };
checkpoint = { every = 6; keep = 99; delta_every = 2; };
DECK
file() { echo "$work/$1/checkpoints/$2-000000$3.h5"; }
files() { (cd "$work/$1/checkpoints" && echo $(ls | grep -v '^\.')); }
whole() { "$TESSERA" inspect "$1" --verify > /dev/null; }
compact() { # RANKS RUN options
  by=$1; run=$2; shift 2
  ${MPIRUN:-mpirun} -q -n "$by" "$TESSERA" compact "$work/small.deck" --set run.output="$work/$run" "$@" > "$work/out" 2> "$work/err"
}
all_same() { same_bits "$1" "$2" && h5diff -q "$1" "$2" /metrics /metrics && whole "$2"; }
# A copy of RUN as it was after step AT: NEW.
until_step() { # RUN NEW AT
  rm -rf "$work/$2"; cp -r "$work/$1" "$work/$2"
  for path in "$work/$2"/checkpoints/*.h5; do
    at=${path##*-}; [ "$(echo "${at%.h5}" | sed 's/^0*//')" -le "$3" ] || rm "$path"
  done
}

# plan RANKS NAME options: full checkpoints, deltas, and each of those compacted
# by itself; the first is full, as there is nothing to build on.
plan() {
  n=$1; name=$2; shift 2
  check "$name: full ones" train "$n" "$name-full" --set checkpoint.delta_every=0 --set checkpoint.every=2 "$@"
  check "$name: deltas" train "$n" "$name" "$@"
  check "$name: their files" test "$(files "$name")" = "delta-00000004.h5 delta-00000008.h5 step-00000002.h5 step-00000006.h5 step-00000010.h5"
  check "$name: less than half" test "$(wc -c < "$(file "$name" delta 08)")" -lt "$(($(wc -c < "$(file "$name" step 06)") / 2))"
  until_step "$name" compacted 8
  check "$name: compacted" compact "$((n % 2 + 1))" compacted --set checkpoint.keep=1
  check "$name: it alone is there" test "$(files compacted)" = "step-00000008.h5"
  check "$name: as the full one" all_same "$(file "$name-full" step 08)" "$(file compacted step 08)"
  check "$name: nothing to compact" compact 1 compacted
  check "$name: it says so" grep -q 'nothing to compact: .*step-00000008.h5 is a full checkpoint' "$work/out"
  until_step "$name" again 8
  check "$name: going on" train "$n" again "$@"
  check "$name: from the delta" grep -q 'resumed at step 8 from .*delta-00000008.h5' "$work/again/log"
  check "$name: to the same end" all_same "$(file "$name-full" step 10)" "$(file again step 10)"
}
plan 1 alone
plan 2 rows --set table_defaults.sharding=row_wise
plan 3 columns --set table_defaults.sharding=column_wise --set checkpoint.buffer_mib=1
plan 2 copies --set table_defaults.sharding=data_parallel --set checkpoint.async=false
plan 4 grid --set table_defaults.sharding=grid --set run.accumulate=2
plan 2 dense --set table_defaults.sharding=row_wise --set tables.a.optimizer.kind=none --set tables.d.optimizer.kind=none --set tables.d.dtype=f32
cached="--set table_defaults.sharding=row_wise --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.3 --set pipeline.kind=prefetch"
plan 2 cached $cached
host=$TESSERA; TESSERA=$(dirname "$TESSERA")/tests/tessera-emulated
[ -x "$TESSERA" ] && plan 2 emulated --set run.backend=emulated --set table_defaults.sharding=row_wise
[ -x "$TESSERA" ] && plan 2 emulated-cached --set run.backend=emulated $cached
TESSERA=$host
"$TESSERA" train "$work/small.deck" --quiet --set checkpoint.io=mpio --set run.steps=1 --set run.output="$work/try" 2> /dev/null &&
  plan 2 mpio --set checkpoint.io=mpio --set table_defaults.sharding=row_wise

# On other ranks, from the delta as from the full one of its step.
other="3 --set table_defaults.sharding=column_wise"
moved() { n=$2; from=$1; shift 2; train "$n" "$from" "$@"; }
until_step rows delta3 8; until_step rows-full full3 8
check "other ranks, from a full one" moved full3 $other
check "from a delta" moved delta3 $other
check "the same bits" all_same "$(file full3 step 10)" "$(file delta3 step 10)"

# Who reads a delta has all rows of it.
scores() { "$TESSERA" predict "$work/small.deck" --quiet --set run.output="$work/$1" --out "$work/$2.csv"; }
shown() { "$TESSERA" predict "$work/small.deck" --quiet --set run.output="$work/$1" --embeddings fb --out "$work/$2.csv"; }
given() { "$TESSERA" export "$work/small.deck" --quiet --set run.output="$work/$1" --state --out "$work/$2"; }
until_step rows left 8; until_step rows-full right 8
check "scores of a delta" scores left left; check "of the full one" scores right right
check "the same scores" cmp "$work/left.csv" "$work/right.csv"
check "vectors of a delta" shown left left; check "of the full one" shown right right
check "the same vectors" cmp "$work/left.csv" "$work/right.csv"
check "export of a delta" given left left.st; check "of the full one" given right right.st
check "the same weights" cmp "$work/left.st/model.safetensors" "$work/right.st/model.safetensors"
check "the same state" cmp "$work/left.st/state.safetensors" "$work/right.st/state.safetensors"
check "weights to begin with" train 1 begun --set checkpoint.init_from="$(file left delta 08)" --set run.steps=1
check "the same of the full one" train 1 begun2 --set checkpoint.init_from="$(file right step 08)" --set run.steps=1
check "the same beginning" same_bits "$(newest begun)" "$(newest begun2)"
says_kind() { "$TESSERA" inspect "$(file left delta 08)" > "$work/out" && grep -q 'delta of step 8: rows that have changed since step 6' "$work/out"; }
check "inspect says what it is" says_kind

# Links that are broken: the newest that is whole is taken, and named.
goes_back() { # WHY: train says it of run broken, and ends as the full run does
  check "$1: goes on" train 2 broken --set table_defaults.sharding=row_wise 2> "$work/err"
  cat "$work/err" "$work/broken/log" > "$work/out"
  check "$1: it says so" grep -q "$2.*; going back to the checkpoint before: .*$3" "$work/out"
  check "$1: to the same end" all_same "$(file rows-full step 10)" "$(file broken step 10)"
}
every="--set checkpoint.every=1000 --set table_defaults.sharding=row_wise"
check "a chain of three" train 2 chain $every --set run.steps=10
check "its files" test "$(files chain)" = "delta-00000004.h5 delta-00000006.h5 delta-00000008.h5 step-00000002.h5 step-00000010.h5"
rows_of() { sed -n "s/.*\"step\":$1,.*\"checkpoint\":true.*\"rows\":\([0-9]*\).*/\1/p" "$work/chain/metrics.jsonl"; }
check "each has the rows of two steps" test "$(rows_of 8)" -lt "$(($(rows_of 4) * 3 / 2))"
check "and says so" grep -q "delta on step 6, $(rows_of 8) of 38393 rows, of step 8" "$work/chain/log"
until_step chain broken 8; rm "$(file broken delta 06)"
goes_back "a link is missing" "delta-00000008.h5: holds rows that have changed since step 6, whose checkpoint is not beside it" "delta-00000004.h5"
until_step chain broken 8
printf 'x' | dd of="$(file broken delta 06)" bs=1 seek=60000 conv=notrunc 2> /dev/null
goes_back "one is damaged" "delta-00000006.h5: .*damaged.*" "delta-00000004.h5"
until_step chain broken 8
check "another run" train 2 strange $every --set run.seed=6
cp "$(file strange delta 06)" "$(file broken delta 06)"
goes_back "a link is another's" "delta-00000008.h5: holds rows that have changed since another step 6 than that of .*delta-00000006.h5, which was written anew" "delta-00000006.h5"
until_step chain broken 8; rm "$(file broken step 02)"
check "nothing whole: 4" eval 'train 2 broken $every 2> "$work/err"; test $? = 4'
check "nothing is lost" test "$(files broken)" = "delta-00000004.h5 delta-00000006.h5 delta-00000008.h5"
# What is wrong with no delta is no reason to go back to an older one.
until_step chain held 8
in_use() { (flock 9; ! compact 2 held) 9> "$work/held/checkpoints/.compact.lock"; }
check "one at a time" in_use
check "it says so" grep -q 'something is being compacted there already' "$work/err"
check "no other is tried" test "$(files held)" = "delta-00000004.h5 delta-00000006.h5 delta-00000008.h5 step-00000002.h5" -a ! -s "$work/out"
rm "$(file held delta 06)"
check "a broken one is left out" compact 1 held
check "named" grep -q 'delta-00000008.h5: .*going back to the checkpoint before: .*delta-00000004.h5' "$work/out" "$work/err"
check "the one before is full now" test "$(files held)" = "delta-00000008.h5 step-00000002.h5 step-00000004.h5"
# A full one of the same step is what later ones build on: it stays.
until_step chain beside 8; cp "$(file rows-full step 08)" "$(file beside step 08)"
check "not compacted over a full one" eval '! compact 1 beside --checkpoint "$(file beside delta 08)"'
check "it says so" grep -q 'step-00000008.h5: is there already' "$work/err"
check "both stay" test -f "$(file beside delta 08)" -a -f "$(file beside step 08)"
# Tables in another type: none builds on the file before.
until_step rows other 8
check "other types" train 2 other --set table_defaults.sharding=row_wise --set table_defaults.dtype=bf16 --set run.steps=13 --set checkpoint.every=1000
check "a full one first" test "$(files other)" = "delta-00000004.h5 delta-00000008.h5 delta-00000012.h5 step-00000002.h5 step-00000006.h5 step-00000010.h5 step-00000013.h5"
rm "$(file other step 13)"
check "and a delta on it" train 2 other --set table_defaults.sharding=row_wise --set table_defaults.dtype=bf16 --set run.steps=13
check "that can be read" grep -q 'resumed at step 12 from .*delta-00000012.h5' "$work/other/log"
# The last one of a run is full, also where it went on from a delta of that step.
until_step rows ends 8
check "nothing left to train" train 2 ends --set table_defaults.sharding=row_wise --set run.steps=8 --set checkpoint.delta_every=0
check "a full one at the end" all_same "$(file rows-full step 08)" "$(file ends step 08)"
# No more is copied than may be.
few="--set table_defaults.sharding=row_wise --set data.global_batch=12000 --set data.synthetic.samples=60000 --set checkpoint.every=1000 --set run.steps=5"
check "room for what has changed" train 2 room $few
check "a delta" test -f "$(file room delta 04)"
check "little room" train 2 tight $few --set checkpoint.buffer_mib=1
check "full ones in their place" test "$(files tight)" = "step-00000002.h5 step-00000004.h5 step-00000005.h5"
check "little room for weights" train 2 tight2 $few --set checkpoint.buffer_mib=1 --set checkpoint.delta_state=false
check "full ones, with state" all_same "$(file tight step 04)" "$(file tight2 step 04)"
check "the same in the end" all_same "$(file room step 05)" "$(file tight step 05)"
# Compacted in the midst: the next delta builds on the full one that took its place.
until_step chain midst 8; mv "$(file midst delta 08)" "$work/later.h5"
check "compacted before the next" compact 2 midst
mv "$work/later.h5" "$(file midst delta 08)"
check "as if it were there" compact 1 midst
check "both steps" test "$(files midst)" = "step-00000002.h5 step-00000006.h5 step-00000008.h5"
check "the same bits" all_same "$(file rows-full step 08)" "$(file midst step 08)"

# Weights alone: for who reads them; a run goes on from the full one.
check "weights alone" train 2 bare --set table_defaults.sharding=row_wise --set checkpoint.delta_state=false
check "their names" test "$(files bare)" = "step-00000002.h5 step-00000006.h5 step-00000010.h5 weights-00000004.h5 weights-00000008.h5"
bare() { "$TESSERA" predict "$work/small.deck" --quiet --set run.output="$work/bare" --checkpoint "$(file bare weights 08)" --out "$work/bare.csv"; }
check "scores of them" bare
scores right right
check "the same scores" cmp "$work/bare.csv" "$work/right.csv"
until_step bare stopped 8
check "going on" train 2 stopped --set table_defaults.sharding=row_wise --set checkpoint.delta_state=false
check "from the full one" grep -q 'resumed at step 6 from .*step-00000006.h5' "$work/stopped/log"
# A stop is gone on from, so it is no file of weights alone.
train 2 halted --set run.steps=100000 --set run.log_every=1000 --set checkpoint.every=1000000 --set checkpoint.delta_state=false --set comm.delay.latency_us=2000 > /dev/null 2>&1 & pid=$!
until_holds $pid test -f "$work/halted/checkpoints/weights-00000004.h5"
pkill -TERM -f "^$TESSERA train $work/small.deck --quiet --set run.output=$work/halted "; wait $pid
at=$(sed -n 's/^stopped at step \([0-9]*\) .*/\1/p' "$work/halted/log")
check "the same line goes on" train 2 halted --set run.steps=$((at + 2)) --set checkpoint.every=1000000 --set checkpoint.delta_state=false
check "from there" grep -q "resumed at step $at from .*step-" "$work/halted/log"
check "no full one of weights" eval '! compact 1 bare --checkpoint "$(file bare weights 08)"'
check "it says why" grep -q 'holds no optimizers. state' "$work/err"

check "no means without state" eval '! train 1 means --set checkpoint.delta_state=false --set optimizer.ema=0.9 2> "$work/err"'
check "it says why" grep -q 'delta_state = false leaves out running means' "$work/err"

# The mirror has what deltas build on, or has no deltas.
second="--set checkpoint.mirror=$work/second --set table_defaults.sharding=row_wise"
check "with a mirror" train 2 main $second
check "all are in it" test "$(echo $(ls "$work/second"))" = "$(files main)"
rm -r "$work/main/checkpoints" "$work/second/step-00000010.h5"
check "from the mirror" train 2 main $second
check "it says so" grep -q 'second/delta-00000008.h5 is taken from the mirror' "$work/main/log"
check "to the same end" all_same "$(file rows-full step 10)" "$(file main step 10)"
until_step rows follow 8; rm -rf "$work/second"
check "a mirror that has nothing" train 2 follow $second --set run.steps=14 --set checkpoint.every=1000
check "gets a full one first" test "$(echo $(ls "$work/second"))" = "delta-00000012.h5 step-00000010.h5 step-00000014.h5"
rm "$work/second/step-00000014.h5" "$(file follow step 14)"
check "one that has the same" train 2 follow $second --set run.steps=17 --set checkpoint.every=1000
check "goes on with it" test "$(echo $(ls "$work/second"))" = "delta-00000012.h5 delta-00000014.h5 delta-00000016.h5 step-00000010.h5 step-00000017.h5"
few="--set checkpoint.mirror=$work/third --set checkpoint.mirror_every=2 --set table_defaults.sharding=row_wise"
check "every second full one" train 2 few $few
check "with its deltas" test "$(echo $(ls "$work/third"))" = "delta-00000008.h5 step-00000006.h5 step-00000010.h5"

# Old ones go with what they build on.
check "keeping one" train 2 one --set checkpoint.keep=1 --set table_defaults.sharding=row_wise --set run.steps=9
check "and its deltas" test "$(files one)" = "step-00000009.h5"
until_step rows aside 4; cp "$(file bare weights 04)" "$work/aside/checkpoints"
check "a new start" train 2 aside --set checkpoint.resume=never --set run.steps=1
check "sets them aside" test "$(files aside)" = "delta-00000004.h5.old step-00000001.h5 step-00000002.h5.old weights-00000004.h5.old"

# Killed at any moment, training and compaction; nothing that had its name is
# lost: each start goes on from where the one before was, or from later.
long="--set run.steps=50 --set checkpoint.every=17 --set checkpoint.keep=2 --set table_defaults.sharding=row_wise"
newest_point() { ls "$work/killed/checkpoints" | sed -n 's/^\(step\|delta\)-0*\([0-9]*\).h5$/\2/p' | sort -n | tail -n 1; }
resumed() { sed -n 's/^resumed at step \([0-9]*\).*/\1/p' "$work/killed/log" | tail -n 1; }
k=0 kills=6; [ "${TESSERA_SWEEP:-}" != long ] || kills=60 long="$long --set run.steps=400"
check "straight run" train 2 straight $long
while [ $k -lt $kills ]; do
  k=$((k + 1)); had=$(newest_point 2> /dev/null)
  train 2 killed $long --set comm.delay.latency_us=10000 > /dev/null 2>&1 & pid=$!
  until_holds $pid eval '[ "$(newest_point)" != "$had" ] && [ -n "$(newest_point)" ]'
  (for again in 1 2 3; do compact 1 killed --set checkpoint.keep=2; sleep 0.$((k % 3)); done) & other=$!
  sleep 0.$((k * 7 % 10))
  pkill -9 -f "set run.output=$work/killed "
  wait $pid 2> /dev/null; kill -9 $other 2> /dev/null; wait $other 2> /dev/null
  pkill -9 -f "set run.output=$work/killed "
  [ -z "$had" ] || check "kill $k: from the newest" test "$(resumed)" -ge "$had"
done
compact 2 killed --set checkpoint.keep=2
check "compacted at the end, or full already" test $? = 0
check "no halves" test -z "$(ls -A "$work/killed/checkpoints" | grep compact.*part)"
check "the same line goes on" train 2 killed $long
check "to the same end" all_same "$(newest straight)" "$(newest killed)"
check "nothing half-written" test -z "$(ls -A "$work/killed/checkpoints" | grep part)"
passed
