#!/bin/sh
# admit.sh - dynamic tables that give an id its row once it was met in several
# steps: which ids there are and how often the others were met is the same to
# the bit on any number of ranks, by any pipeline, in parts of steps, with ids
# that lose their rows again, and over restarts on other numbers of ranks.
# seconds: 240
. "$srcdir/tests/support/common.sh"
not_sanitized
. "$srcdir/tests/support/ids.sh"
met_deck
go() { n=$1; folder=$2; shift 2; run "$n" train "$work/met.deck" --quiet --set run.output="$work/$folder" "$@"; }
check "data" ids_data
for n in 1 2 3 4; do check "$n ranks" go $n n$n; done
for n in 2 3 4; do
  check "as many on 1 and $n ranks" same_lines n1 n$n
  check "the same losses on 1 and $n ranks" close_losses n1 n$n 1e-6 40
  check "the same ids on 1 and $n ranks" same_ids n1 n$n
done
check "table_wise" go 2 whole --set table_defaults.sharding=table_wise
check "the same ids, however tables are cut" same_ids n1 whole
for pipeline in base fused_sparse_dist prefetch; do
  check "$pipeline" go 2 $pipeline --set pipeline.kind=$pipeline
  # At step 30 batches have been sent ahead, and are none of the step's.
  for step in 30 40; do
    last=checkpoints/step-000000$step.h5
    check "$pipeline: the same ids at step $step" same_ids n2 $pipeline
    check "$pipeline: the same rows at step $step" same_rows n2 $pipeline
  done
done
# Evaluations see no ids of steps to come.
looks="--set data.eval=data.h5 --set run.eval_every=10 --set table_defaults.evict.kind=none --set tables.a.capacity=3000 --set tables.b.capacity=3000 --set tables.c.capacity=2000"
evals() { grep '"eval":true' "$work/$1/metrics.jsonl" | sed 's/"\(samples_per_s\|seconds\)":[^,}]*//'; }
same_evals() { evals "$1" > "$work/x"; evals "$2" > "$work/y"; [ "$(wc -l < "$work/x")" = 4 ] && cmp -s "$work/x" "$work/y"; }
for least in 1 2; do
  set="$looks --set table_defaults.admit.min_count=$least --set tables.b.admit.min_count=$least --set tables.c.admit.min_count=$least"
  [ $least = 1 ] && set="$set --set table_defaults.admit.window_steps=0 --set tables.c.admit.window_steps=0 --set tables.c.admit.sketch_mib=0"
  check "evaluations, min_count $least" go 2 look${least}base $set --set pipeline.kind=base
  for pipeline in sparse_dist prefetch; do
    check "evaluations, min_count $least, $pipeline" go 2 look$least$pipeline $set --set pipeline.kind=$pipeline
    check "the same, min_count $least, $pipeline" same_evals look${least}base look$least$pipeline
  done
done
# A step counts once, whole or in parts.
for n in 1 3; do
  for parts in 2 3; do
    check "$parts parts on $n ranks" go $n parts$n$parts --set run.accumulate=$parts
    check "$parts parts on $n ranks: the same ids" same_ids n1 parts$n$parts
  done
done
# Steps at which something is halved or goes, and others.
for at in 20 21 23; do
  check "to step $at" go 2 part$at --set run.steps=$at
  for n in 1 2 4; do
    cp -r "$work/part$at" "$work/on$at$n"
    check "from step $at on $n ranks" go $n on$at$n
    check "from step $at on $n ranks: the same ids" same_ids n1 on$at$n
    check "from step $at on $n ranks: the same losses" close_losses n1 on$at$n 1e-6 40
  done
  check "from step $at: the same rows" same_rows n2 on${at}2
done
# A plain model of it, and of the sketch.
model() { folder=$1; shift; $python "$srcdir/tests/run/evict.py" "$work/data.h5" "$work/$folder/$last" 64 40 "$@"; }
counts() { h5dump -d dynamic/$2/ids "$work/$1/$last" | sed -n 's/.*SIMPLE { ( \([0-9]*\).*/\1/p' | head -1; }
if [ -n "$python" ]; then
  check "a, by a plain model" model n2 a fa lfu 5 360 0 3 7 1
  check "b, by a plain model" model n3 b fb,fc lfu 5 480 0 2 0 1
  check "a, by a plain model, in parts" model parts33 a fa lfu 5 360 0 3 7 1
  check "a, by a plain model, from step 23" model on234 a fa lfu 5 360 0 3 7 1
