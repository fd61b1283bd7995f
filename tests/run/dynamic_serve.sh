#!/bin/sh
# dynamic_serve.sh - tables whose ids are any 64-bit number, served and written:
# scores are those of predict to the bit, and those of a table of as many rows;
# ids of all 64 bits, unknown ones, few bits; deltas when other ids have come
# and gone; exports, embeddings and topk; what is refused.  seconds: 100
. "$srcdir/tests/support/common.sh"
not_sanitized
cases=$srcdir/tests/oracle/cases
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py' 2>/dev/null && python=/usr/bin/python3
$python -c 'import h5py' 2>/dev/null || { echo "python3 with h5py is not here"; exit 77; }
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
lib=$(dirname "$TESSERA")/libtessera_serve.so.1
[ -f "$lib" ] || { echo "libtessera_serve is not built"; exit 77; }
cd "$work" || exit 99
export PYTHONDONTWRITEBYTECODE=1
serve() { $python "$srcdir/tests/serve/serve.py" "$lib" "$@"; }
ids() { $python "$srcdir/tests/serve/dynamic.py" "$@"; }
run() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
fails() { # CODE PATTERN command...
  want=$1; pattern=$2; shift 2
  "$@" > out 2> err; code=$?
  [ $code = "$want" ] && grep -q -e "$pattern" err || cat out err
  check "code $want for $pattern, not $code" test $code = "$want"
  check "$pattern is said" grep -q -e "$pattern" err
}
# of RUN COMMAND [options]: of its deck, trained before.
of() { run=$1; command=$2; shift 2; "$TESSERA" $command small.deck --quiet --set run.output="$work/$run" "$@" > out 2>&1 || { rc=$?; cat out; return $rc; }; }

# ---- as tables of as many rows, in each kind of graph ------------------------
# All but targets, whose items are rows, and times.
dynamic() { sed '/"next"\|"when"\]\|pooling = "none"; features = \["candidate"\]/!s/rows = \([0-9]*\);/rows = "dynamic"; capacity = \1;/'; }
dynamic < small.deck > first.deck
for name in din bst hstu_context two_tower two_tower_items deepfm_wide esmm masknet wide_deep; do
  data=$cases/data.csv; ! grep -q '"none"; features' "$cases/$name.deck" || data=$cases/sequences.csv
  set="--set data.train=$data"
  cp "$cases/$name.deck" plain.deck; dynamic < plain.deck > dynamic.deck
  check "$name: dynamic tables" grep -q dynamic dynamic.deck
  for kind in plain dynamic; do
    cp $kind.deck small.deck
    check "$name: trains" train 1 "$name-$kind" $set --set table_defaults.sharding=table_wise
    for type in f32 int8; do check "$name: a file" of "$name-$kind" export --format serve --tables $type $set --out $kind.$type; done
    if serve $kind.f32 is_items; then
      how=topk; items=; ! grep -q 'item_tower' small.deck || { how=tower items="--set data.items=items.csv"; serve $kind.f32 tower_items "$data" items.csv; }
      check "$name: topk" of "$name-$kind" topk --data "$data" $set $items --k 5 --out $kind.csv
      check "$name: the best items" serve $kind.f32 $how "$data" $kind.csv
    else
      check "$name: predicts" of "$name-$kind" predict --data "$data" $set --out $kind.h5
      check "$name: predictions" serve $kind.f32 predict "$data" $kind.h5 0
      check "$name: near" serve $kind.int8 predict "$data" $kind.h5 0.05
    fi
  done
  if serve dynamic.f32 is_items; then check "$name: ids as rows" cmp plain.csv dynamic.csv
  else check "$name: ids as rows" h5diff -q plain.h5 dynamic.h5 /predictions /predictions; fi
  if serve plain.int8 is_items; then continue; fi
  check "$name: ids as rows, of few bits" ids same_scores "$lib" plain.int8 dynamic.int8 "$data"
  f=user; grep -q '"user"' plain.deck || f=f0; grep -q "\"$f\"" plain.deck || f=site
  for kind in plain dynamic; do cp $kind.deck small.deck; check "$name: rows" of "$name-$kind" predict $set --embeddings $f --out e-$kind.csv; done
  check "$name: the same rows" ids same_rows e-plain.csv e-dynamic.csv
done

# ---- ids of 64 bits ------------------------------------------------------------
awk 'BEGIN {
  n = split("-5 0 7 9223372036854775807 -9223372036854775808 1099511627776 -1 -2 123456789012345678 123456789012345679", id, " ")
  print "label,user,list,cut,place"
  for (i = 0; i < 240; i++) print (i * i % 7 % 2) "," id[i % n + 1] "," id[i % 4 + 1] "|" id[i * 7 % n + 1] "," (i % 5 ? id[i % 3 + 1] "|" id[i % 6 + 1] "|" id[i % 7 + 1] : "") "," id[i % 9 + 1] "|" id[i % 8 + 1] }' > ids.csv
