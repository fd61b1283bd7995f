#!/bin/sh
# outputs.sh - model.outputs: losses of all kinds, weights, smoothing and where,
# on 1 and 2 ranks, the host and emulated GPUs, against steps that are worked out in
# double by tests/run/outputs.py; figures, predictions and data sets of them.
# seconds: 400
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v python3 > /dev/null && command -v h5dump > /dev/null || { echo "needs python3 and h5dump (hdf5-tools)"; exit 77; }
host=$TESSERA
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
awk 'BEGIN { print "u,v,click,buy,stars,visits,sample_weights"; srand(5)
  for (i = 0; i < 45; i++) { click = rand() < 0.6
    print int(rand() * 5) "," int(rand() * 7) "," click "," (click ? int(rand() * 2) : "") "," int(rand() * 90) / 10 - 3 "," int(rand() * 6) "," int(rand() * 4) / 2 } }' > "$work/a.csv"
cat > "$work/o.deck" <<'DECK'
run = { steps = 6; threads = 1; log_every = 1; };
data = { train = "a.csv"; eval = "a.csv"; format = "csv"; global_batch = 16;
  columns = ( { name = "click"; kind = "label"; }, { name = "buy"; kind = "label"; }, { name = "stars"; kind = "label"; label = "real"; },
    { name = "visits"; kind = "label"; label = "count"; }, { name = "sample_weights"; kind = "weight"; },
    { name = "u"; kind = "ids"; encoding = "none"; }, { name = "v"; kind = "ids"; encoding = "none"; } ); };
table_defaults = { dim = 4; optimizer = { kind = "sgd"; lr = 0.2; }; };
tables = ( { name = "u"; rows = 5; features = "u"; }, { name = "v"; rows = 7; features = "v"; } );
model = { kind = "sparsenn"; over_arch = [6];
  outputs = ( { name = "click"; smoothing = 0.1; }, { name = "buy"; where = "click"; weight = 2.0; }, { name = "stars"; loss = "mse"; weight = 0.3; },
    { name = "near"; label = "stars"; loss = "huber"; delta = 0.75; where = "click"; }, { name = "off"; label = "stars"; loss = "mae"; weight = 0.5; },
    { name = "visits"; loss = "poisson"; } ); };
optimizer = { kind = "sgd"; lr = 0.1; };
sharding = { topology = "default"; };
DECK
tess() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
fails() { # code, text, command...
  code=$1; text=$2; shift 2
  "$@" > "$work/out" 2>&1
  [ $? = "$code" ] && grep -q -- "$text" "$work/out" || { cat "$work/out"; return 1; }
}
go() { ranks=$1; folder=$2; shift 2; tess "$ranks" train "$work/o.deck" --quiet --set run.output="$work/$folder" "$@"; }
weight() { # name in /model, file
  h5dump -b LE -o "$work/$2" -d "/model/$1" "$(newest still)" > /dev/null; }

# The weights that all begin with.
go 1 still --set run.steps=1 --set optimizer.lr=0 --set table_defaults.optimizer.lr=0 || exit 1
weight over_arch.model.1.weight W; weight over_arch.model.1.bias b
for t in u v; do weight sparse_arch.embedding_bag_collection.embedding_bags.$t.weight $t; done
mkdir "$work/want"
python3 "$srcdir/tests/run/outputs.py" "$work/a.csv" "$work" "$work/want" 6 || exit 1

for ranks in 1 2; do
  go $ranks host$ranks || exit 1
  check "steps on $ranks ranks" close_losses want host$ranks 2e-6 6
  check "fully sharded on $ranks ranks" go $ranks fully$ranks --set dense.parallel=fully_sharded
  check "the same" close_losses want fully$ranks 2e-6 6
  check "accumulated on $ranks ranks" go $ranks micro$ranks --set run.accumulate=3
  check "the same" close_losses want micro$ranks 2e-6 6
  [ -x "$emulated" ] || continue
  TESSERA=$emulated; go $ranks gpu$ranks --set run.backend=emulated || exit 1; TESSERA=$host
  check "emulated GPUs of $ranks ranks" close_losses want gpu$ranks 2e-6 6
done

near() { # file: each line's numbers are near the other's
  awk -v limit="$3" 'NR == FNR { want[FNR] = $0; next } { n = split(want[FNR], x, /[ ,]/); split($0, y, /[ ,]/)
    for (i = 1; i <= n; i++) { d = x[i] - y[i]; if (d < 0) d = -d; if (d > limit * (1 + (x[i] < 0 ? -x[i] : x[i]))) { print FNR ": " want[FNR] " - " $0; bad = 1 } } }
    END { exit bad || FNR < 2 }' "$1" "$2"; }

