#!/bin/sh
# train_predict.sh - evaluation and prediction agree with each other on any
# number of ranks, from data sets made in parallel.  seconds: 400
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
run() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
for n in 1 3; do
  check "generate on $n" run $n generate "$work/small.deck" train --out "$work/train$n.h5" --quiet
  check "generate eval on $n" run $n generate "$work/small.deck" eval --out "$work/eval$n.h5" --quiet
done
check "data sets don't depend on ranks" h5diff -q "$work/train1.h5" "$work/train3.h5"
check "convert" run 2 convert "$work/small.deck" --quiet --out "$work/copy.h5" --set data.format=dataset --set data.train="$work/train1.h5"
check "a copy is a copy" h5diff -q "$work/train1.h5" "$work/copy.h5"
from="--set data.format=dataset --set data.train=$work/train1.h5 --set data.eval=$work/eval1.h5"
check "train from files" train 2 files $from
check "train from the source" train 2 source
check "files and source give the same bits" sh -c "h5diff -q '$(newest files)' '$(newest source)' /model /model"
for n in 1 4; do
  check "predict on $n" run $n predict "$work/small.deck" --quiet --out "$work/p$n.h5" $from --set run.output="$work/files"
done
check "predictions don't depend on ranks" h5diff -q -d 1e-6 "$work/p1.h5" "$work/p4.h5"
check "inspect" sh -c "'$TESSERA' inspect '$(newest files)' --verify | grep -q verified"
check "inspect a data set" sh -c "'$TESSERA' inspect '$work/train1.h5' | grep -q labels"
passed
