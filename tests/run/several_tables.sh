#!/bin/sh
# several_tables.sh - a feature in several tables, of other dims, rows and
# weights, trains as one column for each table would, bit for bit: every format
# and sharding, ranks, cached tables, restarts; and what is said by its name.
# seconds: 600
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
cd "$work" || exit 99
# b has weights, of which bn knows nothing; a2, a3, bn2 are a and bn again.
awk 'BEGIN { print "y,x,a,b,bn,a2,a3,bn2"
  for (i = 0; i < 700; i++) {
    a = "u" i * i % 23; if (i % 5 == 0) a = a "|u" i % 7; if (i % 31 == 0) a = ""
    b = "w" i % 11 ":" i % 3 / 4; bn = "w" i % 11
    if (i % 4 == 1) { b = b "|v" i % 17; bn = bn "|v" i % 17 }
    print i * 7 % 5 % 2 "," i % 13 "," a "," b "," bn "," a "," a "," bn } }' > d.csv
tables() { # features of p, q, r, s
  cat <<DECK
tables = ( { name = "p"; dim = 16; features = [$1]; }, { name = "q"; rows = 37; dim = 8; features = [$2]; pooling = "mean"; },
  { name = "r"; dim = 1; features = [$3]; optimizer = { kind = "sgd"; lr = 0.5; }; },
  { name = "s"; rows = 60; dim = 4; features = [$4]; weighted = true; optimizer = { kind = "adam"; lr = 0.05; }; } );
table_defaults = { rows = 60; optimizer = { kind = "adagrad"; lr = 0.1; }; };
model = { kind = "dcnv2"; dense_features = 1; dense_arch = [8]; over_arch = [16, 1]; dcn = { layers = 2; rank = 8; }; };
run = { seed = 3; steps = 12; threads = 1; log_every = 4; };
sharding = { topology = "default"; };
DECK
}
csv='data = { train = "d.csv"; eval = "d.csv"; format = "csv"; global_batch = 96; csv = { label = "y"; dense = ["x"]; list_separator = "|"; }; };'
one='"a", "b"'
{ tables "$one" '"a"' "$one" '"b"'; echo "$csv"; } > one.deck
{ tables '"a", "bn"' '"a2"' '"a3", "bn2"' '"b"'; echo "$csv"; } > two.deck
# go RANKS FOLDER DECK OPTIONS...
go() {
  n=$1; to=$2; deck=$3; shift 3
  ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" train "$deck" --quiet --set run.output="$work/$to" "$@"
}
fails() { # PATTERN command...
  pattern=$1; shift
  "$@" > out 2> err && { echo "FAILED: $*: taken"; exit 1; }
  check "$*: one message" test "$(grep -c 'tessera: error' err)" = 1
  grep -q "$pattern" err || { cat err; echo "FAILED: $pattern"; exit 1; }
}
both() { # RANKS WHAT OPTIONS...
  ranks=$1; what=$2; shift 2
  rm -rf o1 o2
  check "$what on $ranks" go "$ranks" o1 one.deck "$@"
  check "$what on $ranks, twice in the data" go "$ranks" o2 two.deck "$@"
  check "$what on $ranks: the same bits" same_bits "$(newest o1)" "$(newest o2)"
}
auto="--set table_defaults.rows=auto --set tables.q.rows=auto --set tables.s.rows=auto --set data.csv.encoding=vocabulary"
input=kjt
for n in 1 2 4; do
  for kind in auto data_parallel table_wise row_wise column_wise table_row_wise table_column_wise grid; do
    [ $input = kjt ] && input=columns || input=kjt
    both $n "$kind, $input" --set table_defaults.sharding=$kind --set data.input=$input
  done
  both $n "words" $auto
  for o in o1 o2; do "$TESSERA" inspect --vocabulary a "$(newest $o)" > words.$o; done
  check "counted once" cmp words.o1 words.o2
done
check "rows by the words" test "$(sed -n 's/^    rows = //p' o1/deck.effective | tr -d '\n')" = "29;14;29;29;"

