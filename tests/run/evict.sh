#!/bin/sh
# evict.sh - dynamic tables that lose ids: which ids there are, how often and
# when they were met is the same to the bit on any number of ranks, by any
# pipeline, and over restarts on other numbers of ranks.  seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
. "$srcdir/tests/support/ids.sh"
cat > "$work/lost.deck" <<'DECK'
run = { steps = 40; log_every = 1; threads = 1; };
data = { train = "data.h5"; format = "dataset"; global_batch = 64; };
table_defaults = { dim = 16; rows = "dynamic"; evict = { every = 5; keep = 0.4; }; };
tables = ( { name = "a"; capacity = 1600; features = ["fa"]; dtype = "bf16"; },
  { name = "b"; capacity = 2500; features = ["fb", "fc"]; pooling = "mean";
    optimizer = { kind = "adam"; }; },
  { name = "c"; capacity = 1400; features = ["fd"]; weighted = true;
    evict = { every = 4; keep = 0.5; }; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [16, 16]; over_arch = [16, 1]; };
checkpoint = { every = 10; keep = 10; };
sharding = { topology = "default"; };
DECK
go() { n=$1; folder=$2; shift 2; run "$n" train "$work/lost.deck" --quiet --set run.output="$work/$folder" "$@"; }
same_ids() { for table in a b c; do same_sets "$1" "$2" dynamic/$table/ids dynamic/$table/seen dynamic/$table/last meta/dynamic/$table || return 1; done; }
gone() { # some ids lost their rows, and some were kept
  lines "$1" | awk -F'[:,}]' '{ for (i = 1; i < NF; i++) { if ($i ~ /"evicted"/) e += $(i + 1); if ($i ~ /"ids"/) n += $(i + 1) } } END { exit !(e > 100 && n > 100) }'
}
check "data" ids_data
for kind in lru lfu ttl; do
  set="--set table_defaults.evict.kind=$kind"
  [ $kind = ttl ] && set="$set --set table_defaults.evict.ttl=7 --set table_defaults.evict.keep=0.9 --set tables.a.capacity=3000 --set tables.b.capacity=3000 --set tables.c.capacity=2000"
  for n in 1 2 3 4; do check "$kind on $n ranks" go $n $kind$n $set; done
  check "$kind: ids go" gone ${kind}1
  for n in 2 3 4; do
    check "$kind: as many on 1 and $n ranks" same_lines ${kind}1 $kind$n
    check "$kind: the same losses on 1 and $n ranks" close_losses ${kind}1 $kind$n 1e-6 40
    check "$kind: the same ids on 1 and $n ranks" same_ids ${kind}1 $kind$n
  done
  check "$kind, table_wise" go 2 whole$kind $set --set table_defaults.sharding=table_wise
  check "$kind: the same ids, however tables are cut" same_ids ${kind}1 whole$kind
  for pipeline in base fused_sparse_dist prefetch; do
    check "$kind, $pipeline" go 2 $pipeline$kind $set --set pipeline.kind=$pipeline
    check "$kind, $pipeline: the same ids" same_ids ${kind}2 $pipeline$kind
    check "$kind, $pipeline: the same rows" same_rows ${kind}2 $pipeline$kind
    # At the end nothing is sent ahead; here it is, and is none of the step's.
    last=checkpoints/step-00000030.h5
    check "$kind, $pipeline: the same ids at step 30" same_ids ${kind}2 $pipeline$kind
    last=checkpoints/step-00000040.h5
  done
  # At a step that ids go after, and between two.
  for at in 20 23; do
    check "$kind, to step $at" go 2 part$kind$at $set --set run.steps=$at
    for n in 1 2 4; do
      cp -r "$work/part$kind$at" "$work/on$kind$at$n"
      check "$kind, from step $at on $n ranks" go $n on$kind$at$n $set
      check "$kind, from step $at on $n ranks: the same ids" same_ids ${kind}1 on$kind$at$n
      check "$kind, from step $at on $n ranks: the same losses" close_losses ${kind}1 on$kind$at$n 1e-6 40
    done
    check "$kind, from step $at: the same rows" same_rows ${kind}2 on$kind${at}2
  done
done
# A plain model of what is evicted.
model() { kind=$1; folder=$2; shift 2; $python "$srcdir/tests/run/evict.py" "$work/data.h5" "$work/$folder/$last" 64 40 "$@"; }
if [ -n "$python" ]; then
  for kind in lru lfu; do
    check "$kind: a, by a plain model" model $kind ${kind}2 a fa $kind 5 640
    check "$kind: b, by a plain model" model $kind ${kind}3 b fb,fc $kind 5 1000
    check "$kind: c, by a plain model" model $kind on${kind}234 c fd $kind 4 700
  done
  check "ttl: a, by a plain model" model ttl ttl4 a fa ttl 5 0 7
  check "ttl: c, by a plain model" model ttl onttl201 c fd ttl 4 0 7
fi
set="--set table_defaults.evict.kind=lru"
check "micro-batches" go 2 micro $set --set run.accumulate=2
check "micro-batches: the same ids" same_ids lru1 micro
# A checkpoint of a run that evicts nothing, and another run's.
all="--set tables.a.capacity=4000 --set tables.b.capacity=3000 --set tables.c.capacity=2000"
check "nothing goes" go 2 kept --set run.steps=20 $all
cp -r "$work/kept" "$work/begun"
check "from there on by ttl" go 2 begun --set table_defaults.evict.kind=ttl --set table_defaults.evict.ttl=15 $all
check "its ids are as if met in its last step" sh -c 'grep "\"evict\"" "$1" | grep "\"step\":30" | grep -q "\"evicted\":0"' sh "$work/begun/metrics.jsonl"
check "its ids go in the end" sh -c 'grep "\"evict\"" "$1" | grep "\"step\":35" | grep -qv "\"evicted\":0"' sh "$work/begun/metrics.jsonl"
check "weights of that run" go 2 from $set --set checkpoint.init_from="$work/kept/checkpoints" $all
# A smaller capacity: the ids stay that a look at the step would have left.
some="--set run.steps=20 --set table_defaults.evict.kind=lru --set tables.a.capacity=4000 --set tables.b.capacity=4000 --set tables.c.capacity=4000 --set tables.c.evict.every=1000 --set table_defaults.sharding=row_wise"
fewer="--set run.steps=24 --set table_defaults.evict.kind=lru --set table_defaults.evict.every=1000 --set tables.a.capacity=1200 --set tables.b.capacity=1200 --set table_defaults.evict.keep=0.5 --set tables.c.capacity=4000 --set tables.c.evict.every=1000 --set table_defaults.sharding=row_wise"
check "all ids" go 3 whole $some --set table_defaults.evict.every=1000
check "a look at step 20" go 3 looked $some --set table_defaults.evict.every=20 --set table_defaults.evict.keep=0.15
last=checkpoints/step-00000024.h5
for n in 3 1 2 4; do
  cp -r "$work/whole" "$work/fewer$n"; cp -r "$work/looked" "$work/looked$n"
  check "more ids than the capacity, on $n ranks" go $n fewer$n $fewer
  check "fewer ids, on $n ranks" go $n looked$n $fewer
  check "the same ids, on $n ranks" same_ids looked$n fewer$n
  check "the same rows, on $n ranks" same_rows looked$n fewer$n
  check "the same ids on 3 and $n ranks" same_ids fewer3 fewer$n
done
check "weights of more ids than the capacity" go 2 weights $fewer --set run.steps=2 --set checkpoint.init_from="$work/whole/checkpoints"
fails() { # CODE PATTERN command...
  want=$1; pattern=$2; shift 2
  "$@" > "$work/out" 2> "$work/err"; code=$?
  check "code $want for $pattern, not $code" test $code = "$want"
  check "$pattern is said" grep -q -e "$pattern" "$work/err"
}
fails 1 'table a is full: there is no row for id' go 1 full $set --set tables.a.capacity=400
fails 2 'table a: capacity = 1000, but .* has rows of' go 1 whole $fewer --set table_defaults.evict.kind=none --set tables.a.capacity=1000
fails 2 'evict.kind "ttl" and evict.ttl' go 1 none --set table_defaults.evict.kind=ttl
fails 2 'evict is for rows = "dynamic"' run 1 train "$work/plain.deck" --check --set table_defaults.evict.kind=lru
passed
