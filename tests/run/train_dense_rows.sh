#!/bin/sh
# train_dense_rows.sh - tables of optimizer "none" and micro-batches in whole
# runs: the same on any number of ranks, restarts in the middle, on other
# ranks, and what is refused.  seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
none="--set tables.a.optimizer.kind=none --set tables.b.optimizer.kind=none --set tables.d.optimizer.kind=none --set tables.d.dtype=f32 --set tables.c.dtype=f32 --set tables.b.sharding=row_wise --set tables.a.sharding=data_parallel --set tables.d.sharding=column_wise --set optimizer.eps=1e-3"
for more in "optimizer.kind=adam" "optimizer.kind=lamb"; do
  for n in 1 2 3; do
    rm -rf "$work/on$n"
    check "$more on $n" train $n on$n $none --set $more --set run.steps=20
    check "$more: $n as 1" close_losses on1 on$n 2e-6 20
  done
done
check "micro-batches" train 2 micro $none --set optimizer.kind=lamb --set run.steps=20 --set run.accumulate=4
check "micro-batches: as one batch" close_losses on1 micro 2e-6 20

# A run in two parts is one run, state of the dense optimizer included.
check "whole" train 2 whole $none --set run.accumulate=2
check "first part" train 2 parts $none --set run.accumulate=2 --set run.steps=17
check "second part" train 2 parts $none --set run.accumulate=2 --set run.steps=40
check "same bits" same_bits "$(newest whole)" "$(newest parts)"
h5ls -r "$(newest whole)" > "$work/list"
for state in exp_avg exp_avg_sq; do
  check "state $state" grep -q "embedding_bags.b.weight/$state .*300, 16" "$work/list"
done
# Of every rule that is the dense optimizer's alone, clipped by value; the
# second part has other strategies.
rules="$none --set optimizer.kind=rmsprop --set optimizer.momentum=0.5 --set optimizer.clip_value=2e-3 --set run.steps=20"
set -- --set 'optimizer.overrides=( { match = "over_arch.*"; kind = "lion"; lr = 1e-3; }, { match = "dense_arch.*"; kind = "nesterov"; }, { match = "*.d.weight"; kind = "lion"; lr = 1e-3; } )'
check "rules" train 2 rules $rules "$@"
check "rules, first part" train 2 rules2 $rules "$@" --set run.steps=9
check "rules, second part" train 2 rules2 $rules "$@" --set dense.parallel=fully_sharded --set optimizer.in_backward=false
check "rules: same bits" same_bits "$(newest rules)" "$(newest rules2)"
h5ls -r "$(newest rules)" > "$work/list"
for state in embedding_bags.b.weight/square_avg embedding_bags.b.weight/momentum embedding_bags.d.weight/exp_avg over_arch.*/exp_avg dense_arch.*/momentum; do
  check "state $state" grep -q "$state" "$work/list"
done
check "unclipped" train 2 unclipped $rules "$@" --set optimizer.clip_value=0
if same_bits "$(newest rules)" "$(newest unclipped)" > /dev/null; then echo "FAILED: a bound changes nothing"; exit 1; fi

check "first part on 3" train 3 moved $none --set run.steps=17
check "second part on 2" train 2 moved $none --set run.steps=20
rm -rf "$work/on1"
check "on 1" train 1 on1 $none --set run.steps=20
check "moved" close_losses on1 moved 2e-6 20

refused() { # text, options
  text=$1; shift
  train 1 refused "$@" > "$work/said" 2>&1 && return 1
  grep -q "$text" "$work/said" || { cat "$work/said"; return 1; }
}
check "16 bits are refused" refused 'table c: optimizer "none" needs rows of dtype f32' --set tables.c.optimizer.kind=none
check "clipping is refused" refused 'table a of optimizer "none" would not be clipped' --set tables.a.optimizer.kind=none --set optimizer.clip_norm=1
check "semi_sync is refused" refused 'semi_sync' --set run.accumulate=2 --set pipeline.kind=semi_sync
check "two ways of clipping are refused" refused 'two ways of clipping' --set optimizer.clip_norm=1 --set optimizer.clip_value=1
check "an option is refused" refused 'optimizer none has no eps' --set tables.a.optimizer.kind=none --set tables.a.optimizer.eps=1
passed