# Position weights of both tables: their names differ, not their bits.
places='{ kind = "position_weighted"; max_length = 2; }'
for n in 1 2; do
  for o in one two; do check "$o with positions" go $n p$o $o.deck --set "tables.p.feature_processor=$places" --set "tables.q.feature_processor=$places" --set run.log_every=1 --set table_defaults.sharding=row_wise; done
  check "positions: the same losses on $n" close_losses pone ptwo 0 12
done
h5ls -r "$(newest pone)" > list
check "of the first table" grep -q 'position_weight.a .*{2}' list
check "and of the other" grep -q 'position_weight.a@q .*{2}' list

# Ids cross once where tables of as many rows share a rank, here four of six.
sent() { sed -n 's/^ids  *\([0-9.]*\) KiB.*/\1/p' "$work/$1/log"; }
for kind in table_wise row_wise table_row_wise; do
  where=; [ $kind = table_wise ] && where="--set table_defaults.ranks=[1]"
  both 2 "$kind again" --set table_defaults.sharding=$kind $where
  check "$kind: fewer ids are sent" awk "BEGIN { exit !($(sent o1) < 0.75 * $(sent o2)) }"
done

# The planner counts them so: of what all ranks send, to themselves, too, each
# sends its part of the others.
cat > wide.deck <<DECK
tables = ( { name = "t{0..3}"; features = ["f{0..3}"]; } );
table_defaults = { rows = 20000; dim = 8; wide = true; };
data = { format = "synthetic"; batch_per_rank = 4096; synthetic = { samples = 40000; pooling = 3; }; };
model = { kind = "wide_deep"; dense_features = 1; };
run = { steps = 2; threads = 1; };
checkpoint = { dir = "none"; };
sharding = { topology = "default"; };
DECK
for n in 2 4; do
  for kind in table_wise row_wise auto; do
    check "$kind on $n, wide" go $n w wide.deck --set table_defaults.sharding=$kind
    ${MPIRUN:-mpirun} -q -n $n "$TESSERA" plan wide.deck --set table_defaults.sharding=$kind > plan || exit 1
    check "$kind on $n: ids as planned" awk -v n=$n '
      /^MiB that a rank sends/ { planned = $12 * 1024 }
      /^ids / { sent = $4 * ($5 == "MiB" ? 1024 : 1) * (n - 1) / n / n }
      END { exit !(sent > 20 && planned > 0.97 * sent && planned < 1.03 * sent) }' plan w/log
  done
done

# In slow memory, in parts, with micro-batches, in any order.
cached="--set table_defaults.sharding=row_wise --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.3 --set pipeline.kind=prefetch"
both 2 "cached" $cached
check "first part" go 2 parts one.deck $cached --set run.steps=5
check "second part" go 2 parts one.deck $cached
check "resumed: the same bits" same_bits "$(newest o1)" "$(newest parts)"
both 2 "micro-batches" --set run.accumulate=2
check "distinct bags" go 2 d1 one.deck --set 'data.dedup=["a"]'
check "distinct bags, twice in the data" go 2 d2 two.deck --set 'data.dedup=["a", "a2", "a3"]'
check "distinct bags: the same bits" same_bits "$(newest d1)" "$(newest d2)"
check "distinct bags of one table" go 2 d3 one.deck --set 'data.dedup=["a@q"]'
check "distinct bags of one table, twice in the data" go 2 d4 two.deck --set 'data.dedup=["a2"]'
check "distinct bags of one table: the same bits" same_bits "$(newest d3)" "$(newest d4)"
fails 'data.dedup: no table has a feature "a@s"' "$TESSERA" train one.deck --set 'data.dedup=["a@s"]'
both 2 "shuffled" --set data.shuffle=full $auto
both 2 "lines left out" --set data.on_bad_record=skip --set 'data.csv.label_true=[]' --set data.csv.label_threshold=1

# On an emulated GPU, which gets a batch in one copy or several.
host=$TESSERA
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
if [ -x "$emulated" ]; then
  TESSERA=$emulated
  for n in 1 2; do
    for input in kjt columns; do both $n "emulated, $input" --set run.backend=emulated --set run.steps=6 --set data.input=$input $auto; done
  done
  both 2 "emulated, row_wise" --set run.backend=emulated --set run.steps=6 --set table_defaults.sharding=row_wise
  TESSERA=$host