# Weights that are learnt.
sed 's/name = "click"; smoothing/weight = "uncertainty"; &/; s/weight = 0.3/weight = "uncertainty"/; s/weight = 0.5/weight = "uncertainty"/' "$work/o.deck" > "$work/s.deck"
mkdir "$work/learnt"
python3 "$srcdir/tests/run/outputs.py" "$work/a.csv" "$work" "$work/learnt" 6 0,2,4 || exit 1
learn() { ranks=$1; folder=$2; shift 2; tess "$ranks" train "$work/s.deck" --quiet --set run.output="$work/$folder" "$@"; }
for ranks in 1 2; do
  learn $ranks s$ranks || exit 1
  check "learnt weights on $ranks ranks" close_losses learnt s$ranks 2e-6 6
  learn $ranks sfully$ranks --set dense.parallel=fully_sharded || exit 1
  check "fully sharded" close_losses learnt sfully$ranks 2e-6 6
  learn $ranks smicro$ranks --set run.accumulate=3 --set pipeline.kind=sparse_dist || exit 1
  check "accumulated" close_losses learnt smicro$ranks 2e-6 6
  [ -x "$emulated" ] || continue
  TESSERA=$emulated; learn $ranks sgpu$ranks --set run.backend=emulated || exit 1; TESSERA=$host
  check "by emulated GPUs" close_losses learnt sgpu$ranks 2e-6 6
done
h5dump -y -m %.9g -d /model/tasks.log_variance "$(newest s2)" | sed -n '/DATA {/,/}/p' | tr -cd '0-9.e,+-' | tr ',' ' ' | sed 's/.*/0 &/' > "$work/found"; echo >> "$work/found"; echo >> "$work/found"
check "they are in the checkpoint" near "$work/learnt/s" "$work/found" 1e-5
learn 2 sagain --set run.steps=3 || exit 1
learn 2 sagain || exit 1
check "restart of them" same_bits "$(newest sagain)" "$(newest s2)"
tess 1 train "$work/s2/deck.effective" --check > "$work/out" 2>&1
check "the deck in force has them" test "$(grep -c 'weight = "uncertainty"' "$work/s2/deck.effective")" = 3

# Stopped and gone on with; the deck in force says the same.
go 2 again --set run.steps=3 || exit 1
go 2 again || exit 1
check "restart" same_bits "$(newest again)" "$(newest host2)"
go 1 other --set run.steps=3 || exit 1
sed -i 's/weight = 2.0/weight = 1.0/' "$work/o.deck"
go 1 other || exit 1
sed -i 's/weight = 1.0/weight = 2.0/' "$work/o.deck"
check "other weights are seen" grep -q 'model.outputs.buy.weight 2 -> 1' "$work/other/log"
tess 1 train "$work/host1/deck.effective" --quiet --set run.output="$work/effective" --set checkpoint.dir="$work/effective/checkpoints" || exit 1
check "the deck in force" same_bits "$(newest effective)" "$(newest host1)"

# What evaluations say: of click and buy what is asked for, of the others what
# they have; of each as many samples as count.
said() { # metrics.jsonl or the log's lines: as outputs.py says it
  sed -n 's/^evaluation of \([a-z]*\): \([0-9]*\) samples  MSE \([-0-9.]*\)  MAE \([-0-9.]*\)  R2 \([-0-9.]*\)$/\1 \2 \3 \4 \5/p' "$1"; }
for ranks in 1 2; do
  tess $ranks eval "$work/o.deck" --set run.output="$work/host1" --set 'metrics.report=["mse","mae","r2"]' > "$work/log" || exit 1
  said "$work/log" > "$work/figures"
  check "figures on $ranks ranks" near "$work/want/said" "$work/figures" 1e-4
  check "tasks" test "$(cut -d' ' -f1 "$work/figures" | tr '\n' ' ')" = "click buy stars near off visits "
done
if [ -x "$emulated" ]; then
  "$emulated" eval "$work/o.deck" --set run.backend=emulated --set run.output="$work/host1" --set 'metrics.report=["mse","mae","r2"]' > "$work/log" || exit 1
  said "$work/log" > "$work/figures"
  check "figures by emulated GPUs" near "$work/want/said" "$work/figures" 1e-4
