#!/bin/sh
# serve.sh - files to serve: libtessera_serve's scores of f32 rows are those of
# predict, to the bit for each graph that comes along, and of topk, and follow
# each rule of ids, words and numbers; few bits are near; a delta of a run that
# went on; mistakes.
# seconds: 200  isa: all
. "$srcdir/tests/support/common.sh"
not_sanitized
cases=$srcdir/tests/oracle/cases
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py' 2>/dev/null && python=/usr/bin/python3
$python -c 'import h5py' 2>/dev/null || { echo "python3 with h5py is not here"; exit 77; }
lib=$(dirname "$TESSERA")/libtessera_serve.so.1
[ -f "$lib" ] || { echo "libtessera_serve is not built"; exit 77; }
cd "$work" || exit 99
serve() { PYTHONDONTWRITEBYTECODE=1 $python "$srcdir/tests/serve/serve.py" "$lib" "$@"; }
# of RUN COMMAND [options]: of its deck, trained before.
of() { run=$1; command=$2; shift 2; "$TESSERA" $command small.deck --quiet --set run.output="$work/$run" "$@" > out 2>&1 || { rc=$?; cat out; return $rc; }; }

check "neither MPI nor HDF5" sh -c "! readelf -d '$lib' | grep -E 'NEEDED.*(mpi|hdf5)'"
check "what it exports" sh -c "! nm -D --defined-only '$lib' | grep -vE ' tserve_[a-z_]*@@TESSERA_SERVE_1| A TESSERA_SERVE_1'"

# ---- each graph ------------------------------------------------------------
most=0; exact_rows || most=1e-6
for deck in "$cases"/*.deck; do
  name=$(basename "$deck" .deck); cp "$deck" small.deck
  data=$cases/data.csv; ! grep -q '"none"; features' "$deck" || data=$cases/sequences.csv
  train 1 "$name" --set data.train="$data" --set run.steps=3 || exit 1
  of "$name" export --format serve --tables f32 --set data.train="$data" --out "$name.f32" || exit 1
  if serve "$name.f32" is_items; then
    what=topk; items=; ! grep -q 'item_tower' "$deck" || { what=tower items="--set data.items=items.csv"; serve "$name.f32" tower_items "$data" items.csv; }
    of "$name" topk --data "$data" --set data.train="$data" $items --k 5 --out top.csv || exit 1
    check "$name: the best items" serve "$name.f32" $what "$data" top.csv
  else
    of "$name" predict --data "$data" --set data.train="$data" --out p.h5 || exit 1
    check "$name: predictions" serve "$name.f32" predict "$data" p.h5 $most
  fi
done
# A mask takes the place of the oldest of those that are kept.
cp "$cases/bert4rec.deck" small.deck; sed -i 's/max_length = [0-9]*/max_length = 3/' small.deck
for truncate in newest oldest; do
  sed -i 's/ truncate = "[a-z]*";//; s/max_length = 3;/& truncate = "'$truncate'";/' small.deck
  train 1 masks-$truncate --set data.train="$cases/sequences.csv" --set run.steps=3 || exit 1
  of masks-$truncate export --format serve --tables f32 --set data.train="$cases/sequences.csv" --out masks || exit 1
  of masks-$truncate topk --data "$cases/sequences.csv" --set data.train="$cases/sequences.csv" --k 5 --out top.csv || exit 1
  check "masks of bags that lose their $truncate" serve masks topk "$cases/sequences.csv" top.csv
done

# ---- each rule of ids, words and numbers -----------------------------------
serve masks rules_data a.csv
cat > rules.deck <<'DECK'
run = { name = "rules"; steps = 4; threads = 1; seed = 5; };
data = { train = "a.csv"; eval = "a.csv"; format = "csv"; global_batch = 32; max_bad = 1000;
  csv = { missing = ["NA", "-1", "8"]; };
  columns = ( { name = "label"; kind = "label"; },
    { name = "x0"; kind = "dense"; transform = "log1p_standardise"; },
    { name = "x1"; kind = "dense"; transform = "quantile"; },
    { name = "x2"; kind = "dense"; transform = "min_max"; },
    { name = "x3"; kind = "dense"; transform = "piecewise_linear"; bins = 4; },
    { name = "word"; kind = "ids"; encoding = "vocabulary"; min_count = 2; },
    { name = "hashed"; kind = "ids"; encoding = "hash"; seed = 3; missing = "word"; },
    { name = "number"; kind = "ids"; encoding = "modulo"; },
    { name = "bucket"; kind = "ids"; encoding = "bucketise"; bins = 5; },
    { name = "both"; kind = "ids"; encoding = "hash"; cross = ["word", "hashed"]; },
    { name = "hour"; kind = "ids"; part = "hour"; encoding = "hash"; from = "time"; },
    { name = "plain"; kind = "ids"; encoding = "none"; },
    { name = "list"; kind = "ids"; encoding = "vocabulary"; list_separator = "|"; missing = "word"; max_length = 3; },
    { name = "last"; kind = "ids"; encoding = "hash"; list_separator = "|"; truncate = "oldest"; max_length = 2; from = "list"; },
    { name = "places"; kind = "ids"; encoding = "hash"; list_separator = "|"; from = "list"; },
    { name = "weighted"; kind = "ids"; encoding = "hash"; } ); };