fi

# Data sets: ids modulo the rows, weights from the one that has some.
check "a data set" "$TESSERA" convert two.deck --set tables.q.rows=60 --out d.h5 > /dev/null
set_of() { echo "data = { train = \"d.h5\"; eval = \"d.h5\"; global_batch = 96; columns = ( $1 ); };"; }
column() { echo "{ name = \"$1\"; kind = \"ids\"; from = \"$2\"; encoding = \"modulo\"; }"; }
{ tables "$one" '"a"' "$one" '"b"'; set_of "$(column a a), $(column b b)"; } > one.deck
{ tables '"a", "bn"' '"a2"' '"a3", "bn2"' '"b"'
  set_of "$(column a a), $(column bn bn), $(column a2 a2), $(column a3 a3), $(column bn2 bn2), $(column b b)"; } > two.deck
for n in 1 2 4; do
  both $n "a data set"
  both $n "a data set in any order" --set data.shuffle=full --set data.input=columns
done
sed -i 's/modulo/vocabulary/g' one.deck two.deck
both 2 "numbers as words" --set table_defaults.rows=auto --set tables.q.rows=auto
sed -i 's/vocabulary/none/g' one.deck two.deck
both 2 "ids that are no rows" --set data.on_bad_id=drop --set data.shuffle=full
sed -i 's/none/hash/g' one.deck two.deck

# A file has one column, which features of several tables have to agree on.
check "a data set of it" "$TESSERA" convert one.deck --set tables.q.rows=60 --out e.h5 > /dev/null
check "with one column for each" test "$(h5ls e.h5/sparse | wc -l)" = 2
check "and its weights" h5ls e.h5/sparse/b/weights > /dev/null
fails 'feature a has other ids in table q than in table p' "$TESSERA" convert one.deck --out f.h5

# By name.
check "importance" "$TESSERA" eval one.deck --importance --repeats 1 --set run.output="$work/o1" > said
check "one line a column" test "$(grep -cE '^  (a|b) ' said)" = 2
check "vectors" "$TESSERA" predict one.deck --set run.output="$work/o1" --embeddings a,a@q,b@s --out v.h5 > /dev/null
h5ls -r v.h5 > list
check "of the first" grep -q '/embeddings/a/vectors .*60, 16' list
check "of a table" grep -q '/embeddings/a@q/vectors .*37, 8' list
check "of another" grep -q '/embeddings/b@s/vectors .*60, 4' list
fails 'no feature "b@q"; there are: a, b$' "$TESSERA" predict one.deck --set run.output="$work/o1" --embeddings b@q --out w.h5
check "groups by one" "$TESSERA" eval one.deck --quiet --set run.output="$work/o1" --set metrics.group=a@q --set 'metrics.report=["gauc"]'
fails 'no table has a feature "a@s"' "$TESSERA" eval one.deck --set metrics.group=a@s
fails 'feature "a" of table p is already in table p' "$TESSERA" train one.deck --set 'tables.p.features=["a", "b", "a"]'
fails 'its tables of group "wide" are read by model.layers alone' "$TESSERA" train one.deck --set tables.p.wide=true

# Criteo's logs.
awk 'BEGIN { for (i = 0; i < 300; i++) { printf "%d", i % 3 == 0
  for (k = 0; k < 13; k++) printf "\t%d", i % (k + 2)
  h = sprintf("%08x", i * i % 91 + 100); printf "\t%s\t%08x\t%s", h, i % 19, h
  for (k = 3; k < 26; k++) printf "\t"; print "" } }' > d.tsv
