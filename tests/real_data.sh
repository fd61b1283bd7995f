#!/bin/sh
# real_data.sh - the decks for real data reach their figures.
# TESSERA_DATA_DIR names the folder of the data.  seconds: 900
[ -n "${TESSERA_DATA_DIR:-}" ] || { echo "TESSERA_DATA_DIR is not set: no real data to train on"; exit 77; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
auc() { sed -n 's/.*"eval":true.*"auc":\([0-9.]*\).*/\1/p' "$work/$1/metrics.jsonl" | tail -n 1; }
reach() { # name, AUC wanted
  got=$(auc "$1")
  echo "$1: test AUC $got, at least $2 is wanted"
  awk -v a="$got" -v b="$2" 'BEGIN { exit !(a >= b) }'
}
run() { # name, deck, options
  name=$1; deck=$2; shift 2
  ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" train "$deck" --quiet --set run.output="$work/$name" --set run.threads=1 "$@"
}
# The other models, by the options in a deck's comments: no worse than DLRM.
others() { # name of DLRM's run, deck
  for kind in dcnv2 deepfm sparsenn; do
    options=$(sed -n "s/^#   $kind: //p" "$srcdir/input/$2.deck")
    [ -n "$options" ] || { echo "input/$2.deck has no options for $kind"; return 1; }
    eval "run $1-$kind '$srcdir/input/$2.deck' $options" || return 1
    reach "$1-$kind" "$(auc "$1")" || return 1
  done
}
sh "$srcdir/jobs/join-ml100k" "$TESSERA_DATA_DIR/ml-100k" "$work/ml" || exit 1
run adult "$srcdir/input/adult.deck" && reach adult 0.905 && others adult adult || exit 1
run criteo "$srcdir/input/criteo.deck" && grep -q '"step"' "$work/criteo/metrics.jsonl" || exit 1
(TESSERA_DATA_DIR=$work/ml; export TESSERA_DATA_DIR; run ml "$srcdir/input/ml100k.deck" && reach ml 0.775 && others ml ml100k) || exit 1
echo "100%: Checks: 9, Failures: 0, Errors: 0"