fi
tess 2 eval "$work/o.deck" --set run.output="$work/host1" > "$work/log" || exit 1
check "probabilities have theirs" test "$(grep -c 'samples  AUC [0-9.]*  log loss' "$work/log")" = 2
check "numbers have theirs" test "$(said "$work/log" | wc -l)" = 4
check "a part of what is listed" sh -c "'$TESSERA' eval '$work/o.deck' --set run.output='$work/host1' --set 'metrics.report=[\"auc\",\"mae\"]' | grep -c 'of stars: .* samples  MAE [0-9.]*\$' | grep -qx 1"
tess 2 predict "$work/o.deck" --set run.output="$work/host1" --out "$work/p.csv" > "$work/log" || exit 1
check "predictions" near "$work/want/p.csv" "$work/p.csv" 1e-4
cut -d, -f1,2 "$work/a.csv" > "$work/bare.csv"
tess 2 predict "$work/o.deck" --set run.output="$work/host1" --set data.eval="$work/bare.csv" --out "$work/bare_p.csv" > "$work/log" || exit 1
check "of files without labels" cmp "$work/p.csv" "$work/bare_p.csv"
check "nothing is said of them" test "$(grep -c samples "$work/log")" = 0

# Regression alone: progress, the best step and its figure.
one='--set data.columns=({name="stars";kind="label";label="real";},{name="u";kind="ids";encoding="none";},{name="v";kind="ids";encoding="none";}) --set model.over_arch=[1]'
go 2 best $one --set 'model.outputs=({name="stars";loss="mse";})' --set run.steps=12 --set run.valid_every=3 --set data.valid="$work/a.csv" --set run.stop='{patience=2;metric="mse";}' || exit 1
check "validations by mse" grep -q 'validation: mse [0-9.]* is the best so far' "$work/best/log"
check "no NE" test "$(grep -c '"ne"\|"window_auc"' "$work/best/metrics.jsonl")" = 0

# Data sets: a column a task, and what says which samples count beside them.
sed 's/^\([^,]*,[^,]*,0\),,/\1,0,/' "$work/a.csv" > "$work/full.csv"
convert() { tess 1 convert "$work/o.deck" --set run.output="$work/c" --set data.train="$work/full.csv" "$@" > "$work/log"; }
whole='--set model.outputs=({name="click";},{name="buy";},{name="stars";loss="mse";},{name="near";label="stars";loss="mae";},{name="off";label="stars";loss="mae";},{name="visits";loss="poisson";})'
check "converted" convert $whole --out "$work/d.h5"
check "what counts" convert --set 'data.columns=({name="click";kind="weight";},{name="buy";kind="label";},{name="u";kind="ids";encoding="none";},{name="v";kind="ids";encoding="none";})' \
  --set 'model.outputs=({name="buy";})' --out "$work/click.h5"
if command -v h5copy > /dev/null; then
  h5copy -i "$work/click.h5" -o "$work/d.h5" -s /sample_weights -d /click || exit 1
  for shuffle in none full; do
    for of in a.csv:csv d.h5:dataset; do
      go 2 ${of#*:}-$shuffle --set data.train="$work/${of%:*}" --set data.eval="$work/${of%:*}" --set data.format=${of#*:} --set data.shuffle=$shuffle || exit 1
    done
    check "data sets, shuffle $shuffle" same_bits "$(newest csv-$shuffle)" "$(newest dataset-$shuffle)"
  done
fi

# What is refused.
check "convert with where" fails 2 'has where, which is not written' tess 1 convert "$work/o.deck" --out "$work/x.h5"
check "where of made data" fails 2 'data of format synthetic has no such columns' train 1 made --set 'model.outputs=({where="a";})'
check "compare of numbers" fails 2 'is for loss bce: task "stars" has loss mse' tess 1 compare "$work/host1" "$work/host2"
check "calibration of numbers" fails 2 '\-\-calibration is for loss bce' tess 1 eval "$work/o.deck" --set run.output="$work/host1" --calibration
check "importance of numbers" fails 2 '\-\-importance is for loss bce' tess 1 eval "$work/o.deck" --set run.output="$work/host1" --importance
# Two tasks of one label have one truth.
two='--set model.over_arch=[16,2] --set run.steps=3'
train 1 same $two --set 'model.outputs=({name="a";label="y";},{name="b";label="y";})' || exit 1
train 1 apart $two --set 'model.outputs=({name="a";},{name="b";})' || exit 1
check "made labels are shared" test "$(losses same)" != "$(losses apart)"
train 1 tasks $two --set 'model.tasks=({name="a";},{name="b";})' || exit 1
check "outputs as tasks" same_bits "$(newest apart)" "$(newest tasks)"
passed
