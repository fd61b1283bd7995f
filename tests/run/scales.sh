#!/bin/sh
# scales.sh - trainings whose numbers go through every transform: wide columns
# in every model, ranks, pipelines, restarts; what was learnt is the
# checkpoint's, whatever data are read later.  seconds: 200  isa: all
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
cd "$work" || exit 99
cat > scales.deck <<'DECK'
run = { name = "scales"; seed = 11; steps = 20; threads = 1; log_every = 1; output = "out"; };
data = { train = "train.csv"; eval = "test.csv"; format = "csv"; global_batch = 64;
  csv = { label = "y"; };
  columns = ( { name = "a"; kind = "dense"; from = "x"; transform = "piecewise_linear"; bins = 4; },
    { name = "b"; kind = "dense"; from = "z"; transform = "quantile"; bins = 20; },
    { name = "c"; kind = "dense"; from = "z"; transform = "min_max"; },
    { name = "d"; kind = "dense"; from = "z"; transform = "clip"; max = 5; },
    { name = "e"; kind = "dense"; from = "x"; transform = "standardise"; },
    { name = "f"; kind = "dense"; from = "x"; transform = "piecewise_linear"; edges = [-1.0, 0.0, 1.0]; },
    { name = "u"; kind = "ids"; from = "x"; encoding = "bucketise"; bins = 8; },
    { name = "v"; kind = "ids"; encoding = "vocabulary"; } ); };
tables = ( { name = "u"; rows = "auto"; dim = 8; features = ["u"]; }, { name = "v"; rows = "auto"; dim = 8; features = ["v"]; } );
model = { kind = "dlrm"; dense_features = 6; dense_arch = [16, 8]; over_arch = [16, 1]; };
optimizer = { kind = "adam"; lr = 1e-2; };
sharding = { topology = "default"; };
DECK
rows() { # SEED ROWS SCALE
  awk -v seed="$1" -v n="$2" -v scale="$3" 'BEGIN { srand(seed); print "y,x,z,v"
    for (i = 0; i < n; i++) { x = scale * (rand() + rand() + rand() - 1.5)
      z = rand() < 0.1 ? "" : sprintf("%.6f", scale * 10 * rand() * rand())
      printf "%d,%.6f,%s,w%d\n", (x * x > 0.3), x, z, i % 13 } }'
}
rows 1 2000 1 > train.csv
rows 2 300 4 > test.csv
run() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
# scaled RANKS FOLDER [options]
scaled() { n=$1; to=$2; shift 2; run "$n" train scales.deck --quiet --set run.output="$work/$to" "$@"; }

check "on 1" scaled 1 one
for n in 2 4; do
  check "on $n" scaled $n on$n
  check "what $n ranks learn is what one does" h5diff -q "$(newest one)" "$(newest on$n)" /loader/state /loader/state
  check "losses of $n" close_losses one on$n 1e-6 20
done
h5dump -d /loader/state "$(newest one)" > dump
width=$("$TESSERA" inspect "$(newest one)" | sed -n 's/.*dense_arch\.model\._mlp\.0\._linear\.weight *//p' | head -n 1)
check "the first layer takes what columns become: $width" sh -c "echo '$width' | grep -q '(16, 10)'"
for kind in dcnv2 deepfm sparsenn; do
  more="--set model.kind=$kind"
  [ $kind = dcnv2 ] && more="$more --set model.dcn.layers=2 --set model.dcn.rank=4"
  [ $kind = deepfm ] && more="$more --set model.dense_arch=[] --set model.over_arch=[1] --set model.deepfm={hidden=12;fm_dim=9;}"
  for n in 1 2; do check "$kind on $n" scaled $n $kind$n $more; done
  check "$kind: losses" close_losses ${kind}1 ${kind}2 1e-6 20
done
for kind in base fused_sparse_dist; do
  check "$kind" scaled 2 $kind --set pipeline.kind=$kind
  check "$kind: the same bits" same_bits "$(newest on2)" "$(newest $kind)"
done

emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  host=$TESSERA TESSERA=$emulated
  check "uploaded" scaled 2 uploaded --set run.backend=emulated
  TESSERA=$host
  check "has the host's losses" close_losses on2 uploaded 1e-6 20
fi

# A run that goes on has what it had learnt.
check "half" scaled 2 half --set run.steps=10
check "the other half" scaled 2 half
check "straight = stop + resume" same_bits "$(newest on2)" "$(newest half)"
check "and what it has learnt" h5diff -q "$(newest on2)" "$(newest half)" /loader/state /loader/state

# A sample has its score whatever is read beside it.
from="--checkpoint $(newest one)"
for n in 1 2; do check "predict on $n" run $n predict scales.deck $from --quiet --out p$n.csv; done
check "the same bytes" same_predictions p1.csv p2.csv
{ head -n 1 test.csv; tail -n 1 test.csv; } > last.csv
check "predict one" run 1 predict scales.deck $from --quiet --out lastp.csv --set data.eval=last.csv
check "its score" test "$(tail -n 1 lastp.csv)" = "$(tail -n 1 p1.csv)"
check "scores differ" test "$(sort -u p1.csv | wc -l)" -ge 100
check "importance" run 2 eval scales.deck $from --importance > importance
for name in a f u v; do check "of $name" grep -q "^  $name  " importance; done

# Written as the model takes them: no transform comes a second time.
check "convert" run 2 convert scales.deck --quiet --out train.h5
check "as wide" sh -c "h5ls train.h5 | grep -q 'dense .*{2000, 10}'"
sed 's/{ name = "u"; kind.*/{ name = "v"; kind = "ids"; } ); };/; /name = "v"; kind = "ids"; encoding/d' scales.deck |
  sed 's/{ name = "u"; rows = "auto"; dim = 8; features = \["u"\]; }, //; /csv = {/d' > again.deck
code=0; run 2 train again.deck --quiet --set data.format=dataset --set data.train=train.h5 --set data.eval=[] 2> err || code=$?
check "code 3, not $code" test $code = 3
check "and why" grep -q 'its numbers went through transforms when it was written' err
cat > plain.deck <<'DECK'
run = { seed = 11; steps = 20; threads = 1; log_every = 1; };
data = { train = "train.h5"; format = "dataset"; global_batch = 64; };
tables = ( { name = "u"; rows = "auto"; dim = 8; features = ["u"]; }, { name = "v"; rows = "auto"; dim = 8; features = ["v"]; } );
model = { kind = "dlrm"; dense_features = 10; dense_arch = [16, 8]; over_arch = [16, 1]; };
optimizer = { kind = "adam"; lr = 1e-2; };
sharding = { topology = "default"; };
DECK
check "of the data set" run 1 train plain.deck --quiet --set run.output="$work/plain"
losses one > x; losses plain > y
check "has the same losses" cmp x y
passed
