#!/bin/sh
# compress.sh - tables that are trained as parts: each kind's rows beside plain
# Python's, as tables that say the parts themselves, on any ranks, pipelines and
# devices, restarts, rows = "auto", words, serving; what is refused.  seconds: 60
. "$srcdir/tests/support/common.sh"
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py' 2>/dev/null && python=/usr/bin/python3
$python -c 'import h5py, numpy' 2>/dev/null || { echo "python3 with h5py and numpy is not here"; exit 77; }
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
cd "$work" || exit 99
rows() { $python "$srcdir/tests/run/compress.py" "$@"; }
fails() { # CODE PATTERN command...
  want=$1; pattern=$2; shift 2
  "$@" > out 2> err; code=$?
  [ $code = "$want" ] && grep -q -e "$pattern" err || cat out err
  check "code $want for $pattern, not $code" test $code = "$want"
  check "$pattern is said" grep -q -e "$pattern" err
}
awk 'BEGIN { print "label,a,b,c,d,e,list,s"
  for (i = 0; i < 240; i++) { l = i * 7 % 200; for (k = 1; k < i % 4; k++) l = l "|" (i * 13 + k * 31) % 200
    t = i * 3 % 200; for (k = 1; k < i % 3 + 1; k++) t = t "|" (i * 5 + k * 17) % 200
    print (i * i % 7 % 2) "," i * 11 % 200 "," i * 17 % 200 "," i * 29 % 200 "," i * 3 % 200 "," i % 50 "," l "," t } }' > data.csv
columns() { # FEATURE...
  for f; do case $f in list*|s) printf '{ name = "%s"; kind = "ids"; encoding = "none"; list_separator = "|"; },\n' "$f" ;; *) printf '{ name = "%s"; kind = "ids"; encoding = "none"; },\n' "$f" ;; esac; done | sed '$ s/,$//'
}
head_of() { # DATA FEATURE...
  data=$1; shift
  cat << DECK
run = { name = "c"; seed = 3; steps = 12; threads = 1; log_every = 1; };
data = { train = "$data"; eval = "$data"; format = "csv"; global_batch = 40; max_tokens = 4000;
  columns = ( { name = "label"; kind = "label"; }, $(columns "$@") ); };
table_defaults = { rows = 200; dim = 8; optimizer = { kind = "rowwise_adagrad"; lr = 0.1; }; };
optimizer = { kind = "adam"; lr = 0.01; };
sharding = { topology = "default"; };
DECK
}

# ---- what rows are made of ---------------------------------------------------
{ head_of data.csv a b c d e list s; cat << 'DECK'; } > small.deck
tables = (
  { name = "product"; features = ["a"]; compress = { kind = "quotient_remainder"; collisions = 7; }; },
  { name = "sum"; features = ["list"]; pooling = "mean"; compress = { kind = "quotient_remainder"; collisions = 7; combine = "add"; }; },
  { name = "behind"; features = ["a", "b"]; compress = { kind = "quotient_remainder"; collisions = 9; combine = "concat"; }; },
  { name = "hashed"; features = ["list", "c"]; compress = { kind = "hashes"; hashes = 3; rows = 20; }; },
  { name = "narrow"; features = ["d", "e"]; compress = { kind = "low_rank"; rank = 3; }; },
  { name = "one"; features = ["c"]; compress = { kind = "low_rank"; rank = 2; }; },
  { name = "mixed"; features = ["list", "d"]; compress = { kind = "blocks"; starts = [10, 100]; dims = [8, 4, 2]; }; },
  { name = "tokens"; features = ["s"]; pooling = "none"; compress = { kind = "quotient_remainder"; collisions = 5; }; },
  { name = "plain"; features = ["a", "list"]; } );
model = { layers = (
  { name = "all"; kind = "concat"; in = ["a@product", "list@sum", "a@behind", "b@behind", "list@hashed", "c@hashed", "d@narrow", "e@narrow", "c@one", "list@mixed", "d@mixed", "a@plain", "list@plain"]; },
  { name = "pooled"; kind = "pool"; in = "s"; by = "sum"; },
  { name = "both"; kind = "concat"; in = ["all", "pooled"]; },
  { name = "last"; kind = "mlp"; in = "both"; units = [16, 1]; last_activation = "linear"; } );
  outputs = ( { label = "label"; in = "last"; loss = "bce"; } ); };