awk 'NR == 1 || NR % 3 { print; next } { gsub(/123456789012345678/, "-8888888888888888888"); sub(/,[^,]*,/, ",4242424242424242,"); print }' ids.csv | head -n 61 > other.csv
cat > kept.deck <<'DECK'
run = { name = "ids"; steps = 12; threads = 1; log_every = 1; };
data = { train = "ids.csv"; eval = "other.csv"; format = "csv"; global_batch = 40;
  columns = ( { name = "label"; kind = "label"; }, { name = "user"; kind = "ids"; encoding = "none"; },
    { name = "list"; kind = "ids"; encoding = "none"; list_separator = "|"; },
    { name = "cut"; kind = "ids"; encoding = "none"; list_separator = "|"; max_length = 2; },
    { name = "place"; kind = "ids"; encoding = "none"; list_separator = "|"; } ); };
table_defaults = { dim = 8; rows = "dynamic"; capacity = 90; optimizer = { kind = "rowwise_adagrad"; lr = 0.1; }; };
tables = ( { name = "user"; features = ["user"]; evict = { kind = "ttl"; ttl = 1000; every = 5; }; }, { name = "list"; features = ["list"]; },
  { name = "cut"; features = ["cut"]; },
  { name = "place"; features = ["place"]; feature_processor = { kind = "position_weighted"; max_length = 2; }; } );
model = { kind = "dlrm"; dense_features = 0; over_arch = [8, 1]; };
sharding = { topology = "default"; };
DECK
for encoding in none modulo hash; do
  sed "s/encoding = \"none\"/encoding = \"$encoding\"/g" kept.deck > small.deck
  check "$encoding: trains" train 2 "$encoding" --set table_defaults.sharding=row_wise
  check "$encoding: predicts" of $encoding predict --out p.h5
  check "$encoding: a file" of $encoding export --format serve --tables f32 --out $encoding.f32
  check "$encoding: predictions" serve $encoding.f32 predict other.csv p.h5 1e-7
  for type in bf16 int8 int4; do
    check "$encoding: $type" of $encoding export --format serve --tables $type --out few
    check "$encoding: $type: near" serve few predict other.csv p.h5 0.05
  done
done
cp kept.deck small.deck
check "ids as numbers" ids numbers "$lib" none.f32 other.csv
check "serve-bench" "$TESSERA" serve-bench none.f32 --seconds 0.01 --batch 64 --ids 3
"$TESSERA" serve-bench none.f32 --seconds 0.01 --batch 64 --dump dumped > /dev/null 2>&1
check "its ids are the table's" $python -c '
import numpy as np
ids = np.load("dumped/ids_64.npy")
assert ids.min() == -2**63 and ids.max() == 2**63 - 1, ids'
# Weights of ids, and a data set.
cat > weights.deck <<'DECK'
run = { name = "weights"; steps = 6; threads = 1; };
data = { train = "w.csv"; eval = "w.csv"; format = "csv"; global_batch = 20;
  columns = ( { name = "label"; kind = "label"; }, { name = "w"; kind = "ids"; encoding = "hash"; list_separator = "|"; missing = "word"; } ); };
tables = ( { name = "w"; dim = 8; rows = "dynamic"; capacity = 50; features = "w"; weighted = true; pooling = "mean"; } );
model = { dense_features = 0; layers = ( { name = "deep"; kind = "mlp"; in = "embeddings"; units = [8]; }, { name = "y"; kind = "linear"; in = "deep"; units = 1; } ); };
DECK
awk 'BEGIN { print "label,w"; for (i = 0; i < 60; i++) print i % 2 "," (i % 5 ? "a" i % 7 ":" i % 3 + 0.5 "|b" i % 4 : "") }' > w.csv
cp weights.deck small.deck
check "weighted: trains" train 1 weights
check "weighted: predicts" of weights predict --out p.h5
check "weighted: a file" of weights export --format serve --tables f32 --out w.f32
check "weighted: predictions" $python - "$srcdir/tests/serve" "$lib" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import h5py, serve
s = serve.Serve(sys.argv[2], "w.f32")
cells = [r["w"].split("|") if r["w"] else [] for r in serve.read_csv("w.csv")]
bags = [[(x.split(":")[0], float((x.split(":") + ["1"])[1])) for x in one] or [("", 1.0)] for one in cells]
got = [x[0] for x in s.score(len(bags), [], [bags])]
want = h5py.File("p.h5")["predictions"][:].tolist()
assert max(abs(a - b) for a, b in zip(got, want)) < 1e-7 and len(set(got)) > 20, (got, want)
PY
cp kept.deck small.deck
check "a data set" "$TESSERA" convert small.deck --quiet --out ids.h5 --set data.train=other.csv
sed '/^  columns/d; /^    { name = "[lcp][a-z]*"; kind/d; s/global_batch = 40;/& };/; s/"csv"/"dataset"/; s/ids.csv/ids.h5/; s/other.csv/ids.h5/' kept.deck > small.deck
check "a data set: trains" train 1 set --set run.steps=1 --set data.global_batch=20
check "a data set: predicts" of set predict --out p.h5
check "a data set: a file" of set export --format serve --tables f32 --out set.f32
check "a data set: predictions" $python - "$srcdir/tests/serve" "$lib" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import h5py, serve
s = serve.Serve(sys.argv[2], "set.f32")
with h5py.File("ids.h5") as f:
    n, bags = len(f["labels"]), []
    for name in s.features:
        v = f[f"sparse/{name}/values"][:].tolist()
        at = f[f"sparse/{name}/offsets"][:].tolist() if f"sparse/{name}/offsets" in f else list(range(n + 1))
        bags.append([v[at[i]:at[i + 1]] for i in range(n)])