table_defaults = { dim = 8; rows = 40; };
tables = ( { name = "a"; features = ["word", "hashed", "number"]; },
  { name = "b"; rows = "auto"; features = "bucket"; }, { name = "c"; features = "both"; },
  { name = "d"; features = "hour"; }, { name = "j"; rows = 9; features = "plain"; }, { name = "e"; rows = "auto"; features = "list"; pooling = "mean"; },
  { name = "f"; features = ["last"]; },
  { name = "g"; features = "places"; feature_processor = { kind = "position_weighted"; max_length = 2; }; },
  { name = "h"; features = "weighted"; weighted = true; pooling = "mean"; },
  { name = "i"; features = "weighted"; rows = 20; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [8]; over_arch = [8, 1]; };
optimizer = { kind = "adam"; lr = 0.01; ema = 0.9; };
DECK
cp rules.deck small.deck
train 1 rules || exit 1
of rules export --format serve --tables f32 --out rules.f32 || exit 1
of rules predict --out p.h5 || exit 1
check "each rule of CSV" serve rules.f32 rules a.csv p.h5
check "missing ones there are" grep -q ',NA,' a.csv
for type in bf16 int8 int4; do
  of rules export --format serve --tables $type --dense bf16 --out few || exit 1
  check "$type: near" serve few rules a.csv p.h5 0.02
  check "$type: not the same" sh -c "! PYTHONDONTWRITEBYTECODE=1 $python '$srcdir/tests/serve/serve.py' '$lib' few rules a.csv p.h5 1e-7 2> /dev/null"
done
train 1 rules --set run.steps=8 || exit 1
of rules predict --out p8.h5 || exit 1
of rules export --format serve --tables f32 --base rules.f32 --out delta || exit 1
check "it has gone on" serve rules.f32 rules a.csv p.h5
check "a delta" serve rules.f32 rules a.csv p8.h5 1e-6 delta
of rules export --format serve --tables f32 --checkpoint "$work/rules/checkpoints/step-00000004.h5" --out rules.f32 || exit 1
for format in hash modulo vocabulary none; do
  serve masks dataset_data a.h5
  cat > small.deck <<DECK
run = { name = "numbers"; steps = 4; threads = 1; };
data = { train = "a.h5"; eval = "a.h5"; format = "dataset"; global_batch = 32; on_bad_id = "drop"; max_bad = 10000;
  columns = ( { name = "label"; kind = "label"; }, { name = "x0"; kind = "dense"; transform = "standardise"; },
    { name = "f"; kind = "ids"; encoding = "$format"; max_length = 2; }, { name = "g"; kind = "ids"; encoding = "modulo"; seed = 2; } ); };
table_defaults = { dim = 8; rows = 60; };
tables = ( { name = "a"; features = "f"; }, { name = "b"; features = "g"; } );
model = { kind = "dlrm"; dense_features = 1; dense_arch = [8]; over_arch = [8, 1]; };
optimizer = { kind = "sgd"; lr = 0.1; };
DECK
  train 1 numbers-$format || exit 1
  of numbers-$format export --format serve --tables f32 --out numbers || exit 1
  of numbers-$format predict --out p.h5 || exit 1
  check "ids of a data set: $format" serve numbers dataset a.h5 p.h5
done

# ---- mistakes --------------------------------------------------------------
says() { grep -q -- "$1" out || { echo "no word of $1:"; cat out; return 1; }; }
refused() { # WORDS of RUN ... : code 2
  words=$1; shift; of "$@" > /dev/null; rc=$?
  [ $rc = 2 ] && says "$words"
}
cp rules.deck small.deck
check "a type" refused "none of f32, bf16, int8, int4" rules export --format serve --tables int3 --out x
check "a format" refused "none of safetensors, pt-names, serve" rules export --format onnx --out x
check "an option of the other" refused "not for --format serve" rules export --format serve --state --out x
check "and the other way" refused "are for --format serve" rules export --tables int8 --out x
check "a base that is the file" refused "is the file that would be written" rules export --format serve --tables f32 --base rules.f32 --out rules.f32
head -c 3000 rules.f32 > cut
check "a base that is cut" refused "base cut: is damaged" rules export --format serve --tables f32 --base cut --out x
check "of another type" refused "another shape or type" rules export --format serve --tables int8 --base rules.f32 --out x
check "nothing is left" sh -c '! ls x x.part 2> /dev/null'
of rules export --format serve --tables f32 --checkpoint "$work/rules/checkpoints/step-00000004.h5" --base rules.f32 --out same || exit 1
check "nothing has changed" sh -c 'test $(wc -c < same) -lt 400'
passed