DECK
check "trains" train 1 one
for layer in all pooled; do check "$layer is told" "$TESSERA" predict small.deck --quiet --set run.output="$work/one" --layer $layer --out $layer.h5 > /dev/null; done
check "rows are as papers have them" rows "$(newest one)" data.csv all.h5 pooled.h5
fails 3 'sample 3 of the 40 that a rank has read has 2 ids: compress.combine' train 1 bad --set tables.sum.compress.combine=multiply

# ---- the deck in force, restarts, ranks, pipelines, devices --------------------
if [ -z "${TESSERA_SANITIZED:-}" ]; then
sed "s|output = .*|output = \"$work/again\";|; s|dir = \".*checkpoints\"|dir = \"\"|" one/deck.effective > again.deck
check "the deck in force" "$TESSERA" train again.deck --quiet
check "is the same deck" same_bits "$(newest one)" "$(newest again)"
for n in 2 4; do
  check "$n ranks" train $n ranks$n
  check "losses on $n ranks" close_losses one ranks$n 1e-5 12
done
check "rows in few bits" train 1 bits --set table_defaults.dtype=int8
check "losses of few bits" close_losses one bits 0.02 12
check "narrow rows are f32" sh -c 'h5ls -r "$1" | grep -q "^/model/.*one_low_rank.weight Dataset {200, 2}$" && h5ls -r "$1" | grep -q "^/model/.*plain.weight Dataset {200, 16}$"' - "$(newest bits)"
check "to step 7" train 2 part --set run.steps=7
check "goes on, on 2 ranks" train 2 part
check "restarted to the bit" same_bits "$(newest ranks2)" "$(newest part)"
check "goes on, on 3 ranks" train 1 more --set run.steps=7
check "on 3 ranks" train 3 more
check "losses of a restart on 3 ranks" close_losses one more 1e-5 12
for kind in base fused_sparse_dist prefetch; do
  check "pipeline $kind" train 2 "p-$kind" --set pipeline.kind=$kind --set table_defaults.sharding=row_wise
  check "$kind: losses" close_losses one "p-$kind" 1e-5 12
done
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  check "emulated device" env TESSERA="$emulated" sh -c '"$TESSERA" train "$1/small.deck" --quiet --set run.output="$1/device" --set run.backend=emulated --set sharding.memory_gib=4' - "$work"
  check "losses there" close_losses one device 1e-5 12
fi
fi

# ---- tables that say their parts themselves, to the bit -------------------------
check "columns of parts" sh -c '"$1" "$2" columns data.csv > parts.csv' - $python "$srcdir/tests/run/compress.py"
model() { # LAYERS: in of the last one
  printf 'model = { layers = ( %s\n  { name = "last"; kind = "mlp"; in = [%s]; units = [16, 1]; last_activation = "linear"; } );\n  outputs = ( { label = "label"; in = "last"; loss = "bce"; } ); };\n' "$1" "$2"
}
{ head_of parts.csv a b c list; cat << 'DECK'; model '' '"a@product", "list@sum", "a@behind", "b@behind", "list@hashed", "c@hashed", "list@mixed", "list@plain"'; } > small.deck
tables = ( { name = "product"; features = ["a"]; compress = { kind = "quotient_remainder"; collisions = 7; }; },
  { name = "sum"; features = ["list"]; pooling = "mean"; compress = { kind = "quotient_remainder"; collisions = 7; combine = "add"; }; },
  { name = "behind"; features = ["a", "b"]; compress = { kind = "quotient_remainder"; collisions = 9; combine = "concat"; }; },
  { name = "hashed"; features = ["list", "c"]; compress = { kind = "hashes"; hashes = 3; rows = 20; }; },
  { name = "mixed"; features = ["list"]; compress = { kind = "blocks"; starts = [10, 100]; dims = [8, 8, 8]; }; },
  { name = "plain"; features = ["list"]; } );
