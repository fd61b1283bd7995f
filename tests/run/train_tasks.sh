#!/bin/sh
# train_tasks.sh - several tasks: data with a label each, a weight each, from
# data sets, CSV and the planted truth, through training, metrics, checkpoints
# and predictions.  seconds: 400
. "$srcdir/tests/support/common.sh"
not_sanitized
two='--set model.tasks=({name="click";},{name="buy";weight=0.5;}) --set model.over_arch=[32,16,2] --set run.steps=20'
go() { # ranks, folder, more
  ranks=$1; folder=$2; shift 2
  train "$ranks" "$folder" $two "$@"
}
shape() { h5ls "$1/$2" | sed 's/.*Dataset //'; }

go 1 one || exit 1
go 2 two || exit 1
go 3 three || exit 1
check "two ranks as one" close_losses one two 1e-5 20
check "three ranks as one" close_losses one three 1e-5 20
"$TESSERA" generate "$work/small.deck" $two --out "$work/train.h5" > "$work/out" || exit 1
check "the truth is named" grep -q '(first task)' "$work/out"
check "a label each" test "$(shape "$work/train.h5" labels)" = "{1000, 2}"
go 2 files --set data.format=auto --set "data.train=$work/train.h5" || exit 1
check "data sets give the same bits" same_bits "$(newest files)" "$(newest two)"

# The loss is linear in the tasks' weights.
first() { # weights
  train 1 "w$1$2" --set "model.tasks=({name=\"a\";weight=$1;},{name=\"b\";weight=$2;})" --set model.over_arch=[32,16,2] --set run.steps=1 || exit 1
  losses "w$1$2"
}
check "weights" awk -v a="$(first 1 0)" -v b="$(first 0 1)" -v both="$(first 0.5 2)" 'BEGIN {
  want = 0.5 * a + 2 * b; d = both - want; exit !(a > 0.3 && b > 0.3 && d < 1e-6 && d > -1e-6) }'

# Metrics of each, which a restart takes with it.
check "a line a task" test "$(grep -c '"eval":true.*"task":"click"\|"task":"click".*"eval":true' "$work/two/metrics.jsonl")" = 1
check "and the other's" test "$(grep -c '"task":"buy"' "$work/two/metrics.jsonl")" = 1
check "windows of both" sh -c "h5ls '$(newest two)/metrics' | grep -c 'click\|buy' | grep -qx 2"
go 2 again --set run.steps=10 || exit 1
go 3 again || exit 1
check "restart on other ranks" close_losses again two 1e-5 20
go 2 still --set run.steps=10 || exit 1
go 2 still || exit 1
check "restart on the same" same_bits "$(newest still)" "$(newest two)"
check "with its metrics" h5diff -q "$(newest still)" "$(newest two)" /metrics /metrics

# Predictions: (N, T), and what eval says is what they give.
forward() { ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" "$@" "$work/small.deck" $two --set run.output="$work/two"; }
forward predict --out "$work/p.h5" > "$work/predict" || exit 1
forward eval > "$work/eval" || exit 1
check "predictions" test "$(shape "$work/p.h5" predictions)" = "{300, 2}"
check "labels beside them" test "$(shape "$work/p.h5" labels)" = "{300, 2}"
forward predict --out "$work/p.csv" > "$work/predict" || exit 1
check "CSV names the tasks" test "$(head -n 1 "$work/p.csv")" = prediction_click,prediction_buy
check "and has all samples" test "$(wc -l < "$work/p.csv")" = 301
mean() { # dataset, column: of predictions minus labels
  h5dump -y -m "%.9g" -d "/$1" -s "0,$2" -c "300,1" "$work/p.h5" | awk '/DATA/ { on = 1 } on && /^ *[-0-9]/ { s += $1; n++ } END { print s / n }'
}
calibration() { sed -n "s/.*\"task\":\"$1\".*\"calibration\":\([0-9.]*\).*/\1/p" "$work/two/metrics.jsonl"; }
paste_f1() { # what eval says, beside columns x (predictions) and y
  paste "$work/x" "$work/y" | awk -v said="$1" '$1 >= 0.4 { told++; both += $2 } { real += $2 } END {
    d = 2 * both / (told + real) - said; exit !(NR == 300 && told && d < 6e-5 && d > -6e-5) }'
}
for k in 0 1; do
  task=$(echo click buy | cut -d' ' -f$((k + 1)))
  check "$task is column $k" awk -v p="$(mean predictions $k)" -v y="$(mean labels $k)" -v c="$(calibration $task)" 'BEGIN {
    d = p / y - c; exit !(d < 1e-4 && d > -1e-4) }'
  check "eval names $task" grep -q "$task" "$work/eval"
done

