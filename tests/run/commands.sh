#!/bin/sh
# commands.sh - how many words each command takes, and which run on all ranks:
# those count them, the others speak once.  seconds: 60
. "$srcdir/tests/support/common.sh"
unset OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_pml OMPI_MCA_ess_singleton_isolated HWLOC_COMPONENTS # of tests/support/launch
cd "$work" || exit 99
words() { # COMMAND N: it takes N words, and no more
  set -- "$1" $(seq "$2")
  "$TESSERA" "$@" > out 2> err < /dev/null; grep -q 'takes no word' err && return 1
  "$TESSERA" "$@" more > out 2> err; test $? = 2 && grep -q "tessera $1 takes no word \"more\"" err
}
for line in init:2 train:1 eval:1 predict:1 compare:2 plan:3 convert:2 generate:2 inspect:1 bench:17 plot:17 trace:2 help:2 version:0; do
  check "words of $line" words "${line%:*}" "${line#*:}"
done
on_two() { ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" "$@" --set run.steps=2 > out 2> err; }
for line in "generate small.deck --out a.h5" "convert small.deck eval --out b.h5" "train small.deck" "eval small.deck" \
  "predict small.deck --out c.h5" "bench step small.deck iters=4" "plan small.deck"; do
  check "$line" on_two $line --set run.output=run
  case $line in bench*) check "on two" grep -q '^bench step: 2 ranks' out ;; plan*) check "for two" grep -q '^rank   *1 ' out ;; esac
done
for line in "inspect $work/b.h5" "plot $work/run --out plot.svg" "trace none" "help run.seed" version; do
  "$TESSERA" $line > one 2>&1
  ${MPIRUN:-mpirun} -q -n 4 "$TESSERA" $line > four 2>&1
  check "$line speaks once" cmp one four
done
"$TESSERA" generate small.deck --out x --format nope 2> err; check "a format that is none is code 2" test $? = 2
check "those that are" grep -q -- '--format is one of dataset.*, not nope$' err
passed
