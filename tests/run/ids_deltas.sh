#!/bin/sh
# ids_deltas.sh - deltas of dynamic tables, whose ids come and go all the time:
# each one, with what it builds on, is the full checkpoint of its step, bit for
# bit; runs go on from them on other ranks, in less room; who reads a
# checkpoint; weights alone; links that are broken, stale or no good.
# seconds: 200
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
. "$srcdir/tests/support/ids.sh"
cat > "$work/chain.deck" <<'DECK'
run = { steps = 24; log_every = 1; threads = 1; };
data = { train = "data.h5"; format = "dataset"; global_batch = 64; };
table_defaults = { dim = 16; rows = "dynamic"; admit = { min_count = 2; window_steps = 7; };
                   evict = { kind = "lfu"; every = 3; keep = 0.25; }; };
tables = ( { name = "a"; capacity = 1600; features = ["fa"]; dtype = "bf16"; },
  { name = "b"; capacity = 2500; features = ["fb", "fc"]; pooling = "mean";
    optimizer = { kind = "adam"; }; admit = { min_count = 1; window_steps = 0; }; },
  { name = "c"; capacity = 1400; features = ["fd"]; weighted = true;
    evict = { kind = "lru"; every = 4; keep = 0.2; }; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [16, 16]; over_arch = [16, 1]; };
checkpoint = { every = 12; keep = 99; delta_every = 2; };
sharding = { topology = "default"; };
DECK
go() { n=$1; folder=$2; shift 2; run "$n" train "$work/chain.deck" --quiet --set run.output="$work/$folder" "$@"; }
file() { echo "$work/$1/checkpoints/$2-000000$3.h5"; }
files() { (cd "$work/$1/checkpoints" && echo $(ls | grep -v '^\.')); }
compact() { # RANKS RUN options
  by=$1; run=$2; shift 2
  ${MPIRUN:-mpirun} -q -n "$by" "$TESSERA" compact "$work/chain.deck" --set run.output="$work/$run" "$@" > "$work/out" 2> "$work/err"
}
all_same() { # all that the tables are, and the rest of the model
  for path in /model /optim /dynamic /meta/dynamic /metrics; do h5diff -q "$1" "$2" $path $path || return 1; done
  "$TESSERA" inspect "$2" --verify > /dev/null
}
# A copy of RUN as it was after step AT: NEW.
until_step() { # RUN NEW AT
  rm -rf "$work/$2"; cp -r "$work/$1" "$work/$2"
  for path in "$work/$2"/checkpoints/*.h5; do
    of=${path##*-}; [ "$(echo "${of%.h5}" | sed 's/^0*//')" -le "$3" ] || rm "$path"
  done
}
check "data" ids_data

# ---- each delta is the full checkpoint of its step ---------------------------
chain() { # RANKS NAME options
  n=$1; name=$2; shift 2
  check "$name: full ones" go "$n" "$name-full" --set checkpoint.delta_every=0 --set checkpoint.every=2 "$@"
  check "$name: deltas" go "$n" "$name" "$@"
  for at in 04 06 10 14 22; do
    until_step "$name" compacted "$(echo $at | sed 's/^0//')"
    check "$name: step $at compacted" compact "$((n % 3 + 1))" compacted
    check "$name: step $at, as the full one" all_same "$(file "$name-full" step $at)" "$(file compacted step $at)"
  done
  check "$name: to the same end" all_same "$(file "$name-full" step 24)" "$(file "$name" step 24)"
}
chain 1 one
chain 2 two --set pipeline.kind=prefetch
chain 3 lru --set table_defaults.evict.kind=lru --set table_defaults.evict.every=1 --set pipeline.kind=fused_sparse_dist
chain 2 ttl --set table_defaults.evict.kind=ttl --set table_defaults.evict.ttl=2 --set tables.c.evict.kind=ttl --set tables.c.evict.ttl=3 --set table_defaults.sharding=table_wise --set checkpoint.async=false
chain 2 none --set table_defaults.evict.kind=none --set tables.c.evict.kind=none --set tables.a.capacity=4000 --set tables.b.capacity=3000 --set tables.c.capacity=2000 --set run.accumulate=2
"$TESSERA" train "$work/chain.deck" --quiet --set checkpoint.io=mpio --set run.steps=1 --set run.output="$work/try" 2> /dev/null &&
  chain 2 mpio --set checkpoint.io=mpio

# ---- compacted beside the steps ----------------------------------------------
n=0
go 2 beside --set pipeline.kind=prefetch --set comm.delay.latency_us=3000 > "$work/said" 2>&1 & pid=$!
while kill -0 $pid 2> /dev/null; do
  compact 1 beside && grep -q 'are a full checkpoint now' "$work/out" && n=$((n + 1))
done
wait $pid; code=$?
[ $code = 0 ] || cat "$work/said"
check "the run ends well" test $code = 0
check "deltas were compacted meanwhile: $n" test $n -ge 1
check "compacted beside the steps: the same end" all_same "$(file two-full step 24)" "$(file beside step 24)"

# ---- on other ranks, and in less room ----------------------------------------
for at in 10 22; do
  for n in 1 2 4; do
    until_step two delta$n $at; until_step two-full full$n $at
    check "from step $at, a delta, on $n ranks" go $n delta$n
    check "from step $at, a full one, on $n ranks" go $n full$n
    check "the newest was taken" grep -q "resumed at step $at from .*delta-000000$at.h5" "$work/delta$n/log"
    check "from step $at, on $n ranks: the same bits" all_same "$(file full$n step 24)" "$(file delta$n step 24)"
  done
  check "from step $at: as the run left alone" all_same "$(file two-full step 24)" "$(file delta2 step 24)"
done
# Those that went because of it may come again, and are others then.
less="--set tables.a.capacity=380 --set tables.b.capacity=600 --set tables.c.capacity=260 --set pipeline.kind=base --set table_defaults.evict.every=1 --set tables.c.evict.every=1 --set table_defaults.evict.keep=0.1 --set checkpoint.every=1000 --set run.steps=18"
until_step two delta 10; until_step two-full full 10
check "less room than a delta's ids take" go 3 delta $less
check "than a full one's" go 3 full $less
check "less room: the same bits" all_same "$(file full step 18)" "$(file delta step 18)"
check "deltas go on" test -f "$(file delta delta 12)" -a -f "$(file delta delta 14)"
check "full ones of that" go 3 full $less --set checkpoint.delta_every=0 --set checkpoint.every=2 --set checkpoint.resume=never --set run.steps=1
until_step two full2 10
check "full ones of less room" go 3 full2 $less --set checkpoint.delta_every=0 --set checkpoint.every=2
until_step delta compacted 16
check "deltas of less room compacted" compact 2 compacted
check "as the full one of that step" all_same "$(file full2 step 16)" "$(file compacted step 16)"

# ---- who reads a checkpoint has all rows of it -------------------------------
of() { run=$1; command=$2; shift 2; "$TESSERA" "$command" "$work/chain.deck" --quiet --set run.output="$work/$run" "$@" > "$work/out" 2>&1 || { cat "$work/out"; return 1; }; }
until_step two right 22
check "compacted" compact 1 right
for side in left right; do
  from=$(file two delta 22); [ $side = left ] || from=$(file right step 22)
  check "$side: scores" of two predict --data "$work/data.h5" --checkpoint "$from" --out "$work/$side.csv"
  check "$side: vectors" of two predict --embeddings fb --checkpoint "$from" --out "$work/$side.fb.csv"
  check "$side: export" of two export --state --checkpoint "$from" --out "$work/$side.st"
  check "$side: to serve" of two export --format serve --tables int8 --checkpoint "$from" --out "$work/$side.tsr"
  for table in b c; do "$TESSERA" inspect "$from" --table $table --top 40; done > "$work/$side.top"
  check "$side: begun" go 2 begun$side --set checkpoint.init_from="$from" --set run.steps=1
done
for what in csv fb.csv tsr top st/model.safetensors st/state.safetensors; do
  check "the same $what" cmp "$work/left.$what" "$work/right.$what"
done
check "the same beginning" all_same "$(newest begunleft)" "$(newest begunright)"
check "as many ids as rows to look at" test "$(wc -l < "$work/left.top")" = 82
check "a file to serve" of two export --format serve --checkpoint "$(file two step 12)" --out "$work/base.tsr"
check "a delta to it" of two export --format serve --checkpoint "$(file two delta 14)" --base "$work/base.tsr" --out "$work/some.tsr"
until_step two right 14
check "compacted" compact 1 right
check "the same of the full one" of two export --format serve --checkpoint "$(file right step 14)" --base "$work/base.tsr" --out "$work/other.tsr"
check "the same bytes" cmp "$work/some.tsr" "$work/other.tsr"
says() { grep -q "delta on step $2, [0-9]* of [0-9]* rows, of step $3" "$work/$1/log"; }
check "the log says what it has" says two 12 14
rows_of() { sed -n "s/.*\"step\":14,.*\"checkpoint\":true.*\"rows\":\([0-9]*\).*/\1/p" "$work/two/metrics.jsonl"; }
ids_of() { "$TESSERA" inspect "$(file two delta 14)" | awk '/^ids of table/ { n += $NF } END { print n }'; }
check "fewer rows ($(rows_of)) than ids ($(ids_of))" test "$(rows_of)" -lt "$(ids_of)"

# Weights alone.
check "weights alone" go 2 bare --set checkpoint.delta_state=false
check "scores of them" of bare predict --data "$work/data.h5" --checkpoint "$(file bare weights 22)" --out "$work/bare.csv"
check "the same scores" cmp "$work/bare.csv" "$work/right.csv"
until_step bare stopped 22
check "going on from the full one" go 2 stopped --set checkpoint.delta_state=false
check "it says so" grep -q 'resumed at step 12 from .*step-00000012.h5' "$work/stopped/log"
check "to the same end" all_same "$(file two-full step 24)" "$(file stopped step 24)"

# ---- links that are broken ---------------------------------------------------
goes_back() { # WHAT PATTERN LAST: train says it of run broken, and ends as the full run does
  check "$1: goes on" go 2 broken 2> "$work/err"
  cat "$work/err" "$work/broken/log" > "$work/out"
  check "$1: it says so" grep -q "$2.*; going back to the checkpoint before: .*$3" "$work/out"
  check "$1: to the same end" all_same "$(file two-full step 24)" "$(file broken step 24)"
}
for link in 14 16 18; do
  before=delta-000000$((link - 2)).h5; [ $link != 14 ] || before=step-00000012.h5
  until_step two broken 20; rm "$(file broken delta $link)"
  goes_back "link $link is missing" "holds rows that have changed since step $link, whose checkpoint is not beside it" "$before"
  until_step two broken 20
  printf 'x' | dd of="$(file broken delta $link)" bs=1 seek=70000 conv=notrunc 2> /dev/null
  goes_back "link $link is damaged" "delta-000000$link.h5: .*damaged.*" "$before"
done
until_step two broken 20; rm "$(file broken step 12)"
goes_back "the full one is missing" "holds rows that have changed since step 12, whose checkpoint is not beside it" "delta-00000010.h5"
check "another run" go 2 strange --set run.seed=6 --set run.steps=17
until_step two broken 20; cp "$(file strange delta 16)" "$(file broken delta 16)"
goes_back "a stale link" "delta-00000018.h5: holds rows that have changed since another step 16 than that of .*delta-00000016.h5, which was written anew" "delta-00000018.h5"
check "down to the last whole one" grep -q "resumed at step 14 from .*delta-00000014.h5" "$work/broken/log"
fails() { # CODE PATTERN command...
  want=$1; pattern=$2; shift 2
  "$@" > "$work/out" 2> "$work/err"; code=$?
  check "code $want for $pattern, not $code" test $code = "$want"
  check "$pattern is said" grep -q -e "$pattern" "$work/err"
}
until_step two broken 20; cp "$(file strange delta 16)" "$(file broken delta 16)"
fails 4 'written anew' "$TESSERA" predict "$work/chain.deck" --set run.output="$work/broken" --checkpoint "$(file broken delta 20)" --out "$work/x.csv"

# ---- deltas that are no good -------------------------------------------------
# EDIT of the delta of step 20, with neither seal nor checksums.
[ -n "$python" ] || { echo "no damaged ones: python3 with h5py and numpy is not here"; passed; }
edit() {
  $python - "$1" "$2" <<'PY'
import sys
import h5py
import numpy as np
def turn(x, a, b):
    x = (x ^ x >> 33) * a % 2**64
    x = (x ^ x >> 33) * b % 2**64
    return x ^ x >> 33
# The id whose key comes right after that of id X.
def after(x):
    key = (turn(int(x) % 2**64, 0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53) + 1) % 2**64
    x = turn(key, 0x9cb4b2f8129337db, 0x4f74430c22a54005)
    return x - 2**64 if x >> 63 else x
name = "sparse_arch.embedding_bag_collection.embedding_bags.b.weight"
with h5py.File(sys.argv[1], "r+") as f:
    f.attrs.pop("sealed", None)
    del f["check"]
    rows, ids = "delta/rows/" + name, "dynamic/b/ids"
    def put(path, x):
        del f[path]
        f[path] = x
    m, n = len(f[rows]), len(f[ids])
    exec({"reversed": "put(rows, f[rows][:][::-1])",
          "twice": "x = f[rows][:]; x[1] = x[0]; put(rows, x)",
          "short": "put(rows, f[rows][:-1])",
          "none": "put(rows, f[rows][:0]); put('model/' + name, f['model/' + name][:0]); [put('optim/' + name + '/' + s, f['optim/' + name + '/' + s][:0]) for s in list(f['optim/' + name])]",
          "numbers": "put(rows, f[rows][:].astype('f4'))",
          "wide": "put(rows, f[rows][:].reshape(-1, 1))",
          "unknown": "x = f[ids][:]; x[n // 2] += 1; put(ids, x)",
          "stranger": "x = f[ids][:]; x[n // 2] = after(x[n // 2]); put(ids, x)",
          "swapped": "x = f[ids][:]; x[[3, 4]] = x[[4, 3]]; put(ids, x)",
          "fewer": "put(ids, f[ids][:-1])",
          "more": "put(ids, np.append(f[ids][:], 5))",
          "gone": "del f[ids]",
          "texts": "put(ids, f[ids][:].astype('f8'))",
          "seen": "x = f['dynamic/b/seen'][:]; x[0] = -1; put('dynamic/b/seen', x)",
          "flat": "put('model/' + name, f['model/' + name][:].ravel())"}[sys.argv[2]])
PY
}
for wrong in reversed twice short none numbers wide unknown stranger swapped fewer more gone texts seen flat; do
  until_step two bad 20
  check "$wrong: edited" edit "$(file bad delta 20)" $wrong
  "$TESSERA" predict "$work/chain.deck" --set run.output="$work/bad" --data "$work/data.h5" --checkpoint "$(file bad delta 20)" --out "$work/x.csv" > "$work/out" 2> "$work/err"; code=$?
  [ $wrong = seen ] || check "$wrong: predict ends with 4, not $code" test $code = 4
  check "$wrong: one message" test "$(grep -c 'delta-00000020\|the checkpoint' "$work/err")" -le 1
  go 2 bad > "$work/out" 2> "$work/err"; code=$?
  cat "$work/err" >> "$work/bad/log"
  # What is met that often is known once all is read.
  if [ $wrong = seen ]; then check "$wrong: train ends with 4, not $code" test $code = 4; continue; fi
  check "$wrong: train ends with 0, not $code" test $code = 0
  check "$wrong: goes back" grep -q 'delta-00000020.h5.*; going back to the checkpoint before: .*delta-00000018.h5' "$work/bad/log"
  check "$wrong: to the same end" all_same "$(file two-full step 24)" "$(file bad step 24)"
done
passed