log='data = { train = "d.tsv"; format = "criteo_tsv"; global_batch = 64; };'
criteo() { # features of p, q, r
  tables "$@" '"C9"' | sed 's/^  { name = "s".*/);/; s/ }; },$/ }; } /; s/dense_features = 1/dense_features = 13/'; echo "$log"
}
criteo '"C1", "C2"' '"C1"' '"C2"' > one.deck
criteo '"C1", "C2"' '"C3"' '"C2"' | sed 's/"r"; dim = 1; features = ."C2"./"r"; dim = 1; features = ["C2"]/' > two.deck
both 2 "Criteo"
both 1 "Criteo's hashes" --set data.categorical=hash --set data.shuffle=full

# Made data: ids fit all tables, and their truth is one column's.
sed "s/^data = .*/data = { format = \"synthetic\"; global_batch = 64; synthetic = { samples = 500; pooling = [2, 1]; }; };/" one.deck > made.deck
check "made data" go 2 made made.deck --set tables.r.weighted=true
check "written" "$TESSERA" generate made.deck --set tables.r.weighted=true --out g.h5 > /dev/null
sed "s/^data = .*/data = { train = \"g.h5\"; global_batch = 64; };/" one.deck > read.deck
check "read" go 2 read read.deck --set tables.r.weighted=true
check "made or read: the same bits" same_bits "$(newest made)" "$(newest read)"

# Buckets of numbers, learnt once for all tables: of CSV, data sets and logs.
bucket() { echo "{ name = \"$1\"; kind = \"ids\"; from = \"$2\"; encoding = \"bucketise\"; bins = ${3:-5}; }"; }
word() { echo "{ name = \"$1\"; kind = \"ids\"; encoding = \"vocabulary\"; list_separator = \"|\"; }"; }
number='{ name = "x"; kind = "dense"; transform = "quantile"; }'
buckets() { echo "data = { train = \"d.csv\"; eval = \"d.csv\"; format = \"csv\"; global_batch = 96; csv = { label = \"y\"; }; columns = ( $number, $1 ); };"; }
{ tables "$one" '"a"' "$one" '"b"'; buckets "$(bucket a x), $(word b)"; } > one.deck
{ tables '"a", "bn"' '"a2"' '"a3", "bn2"' '"b"'
  buckets "$(bucket a x), $(word bn), $(bucket a2 x), $(bucket a3 x), $(word bn2), $(word b)"; } > two.deck
for n in 1 2; do both $n "buckets"; done
both 2 "buckets in any order" --set data.shuffle=full --set table_defaults.rows=auto --set tables.q.rows=auto --set tables.s.rows=auto
check "rows by the buckets" test "$(sed -n 's/^    rows = //p' o1/deck.effective | sed -n 2p)" = "6;"
fails 'table q' "$TESSERA" train one.deck --set tables.q.rows=5
sed "s/bins = 5/bins = 50/" one.deck > many.deck
check "said" sh -c '"$TESSERA" train many.deck --set run.output=many > said 2>&1'
check "once" test "$(grep -c '"a" has 1[0-9] bins, not 50' said)" = 1
check "a data set with bags" "$TESSERA" convert one.deck --set tables.q.rows=60 --out h.h5 > /dev/null
check "with one column for each" test "$(h5ls h.h5/sparse | wc -l)" = 2
{ tables "$one" '"a"' "$one" '"b"'; set_of "$number, $(bucket a x), $(column b b)"; } > one.deck
{ tables '"a", "bn"' '"a2"' '"a3", "bn2"' '"b"'
  set_of "$number, $(bucket a x), $(column bn bn), $(bucket a2 x), $(bucket a3 x), $(column bn2 bn2), $(column b b)"; } > two.deck
for shuffle in none full; do both 2 "buckets of a data set, $shuffle" --set data.shuffle=$shuffle; done
log="data = { train = \"d.tsv\"; format = \"criteo_tsv\"; global_batch = 64; columns = ( $(bucket a I3 3), { name = \"C2\"; kind = \"ids\"; } ); };"
criteo '"a", "C2"' '"a"' '"C2"' > one.deck
log=$(echo "$log" | sed "s/{ name = .C2./$(bucket a2 I3 3), &/")
criteo '"a", "C2"' '"a2"' '"C2"' > two.deck
both 2 "buckets of logs"
both 1 "buckets of logs in any order" --set data.shuffle=full
passed