DECK
check "parts" train 1 short
{ head_of parts.csv a_q7 a_r7 a_q9 a_r9 b_q9 b_r9 list list_q7 list_r7 list_h0 list_h1 list_h2 list_m0 list_m1 list_m2 c_h0 c_h1 c_h2; cat << 'DECK'; } > small.deck
tables = ( { name = "product_quotient"; rows = 29; features = ["a_q7"]; }, { name = "sum_quotient"; rows = 29; features = ["list_q7"]; pooling = "mean"; },
  { name = "behind_quotient"; rows = 23; dim = 4; features = ["a_q9", "b_q9"]; }, { name = "hashed_hash0"; rows = 20; features = ["list_h0", "c_h0"]; },
  { name = "mixed_block0"; rows = 10; features = ["list_m0"]; }, { name = "plain"; features = ["list"]; },
  { name = "product_remainder"; rows = 7; features = ["a_r7"]; init = { kind = "constant"; scale = 1.0; }; }, { name = "sum_remainder"; rows = 7; features = ["list_r7"]; pooling = "mean"; },
  { name = "behind_remainder"; rows = 9; dim = 4; features = ["a_r9", "b_r9"]; },
  { name = "hashed_hash{1..2}"; rows = 20; features = ["list_h{1..2}", "c_h{1..2}"]; },
  { name = "mixed_block1"; rows = 90; features = ["list_m1"]; }, { name = "mixed_block2"; rows = 100; features = ["list_m2"]; } );
DECK
model '{ name = "product"; kind = "multiply"; in = ["a_q7", "a_r7"]; }, { name = "sum"; kind = "add"; in = ["list_q7", "list_r7"]; },
  { name = "a9"; kind = "concat"; in = ["a_q9", "a_r9"]; }, { name = "b9"; kind = "concat"; in = ["b_q9", "b_r9"]; },
  { name = "lh"; kind = "add"; in = ["list_h0", "list_h1", "list_h2"]; }, { name = "ch"; kind = "add"; in = ["c_h0", "c_h1", "c_h2"]; },
  { name = "m"; kind = "add"; in = ["list_m0", "list_m1", "list_m2"]; },' '"product", "sum", "a9", "b9", "lh", "ch", "m", "list"' >> small.deck
check "the same by hand" train 1 long
check "to the bit" rows same "$(newest short)" "$(newest long)"

# ---- groups of inputs, words, rows = "auto", serving ----------------------------
awk -F, 'NR == 1 { print; next } { OFS = ","; $3 = "w" $3 % 40; print }' data.csv > words.csv
{ head_of words.csv a b c | sed 's/name = "b"; kind = "ids"; encoding = "none"/name = "b"; kind = "ids"; encoding = "vocabulary"/'; cat << 'DECK'; } > small.deck
tables = ( { name = "a"; features = ["a"]; compress = { kind = "low_rank"; rank = 2; }; },
  { name = "b"; features = ["b"]; rows = "auto"; compress = { kind = "quotient_remainder"; collisions = 6; }; }, { name = "c"; features = ["c"]; } );
model = { kind = "dlrm"; dense_features = 0; over_arch = [8, 1]; };
DECK
check "of words" train 2 words
check "rows that the data need" sh -c 'h5ls -r "$1" | grep -q "b_quotient.weight Dataset {7, 8}" && h5ls -r "$1" | grep -q "/model/.*a_low_rank.weight Dataset {200, 2}"' - "$(newest words)"
check "one input of all" sh -c '"$TESSERA" train small.deck --check | grep -q "^  fields@ *stack *(B, 3, 8)"'
of() { command=$1; shift; "$TESSERA" $command small.deck --quiet --set run.output="$work/words" "$@"; }
check "predicts" of predict --out p.h5
lib=$(dirname "$TESSERA")/libtessera_serve.so.1
if [ -f "$lib" ] && [ -z "${TESSERA_SANITIZED:-}" ]; then
  check "a file" of export --format serve --tables f32 --out m.serve
  check "scores" $python "$srcdir/tests/serve/serve.py" "$lib" m.serve predict words.csv p.h5 1e-6
fi
check "goes on from it" train 1 from --set checkpoint.init_from="$(newest words)" --set run.steps=1
sed 's/w7,/v7,/' words.csv > other.csv
fails 4 'its words are others there' train 1 other --set data.train=other.csv --set checkpoint.init_from="$(newest words)"
fails 2 'compress and so no row of an id' of predict --embeddings b --out e.csv
# Other ids than there are.
loud() { ranks=$1; folder=$2; shift 2; "$TESSERA" train small.deck --set run.output="$work/$folder" "$@" > out 2>&1 || { cat out; return 1; }; }
fails 3 'is not a row of table c, which has 100 rows' train 1 bad --set tables.c.rows=100
fails 3 'is not a row of table c, which has 100 rows' train 1 bad --set tables.c.rows=100 --set tables.c.compress.kind=hashes --set tables.c.compress.hashes=2 --set tables.c.compress.rows=9
check "ids are left out" loud 1 left --set tables.c.rows=100 --set tables.c.compress.kind=hashes --set tables.c.compress.hashes=2 --set tables.c.compress.rows=9 --set data.on_bad_id=drop
check "each once" sh -c 'grep -i "bad ids" out | grep -q "^.*234 bad ids were dropped" || { cat out; exit 1; }'