fi
# Figures of ids in the log: of each table at each checkpoint.
check "figures, twelve lines" test "$(grep -c '"index":true' "$work/n2/metrics.jsonl")" = 12
figure() { grep '"step":40,"index":true,"table":"c"' "$work/n3/metrics.jsonl" | sed "s/.*\"$1\":\([^,}]*\).*/\1/"; }
check "as many ids as in the checkpoint" test "$(figure ids)" = "$(counts n3 c)"
check "their share of the capacity" test "$(figure load)" = "$(awk "BEGIN { print $(counts n3 c) / 1000 }")"
admitted() { grep '"index":true,"table":"c"' "$work/$1/metrics.jsonl" | sed 's/.*"admitted":\([^,}]*\).*/\1/' | awk '{ n += $1 } END { print n, (NR > 3) }'; }
for r in n3 on231; do check "all were admitted once, $r: $(admitted $r)" test "$(admitted $r)" = "$(counts n3 c) 1"; done
check "few probes" sh -c 'awk "BEGIN { exit !($1 > 1 && $1 < 1.2 && ($2 == 2 || $2 == 1)) }"' sh "$(figure probes)" "$(figure probes_p99)"
# Fewer ids have rows.
check "all are admitted" go 2 every --set table_defaults.admit.min_count=1 --set table_defaults.admit.window_steps=0 \
  --set tables.b.admit.min_count=1 --set tables.c.admit.min_count=1 --set tables.c.admit.window_steps=0 --set tables.c.admit.sketch_mib=0 \
  --set tables.c.capacity=2000 --set tables.b.capacity=3000 --set tables.a.capacity=4000
check "fewer ids of c have rows: $(counts n2 c), not $(counts every c)" test "$(counts n2 c)" -lt "$(counts every c)"
# What is counted of ids without a row goes on where it can.
cp -r "$work/part23" "$work/other"
check "another sketch" sh -c '"$@" > "$0"' "$work/out" ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" train "$work/met.deck" --set run.output="$work/other" --set tables.c.admit.sketch_mib=2
check "it begins anew" grep -q "table c: the checkpoint.s counts of ids without a row are of another size" "$work/out"
cp -r "$work/every" "$work/begun"
rm "$work/begun/checkpoints/"*40.h5
check "a checkpoint of a run that admitted all" go 2 begun --set tables.c.capacity=2000 --set tables.b.capacity=3000 --set tables.a.capacity=4000
check "weights of another run" go 2 from --set checkpoint.init_from="$work/n1/checkpoints" --set run.steps=1
# Of one step alone: at most 640 ids of b in 4 counters each.
sights() { $python -c 'import h5py, numpy, sys; print(int(h5py.File(sys.argv[1])["dynamic/b/sights"][:].view(numpy.uint8).sum()))' "$work/$1"; }
[ -z "$python" ] || check "counts begin anew: $(sights from/checkpoints/step-00000001.h5), and had been $(sights n1/$last)" \
  test "$(sights from/checkpoints/step-00000001.h5)" -le 2560 -a "$(sights "n1/$last")" -gt 5120
fails() { # CODE PATTERN command...
  want=$1; pattern=$2; shift 2
  "$@" > "$work/out" 2> "$work/err"; code=$?
  check "code $want for $pattern, not $code" test $code = "$want"
  check "$pattern is said" grep -q -e "$pattern" "$work/err"
}
# A checkpoint whose counts have a size that makes no sense.
if [ -n "$python" ]; then
  for lines in -1 0 4611686018427387904; do
    rm -rf "$work/bad"; cp -r "$work/part23" "$work/bad"
    $python -c 'import glob, h5py, sys
for path in glob.glob(sys.argv[1] + "/checkpoints/step-*.h5"):
    with h5py.File(path, "r+") as f:
        f.attrs.pop("sealed", None)
        if "meta/sights/a" in f: f["meta/sights/a"][...] = int(sys.argv[2])
        else: f["meta/sights"].attrs["a"] = int(sys.argv[2])' "$work/bad" "$lines"
    fails 4 'the sights of table a are damaged' go 2 bad
  done
fi
# What would free memory: counts of ids are no state of an optimizer.
set="--set table_defaults.optimizer.kind=sgd --set tables.b.optimizer.kind=sgd --set table_defaults.admit.sketch_mib=100 --set sharding.memory_gib=0.01"
fails 2 'no plan fits' run 1 plan "$work/met.deck" 1 $set
check "no optimizer is to blame" sh -c '! grep optimizer "$1"' sh "$work/err"
fails 2 'admit is for rows = "dynamic"' run 1 train "$work/plain.deck" --check --set table_defaults.admit.min_count=2
fails 2 'admit.window_steps and admit.sketch_mib need' go 1 none --set table_defaults.admit.min_count=1
passed