got = [x[0] for x in s.score(n, [], bags)]
assert got == h5py.File("p.h5")["predictions"][:].tolist()
PY

# ---- deltas ----------------------------------------------------------------------
# Ids have come that none had, and those of the first data go.
awk 'BEGIN { print "label,user,list,cut,place"; for (i = 0; i < 400; i++) { a = i * 2654435761; printf "%d,%.0f,%.0f|7,%.0f|0,%d|%.0f\n", i % 2, i % 3 ? a : -a, a + 1, -a, i % 50, a } }' > later.csv
sed 's/capacity = 90/capacity = 500/; s/ttl = 1000/ttl = 4/' kept.deck > small.deck
check "begins" train 1 more --set table_defaults.sharding=table_wise
for type in f32 bf16 int8 int4; do check "$type: a base" of more export --format serve --tables $type --out base.$type; done
cp -r more same
check "goes on with the same ids" train 1 same --set run.steps=13 --set table_defaults.sharding=table_wise
check "goes on with others" train 1 more --set run.steps=22 --set data.train=later.csv --set table_defaults.sharding=table_wise
cat other.csv > both.csv; tail -n +2 later.csv | head -n 60 >> both.csv
for go in same more; do for type in f32 bf16 int8 int4; do
  check "$go $type: a file" of $go export --format serve --tables $type --out whole
  check "$go $type: a delta" of $go export --format serve --tables $type --base base.$type --out delta
  check "$go $type: the same" ids alike "$lib" base.$type whole delta both.csv
  [ $go = more ] || check "$go $type: no ids in it" eval '! grep -q ids/user delta'
done; done
check "others are there" ids numbers "$lib" base.int4 both.csv delta
dropped() { h5dump -w 1 -y -d /dynamic/user/ids "$(newest more)" | grep -qw 123456789012345678; }
check "some have gone" eval '! dropped'
check "nothing changed" of same export --format serve --tables f32 --out whole
check "nothing changed: a delta" of same export --format serve --tables f32 --base whole --out delta
check "nothing changed: nothing in it" test "$(wc -c < delta)" -lt 400

# ---- tensors and embeddings --------------------------------------------------------
cp kept.deck small.deck
check "tensors" of none export --state --out tensors
check "as the checkpoint" ids exported tensors "$(newest none)"
for n in 1 3; do for to in csv h5; do
  check "embeddings" run $n predict small.deck --quiet --set run.output="$work/none" --embeddings user --out e$n.$to
  check "$to on $n: as the checkpoint" ids embeddings e$n.$to "$(newest none)" user
done; done
check "of several ranks" cmp e1.csv e3.csv

# ---- what is refused ---------------------------------------------------------------
cp first.deck small.deck; check "a run" train 1 first --set run.steps=2; cp kept.deck small.deck
fails 2 'has dynamic/[a-e]/ids, which TorchRec.s DLRM has not: --names own takes any model' "$TESSERA" export first.deck --set run.output="$work/first" --names torchrec --out x
sed 's/rows = "dynamic"; capacity = 90;/rows = 90;/; s/ evict = {[^}]*};//; s/"none"/"modulo"/' kept.deck > plain.deck
fails 4 'table user: rows = "dynamic" is in the deck or the checkpoint alone' "$TESSERA" export plain.deck --set run.output="$work/none" --format serve --out x
cp plain.deck small.deck; check "a run of rows" train 1 rows --set data.on_bad_id=drop --set data.max_bad=1000; cp kept.deck small.deck
fails 4 'table user: rows = "dynamic" is in the deck or the checkpoint alone' "$TESSERA" export small.deck --set run.output="$work/rows" --format serve --out x
fails 4 'has no ids for table user, whose rows are "dynamic"' run 2 predict small.deck --set run.output="$work/rows" --embeddings user --out x.csv
check "a file of rows" "$TESSERA" export plain.deck --quiet --set run.output="$work/rows" --format serve --tables f32 --out rows.f32
fails 2 'another shape or type there' "$TESSERA" export small.deck --set run.output="$work/none" --format serve --tables f32 --base rows.f32 --out x
check "nothing is left" sh -c '! ls -d x x.part x.csv 2> /dev/null'
passed