# ---- what is refused -------------------------------------------------------------
refused() { # MESSAGE KEY=VALUE...: of table c
  message=$1; shift; set=
  for x; do set="$set --set tables.c.$x"; done
  fails 2 "$message" "$TESSERA" train small.deck --check $set
}
refused 'low_rank needs compress.rank' compress.kind=low_rank
refused 'low_rank needs compress.rank' compress.kind=low_rank compress.rank=8
refused 'key rank of compress is for kind "low_rank", and its kind is "none"' compress.rank=2
refused 'key dims of compress is for kind "blocks"' compress.kind=low_rank compress.rank=2 compress.dims=[2]
refused 'needs compress.collisions' compress.kind=quotient_remainder
refused 'halves dim, which is odd' compress.kind=quotient_remainder compress.collisions=4 compress.combine=concat dim=7
refused 'hashes needs compress.rows' compress.kind=hashes compress.hashes=2
refused 'hashes needs compress.hashes' compress.kind=hashes compress.rows=2
refused 'one more: that of each block' compress.kind=blocks compress.starts=[5] compress.dims=[5]
refused 'over 0 and ascend' compress.kind=blocks compress.starts=[5,5] compress.dims=[5,4,3]
refused 'are less than rows' compress.kind=blocks compress.starts=[500] compress.dims=[5,4]
refused 'compress.collisions is less than rows' compress.kind=quotient_remainder compress.collisions=200
refused 'would multiply weights, too' compress.kind=quotient_remainder compress.collisions=5 weighted=true
refused 'takes no max_norm' compress.kind=low_rank compress.rank=2 max_norm=1
refused 'takes no feature_processor' compress.kind=low_rank compress.rank=2 feature_processor.kind=position_weighted feature_processor.max_length=3
refused 'at least 1 and at most dim' compress.kind=blocks compress.starts=[50] compress.dims=[9,4]
refused 'blocks takes pooling = "sum"' compress.kind=blocks compress.starts=[50] compress.dims=[8,4] pooling=mean
refused 'has no number of ids to compress' compress.kind=low_rank compress.rank=2 rows=dynamic capacity=50
refused 'is not one of: none, quotient_remainder' compress.kind=quotient
fails 2 'metrics.group needs those of feature b as they are' "$TESSERA" train small.deck --check --set metrics.group=b
# ---- what goes with it -----------------------------------------------------------
ok() { "$TESSERA" train small.deck --check "$@" > out 2>&1 || { cat out; return 1; }; }
low="--set tables.c.compress.kind=low_rank --set tables.c.compress.rank=2"
check "wide" ok $low --set tables.c.wide=true --set model.kind=wide_deep --set 'model.over_arch=[1]'
check "its own table" grep -q '^c_wide ' out
check "none, whatever the defaults say" ok --set table_defaults.compress.kind=low_rank --set table_defaults.compress.rank=2 --set tables.b.compress.collisions=0 --set tables.b.compress.kind=low_rank
{ head_of data.csv d e list; cat << 'DECK'; } > small.deck
tables = ( { name = "narrow"; features = ["d", "e"]; compress = { kind = "low_rank"; rank = 3; }; }, { name = "l"; features = ["list"]; dim = 1; } );
model = { layers = ( { name = "x"; kind = "concat"; in = ["d", "e@narrow", "list"]; }, { name = "y"; kind = "concat"; in = ["d@narrow", "x"]; },
  { name = "z"; kind = "linear"; in = "y"; units = 1; } ); outputs = ( { label = "label"; in = "z"; loss = "bce"; } ); };
DECK
check "read by two layers" ok
check "one of each name" test "$(grep -c '^  d@project@narrow_low_rank' out)" = 1
fails 2 'reads "d@project@narrow_low_rank", which is (B, 8)' "$TESSERA" train small.deck --check --set 'model.outputs=({ name = "click"; label = "label"; in = "d"; loss = "bce"; }, { name = "other"; label = "label"; in = "z"; loss = "bce"; })'
check "dedup by the table's name" ok --set 'data.dedup=["d@narrow"]'
fails 2 'metrics.group needs those of feature d@narrow' "$TESSERA" train small.deck --check --set metrics.group=d@narrow
passed