# What the deck asks for, in its order; bins are of all samples.
forward eval --set 'metrics.report=["f1","pr_auc","ece"]' --set metrics.threshold=0.4 > "$work/f1" || exit 1
column() { # dataset, column
  h5dump -y -m "%.9g" -d "/$1" -s "0,$2" -c "300,1" "$work/p.h5" | sed -n 's/^ *\([-0-9.e]*\),*$/\1/p'
}
for k in 0 1; do
  task=$(echo click buy | cut -d' ' -f$((k + 1)))
  column predictions $k > "$work/x"; column labels $k > "$work/y"
  said=$(sed -n "s/^evaluation of $task: 300 samples  F1 \([0-9.]*\)  PR-AUC [0-9.]*  ECE [0-9.]*$/\1/p" "$work/f1")
  check "F1 of $task" paste_f1 "${said:-none}"
done
# Groups by a feature, the same on any ranks.
for n in 1 3; do
  ${MPIRUN:-mpirun} -q -n $n "$TESSERA" eval "$work/small.deck" $two --set run.output="$work/two" --set metrics.group=fa --set metrics.k=3 \
    --set 'metrics.report=["gauc","ndcg","hit_rate","mrr","recall_at_k"]' > "$work/groups" || exit 1
  sed -n 's/^evaluation of click: 300 samples  GAUC/GAUC/p' "$work/groups" > "$work/groups$n"
done
check "groups" grep -q '^GAUC 0\.[0-9]*  NDCG 0\.[0-9]*  hit rate [01]\.[0-9]*  MRR 0\.[0-9]*  recall at k 0\.[0-9]*$' "$work/groups1"
check "groups on any ranks" cmp "$work/groups1" "$work/groups3"
check "bins of both" test "$(grep -c '^ *0\.[0-9] to [01]\.[0-9]: ' "$work/f1")" -ge 4
go 2 said --set run.steps=2 --set 'metrics.report=["r2","ece"]' || exit 1
check "they are in the metrics" test "$(grep -c '"eval":true.*"r2":.*"ece":.*"samples":300}' "$work/said/metrics.jsonl")" = 2
check "and bins" test "$(sed -n 's/.*"bin":true.*"task":"buy".*"weight":\([0-9.]*\).*/\1/p' "$work/said/metrics.jsonl" | awk '{ s += $1 } END { print s }')" = 300
check "nothing else" test "$(grep -c '"eval":true.*"auc"' "$work/said/metrics.jsonl")" = 0

# CSV: a column a task.  What is learnt is what each column says.
awk 'BEGIN { print "y,x,c,z"; for (i = 0; i < 2000; i++) { c = i * 7919 % 13; print (c > 6) "," i % 10 / 10 "," "v" c "," (c % 2 ? "yes" : "no") } }' > "$work/two.csv"
cat > "$work/csv.deck" <<'DECK'
run = { name = "csv"; epochs = 4.0; threads = 1; };
data = { format = "csv"; global_batch = 100;
         csv = { labels = ["y", "z"]; label_true = ["1", "yes"]; dense = ["x"]; encoding = "vocabulary"; }; };
tables = ( { name = "c"; rows = 20; dim = 8; features = ["c"]; optimizer = { kind = "adam"; lr = 0.02; }; } );
model = { dense_features = 1; dense_arch = [8]; over_arch = [16, 2]; tasks = ( { name = "high"; }, { name = "odd"; } ); };
optimizer = { lr = 0.02; };
DECK
csv() { ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" "$@" "$work/csv.deck" --set "data.train=$work/two.csv" --set "data.eval=$work/two.csv" --set run.output="$work/csv"; }
csv train > "$work/out" || exit 1
auc() { sed -n "s/.*\"task\":\"$1\".*\"auc\":\([0-9.]*\).*/\1/p" "$work/csv/metrics.jsonl"; }
check "both columns are learnt" awk -v a="$(auc high)" -v b="$(auc odd)" 'BEGIN { exit !(a > 0.99 && b > 0.99) }'
"$TESSERA" convert "$work/csv.deck" --set "data.train=$work/two.csv" --set run.output="$work/csv" --out "$work/csv.h5" > "$work/out" || exit 1
check "converted" test "$(h5dump -y -m %g -d /labels -s 6,0 -c 3,2 "$work/csv.h5" | sed -n '/DATA {/,$p' | tr -cd '01,')" = "$(awk -F, 'NR > 7 && NR < 11 { printf "%s%d,%d", s, $1, $4 == "yes"; s = "," }' "$work/two.csv")"

fails() { # code, text, more
  code=$1; text=$2; shift 2
  "$@" > "$work/out" 2>&1
  [ $? = "$code" ] && grep -q "$text" "$work/out" || { cat "$work/out"; return 1; }
}
check "one label, two tasks" fails 3 '1 labels per sample, the deck 2 tasks' csv train --set 'data.csv.labels=[]' --set 'data.csv.label="y"'
check "one label in a log" fails 2 'criteo_tsv has one label' "$TESSERA" generate "$work/small.deck" $two --out "$work/log.tsv" --format criteo_tsv
check "names that are the same" fails 2 'two tasks named x' go 1 bad --set 'model.tasks=({name="x";},{name="x";})'
check "an output each" fails 2 'one output each' go 1 bad --set 'model.over_arch=[8,1]'
passed
