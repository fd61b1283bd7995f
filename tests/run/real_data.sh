#!/bin/sh
# real_data.sh - the decks for real data reach their figures.
# TESSERA_DATA_DIR names the folder of the data.  seconds: 900  isa: all
[ -n "${TESSERA_DATA_DIR:-}" ] || { echo "TESSERA_DATA_DIR is not set: no real data to train on"; exit 77; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
auc() { sed -n 's/.*"eval":true.*"auc":\([0-9.]*\).*/\1/p' "$work/$1/metrics.jsonl" | tail -n 1; }
reach() { # name, AUC wanted
  got=$(auc "$1")
  echo "$1: test AUC $got, at least $2 is wanted"
  awk -v a="$got" -v b="$2" 'BEGIN { exit !(a >= b) }'
}
# Ranks are what other scripts are about: one is the cheapest.
run() { # name, deck, options
  name=$1; deck=$2; shift 2
  ${MPIRUN:-mpirun} -q -n ${ranks:-1} "$TESSERA" train "$deck" --quiet --set run.output="$work/$name" --set run.threads=1 --set sharding.topology=default "$@"
}
on_two() { ranks=2; "$@"; code=$?; ranks=1; return $code; }
# The other models, by the options in a deck's comments: no worse than DLRM, but
# for what another seed or CPU changes.
others() { # name of DLRM's run, deck
  for kind in dcnv2 deepfm sparsenn; do
    options=$(sed -n "s/^#   $kind: //p" "$srcdir/input/$2.deck")
    [ -n "$options" ] || { echo "input/$2.deck has no options for $kind"; return 1; }
    eval "run $1-$kind '$srcdir/input/$2.deck' $options" || return 1
    reach "$1-$kind" "$(auc "$1" | awk '{ print $1 - 0.001 }')" || return 1
  done
}
# bf16 is as good as f32: mean log loss of some seeds, at a learning rate that
# falls to 0 (else seeds differ by more than the precisions).
loss_of() { # precision
  for seed in 1 2 3 4; do
    run "adult-$1-$seed" "$srcdir/input/adult.deck" --set run.precision="$1" --set run.seed=$seed --set run.epochs=3.0 \
      --set optimizer.schedule.steps=384 >&2 || return 1
    sed -n 's/.*"eval":true.*"logloss":\([0-9.]*\).*/\1/p' "$work/adult-$1-$seed/metrics.jsonl" | tail -n 1
  done | awk '{ sum += $1 } END { print sum / NR }'
}
as_good() {
  f32=$(loss_of f32); bf16=$(loss_of bf16)
  echo "adult: mean test log loss $f32 in f32, $bf16 in bf16"
  awk -v a="$bf16" -v b="$f32" 'BEGIN { exit !(b > 0.26 && b < 0.29 && a < 1.001 * b) }'
}
# Every line of a log as it comes, with blanks lost at the ends of lines; and
# what the clicks of another, by its first four fifths, say of the rest: there
# logistic regression has 0.709, with an error of 0.03 on so few.
criteo() {
  on_two run criteo-raw "$srcdir/input/criteo.deck" || return 1
  lines=$(awk 'END { print 2 * NR }' "$TESSERA_DATA_DIR/criteo/train_965.txt")
  grep -q "\"step\":.*\"samples\":$lines," "$work/criteo-raw/metrics.jsonl" ||
    { echo "criteo: not $lines samples in two epochs"; return 1; }
  awk -F, 'NR > 1 { line = $2; for (i = 3; i <= 41; i++) line = line "\t" $i; print line }' \
    "$TESSERA_DATA_DIR/criteo/train.tiny.csv" > "$work/clicks"
  head -n 1600 "$work/clicks" > "$work/train.txt"; tail -n +1601 "$work/clicks" > "$work/eval.txt"
  run criteo "$srcdir/input/criteo.deck" --set data.train="$work/train.txt" --set data.eval="$work/eval.txt" \
    --set optimizer.lr=3e-3 --set run.epochs=1.0 && reach criteo 0.62
}
# All columns as words, by data.columns, with parts of times and crosses.
words() { # name, label, columns, more columns, their features; of train and test in $work
  of=$1-words; deck=$work/$of.deck; label=$2
  { echo 'run = { epochs = 2.0; seed = 3; log_every = 100; };'
    echo "data = { train = \"$work/$1.train\"; eval = \"$work/$1.test\"; format = \"csv\"; global_batch = 256; shuffle = \"full\";"
    echo '  csv = { encoding = "vocabulary"; missing = "?"; }; columns = ('
    for column in $3; do echo "{ name = \"$column\"; kind = \"ids\"; },"; done
    echo "$4 { name = \"label\"; kind = \"label\"; from = \"$label\"; } ); };"
    echo 'table_defaults = { dim = 16; rows = "auto"; init = { kind = "uniform"; scale = 0.05; }; optimizer = { kind = "adam"; lr = 2e-3; }; };'
    echo 'tables = ('
    for feature in $3 $5; do echo "$comma{ name = \"$feature\"; features = [\"$feature\"]; }"; comma=,; done
    echo '); model = { over_arch = [64, 32, 1]; }; optimizer = { kind = "adam"; lr = 2e-3; };'; } > "$deck"
  comma=; shift 5
  run "$of" "$deck" "$@"
}
all_words() {
  cp "$TESSERA_DATA_DIR/adult/adult.data" "$work/adult.train"; cp "$TESSERA_DATA_DIR/adult/adult.test" "$work/adult.test"
  words adult income "$(head -n 1 "$work/adult.train" | tr , ' ' | sed 's/ income//')" '{ name = "job"; kind = "ids"; cross = ["occupation", "education"]; },' job \
    --set 'data.csv.label_true=[">50K", ">50K."]' && reach adult-words 0.915 || return 1
  cp "$TESSERA_DATA_DIR/avazu-9k/train.csv" "$work/avazu.train"
  { head -n 1 "$work/avazu.train"; cat "$TESSERA_DATA_DIR/avazu-9k/test.csv"; } > "$work/avazu.test"
  words avazu click "$(head -n 1 "$work/avazu.train" | sed 's/id,click,hour,//' | tr , ' ')" \
    '{ name = "day"; kind = "time"; part = "weekday"; from = "hour"; }, { name = "hour"; kind = "time"; part = "hour"; }, { name = "where"; kind = "ids"; cross = ["site_id", "app_id", "banner_pos"]; },' 'day hour where' && reach avazu-words 0.68 || return 1
  inter=$TESSERA_DATA_DIR/ml-100k/ml-100k.inter
  for part in train test; do awk -v t=$part 'NR == 1 || (NR % 10 == 0) == (t == "test")' "$inter" > "$work/ml.$part"; done
  words ml rating:float '' \
    '{ name = "user"; kind = "ids"; from = "user_id:token"; }, { name = "item"; kind = "ids"; from = "item_id:token"; }, { name = "day"; kind = "time"; part = "weekday"; from = "timestamp:float"; }, { name = "year"; kind = "ids"; part = "year"; encoding = "vocabulary"; from = "timestamp:float"; },' 'user item day year' \
    --set data.csv.separator=tab --set data.csv.label_threshold=4 && reach ml-words 0.76
}
# The graphs that come along, with one task, and one that is a deck of its own.
graphs() {
  for kind in $("$TESSERA" help model | sed -n '/model.LAYER.KEY/,/^$/p' | sed 1d); do
    case $kind in
    mmoe | ple | esmm) continue ;;
    sasrec | hstu | bert4rec | din | bst | two_tower | two_tower_items | youtube_dnn | mf_ccl | simplex) continue ;; # oracle.sh has data for them
    lr) set -- --set table_defaults.group=wide --set table_defaults.dim=1 ;;
    *) set -- --set table_defaults.wide=$(grep -q fields:wide "$srcdir/input/models/$kind.deck" && echo true || echo false) ;;
    esac
    run adult-$kind "$srcdir/input/adult.deck" --set model.kind=$kind --set 'model.dense_arch=[]' --set 'model.over_arch=[1]' --set run.epochs=2.0 "$@" && reach adult-$kind 0.9 || return 1
  done
  run adult-graph "$srcdir/input/adult_graph.deck" && reach adult-graph 0.922
}
sh "$srcdir/jobs/join-ml100k" "$TESSERA_DATA_DIR/ml-100k" "$work/ml" || exit 1
on_two run adult "$srcdir/input/adult.deck" && reach adult 0.924 && others adult adult || exit 1
as_good || exit 1
graphs || exit 1
criteo || exit 1
all_words || exit 1
(TESSERA_DATA_DIR=$work/avazu; export TESSERA_DATA_DIR; mkdir "$TESSERA_DATA_DIR"; mv "$work/avazu.train" "$TESSERA_DATA_DIR/train.csv"
mv "$work/avazu.test" "$TESSERA_DATA_DIR/test.csv"; on_two run avazu "$srcdir/input/avazu.deck" && reach avazu 0.7) || exit 1
(TESSERA_DATA_DIR=$work/ml; export TESSERA_DATA_DIR; on_two run ml "$srcdir/input/ml100k.deck" && reach ml 0.775 && others ml ml100k &&
run ml-graph "$srcdir/input/ml100k_graph.deck" && reach ml-graph 0.78) || exit 1
# Adult from Parquet, where there is pyarrow: parquet.sh compares its first epoch.
arrow=$(ldd "$(dirname "$TESSERA")/io/parquet.so" 2> /dev/null | sed -n 's|.*=> \(/.*\)/lib/python3[^/]*/site-packages/pyarrow/libarrow\.so.*|\1/bin/python3|p' | head -n 1)
if [ -n "$arrow" ] && "$arrow" -c 'import pyarrow' 2> /dev/null; then
  for part in data test; do "$arrow" "$srcdir/tests/run/parquet.py" adult "$TESSERA_DATA_DIR/adult/adult.$part" "$work/adult.$part.parquet" || exit 1; done
  on_two run adult-parquet "$srcdir/input/adult.deck" --set data.format=parquet --set data.train="$work/adult.data.parquet" --set data.eval="$work/adult.test.parquet" || exit 1
  loss() { sed -n 's/.*"loss":\([^,}]*\).*/\1/p; s/.*"eval":true/eval/p' "$work/$1/metrics.jsonl"; }
  [ "$(loss adult)" = "$(loss adult-parquet)" ] && [ "$(loss adult | wc -l)" -ge 5 ] || { echo "adult: Parquet has other losses than CSV"; exit 1; }
fi
echo "100%: Checks: 30, Failures: 0, Errors: 0"
