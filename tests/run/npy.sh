#!/bin/sh
# npy.sh - data of NumPy's arrays: every way in which files may have them, as
# numpy itself writes them, against the same samples in HDF5, to the bit; ranks,
# shuffles, going on inside an epoch; MLPerf's layout; damaged and hostile files.
# With TESSERA_DATA_DIR UCI Adult, too, with the losses of its CSV.
# seconds: 200
. "$srcdir/tests/support/common.sh"
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null && python=/usr/bin/python3
$python -c 'import h5py, numpy' 2>/dev/null || { echo "python3 with numpy and h5py is not here"; exit 77; }
make=$srcdir/tests/run/npy.py
check "files" $python "$make" make "$work"

cat > "$work/own.deck" <<'DECK'
run = { steps = 24; seed = 3; threads = 1; log_every = 1; };
data = { train = "own.npz"; global_batch = 60; };
table_defaults = { dim = 4; rows = 50; optimizer = { kind = "rowwise_adagrad"; lr = 0.1; }; };
tables = ( { name = "ab"; features = ["a", "b"]; }, { name = "c"; features = ["c"]; pooling = "mean"; }, { name = "d"; features = ["d"]; },
  { name = "e"; features = ["e"]; weighted = true; }, { name = "f"; features = ["f"]; } );
model = { dense_features = 3; dense_arch = [4]; over_arch = [8, 1]; };
optimizer = { kind = "adam"; lr = 1e-2; };
sharding = { topology = "default"; };
DECK
sparse=$(seq 0 25 | sed 's/.*/"cat_&"/' | paste -sd, -)
sed "s/train = \"own.npz\"/train = \"one.h5\"/; s/^tables = .*/tables = ( { name = \"t_{0..25}\"; features = [\"cat_{0..25}\"]; } );/; /^  { name = \"e\"/d
  s/dense_features = 3/dense_features = 13/" "$work/own.deck" > "$work/days.deck"
go() { # RANKS FOLDER DECK FILE [options]
  ranks=$1; folder=$2; deck=$3; file=$4; shift 4
  ${MPIRUN:-mpirun} -q -n "$ranks" "$TESSERA" train "$work/$deck.deck" --quiet --set run.output="$work/$folder" --set data.train="$file" "$@"
}
same() { # RUN RUN: losses and weights
  [ "$(losses "$1" | wc -l)" = 24 ] && [ "$(losses "$1")" = "$(losses "$2")" ] && same_bits "$(newest "$1")" "$(newest "$2")"
}

# The same samples, by any way.
for ranks in 1 2; do check "HDF5, $ranks ranks" go $ranks h5-$ranks own own.h5; done
for way in own.npz packed.npz own_labels.npy; do
  for ranks in 1 2; do
    check "$way, $ranks ranks" go $ranks "$way-$ranks" own "$way"
    check "$way, $ranks ranks: as HDF5" same "$way-$ranks" h5-$ranks
  done
done
check "two files" go 2 parts own 'part-*.npz'
check "two files: as HDF5" same parts h5-2
check "by name" go 1 named own own.npz --set data.format=npy
check "by name: as HDF5" same named h5-1
columns='({name="label";kind="label";from="clicked";},{name="one";kind="dense";},{name="two";kind="dense";},{name="x";kind="dense";from="three";})'
check "a column an array" go 2 columns own columns.npz --set data.columns="$columns"
check "a column an array: as HDF5" same columns h5-2
for order in full block; do
  check "HDF5, $order" go 2 h5-$order own own.h5 --set data.shuffle=$order
  for way in packed.npz own_dense.npy; do
    check "$way, $order" go 2 "$way-$order" own "$way" --set data.shuffle=$order
    check "$way, $order: as HDF5" same "$way-$order" h5-$order
  done
done
pairs="({name=\"ab\";features=[\"a\"];},{name=\"c\";features=[\"c\"];})"
for way in npz h5; do check "pairs of 32 bits, $way" go 2 pairs-$way own pairs.$way --set tables="$pairs" --set model.dense_features=2 --set data.shuffle=full; done
check "pairs of 32 bits: as HDF5" same pairs-npz pairs-h5
check "orders differ" test "$(losses h5-full)" != "$(losses h5-2)"
check "a part of it is for validation" go 2 split own own.npz --set data.split.valid=0.2 --set run.valid_every=12
check "the same of HDF5" go 2 split-h5 own own.h5 --set data.split.valid=0.2 --set run.valid_every=12
check "validation: as HDF5" same_bits "$(newest split)" "$(newest split-h5)"

# Rows that have to be given; words of numbers, hashes, buckets of an array of numbers.
go 1 rows own own.npz --set 'table_defaults.rows="auto"' 2> "$work/err"; code=$?
check "rows that are not known: code 2 or 3, not $code" test $code = 2 -o $code = 3
check "are said" grep -q 'table ab: rows = "auto" is not known' "$work/err"
ids='{name="a";kind="ids";encoding="vocabulary";},{name="b";kind="ids";encoding="hash";},{name="c";kind="ids";encoding="modulo";},{name="d";kind="ids";},{name="e";kind="ids";},{name="f";kind="ids";encoding="bucketise";from="one";edges=[-1.0,0.0,2.5];}'
dense='{name="one";kind="dense";transform="standardise";},{name="two";kind="dense";},{name="x";kind="dense";from="three";}'
check "encodings" go 2 encoded own columns.npz --set table_defaults.rows=60 --set data.columns="({name=\"label\";kind=\"label\";from=\"clicked\";},$dense,$ids)"
check "encodings of HDF5" go 2 encoded-h5 own own.h5 --set table_defaults.rows=60 --set data.columns="($dense,$ids)"
check "encodings: as HDF5" same encoded encoded-h5

# It goes on inside an epoch.
check "eleven steps" go 2 again own packed.npz --set data.shuffle=full --set run.steps=11
check "the rest" go 2 again own packed.npz --set data.shuffle=full
check "as without a break" same_bits "$(newest again)" "$(newest h5-full)"

# Out of it: a data set, predictions, keys.
check "convert" "$TESSERA" convert "$work/own.deck" --quiet --out "$work/made.h5"
check "converted" go 2 made own made.h5
check "converted: the same" same made h5-2
check "predict" "$TESSERA" predict "$work/own.deck" --quiet --set run.output="$work/h5-1" --set data.eval=own.npz --keys key --out "$work/scores.csv"
check "keys" test "$(sed -n '1p;$s/,.*//p' "$work/scores.csv" | tr '\n' ' ')" = "key,prediction 4990 "
check "predict without labels" "$TESSERA" predict "$work/own.deck" --quiet --set run.output="$work/h5-1" --set data.eval=unlabelled.npz --keys key --out "$work/bare.csv"
check "the same scores" cmp -s "$work/scores.csv" "$work/bare.csv"

# MLPerf's layout.
check "one-hot in HDF5" go 2 one-h5 days one.h5
check "multi-hot in HDF5" go 2 multi-h5 days multi.h5
check "one-hot" go 2 one days 'one/day_*_dense.npy'
check "one-hot: as HDF5" same one one-h5
check "all files" go 1 all days 'one/day_*'
check "HDF5, one rank" go 1 one-h5-1 days one.h5
check "all files: as HDF5" same all one-h5-1
check "multi-hot" go 2 multi days 'multi/*_labels.npy'
check "multi-hot: as HDF5" same multi multi-h5
check "multi-hot, deflated" go 2 packed days 'packed/day_*' --set data.shuffle=full
check "HDF5, shuffled" go 2 multi-h5-full days multi.h5 --set data.shuffle=full
check "multi-hot, deflated: as HDF5" same packed multi-h5-full
sed "s/{ name = \"t_{0..25}\"; features = \[\"cat_{0..25}\"\]; }/{ name = \"t\"; features = [$sparse]; }/; s/cat_\([0-9]*\)/w\1/g" "$work/days.deck" > "$work/order.deck"
check "columns in order" go 1 order order one/day_0_dense.npy

# Damaged files, and what is not read: code 3 and one message that names it.
$python "$make" hostile "$work" > "$work/cases" || { echo "FAILED: hostile files"; exit 1; }
cat > "$work/hostile.deck" <<'DECK'
run = { steps = 1; threads = 1; };
data = { train = "right.npz"; format = "npy"; global_batch = 10; columns = ( { name = "label"; kind = "label"; } ); };
tables = ( { name = "t"; rows = 50; dim = 4; features = ["a"]; } );
model = { dense_features = 1; dense_arch = [4]; over_arch = [1]; };
DECK
refused() { # WORDS FILE [options]
  words=$1; file=$2; shift 2
  "$TESSERA" convert "$work/hostile.deck" --quiet --set data.train="$file" --out "$work/none.h5" "$@" > "$work/out" 2> "$work/err"; code=$?
  [ $code = 3 ] && [ "$(grep -c '^tessera: error:' "$work/err")" = 1 ] && grep -qF -- "$words" "$work/err" &&
    { grep -qF -- "${file%%_*}" "$work/err" || [ "$words" != "${words#the data has}" ]; } && [ ! -e "$work/none.h5" ] && return
  echo "code $code, not 3, or not one message \"$words\", or a file:"; cat "$work/err"; return 1
}
while IFS='	' read -r name said; do
  if [ -n "$said" ]; then
    check "$name" refused "$said" "$name.npz"
  else
    check "$name" "$TESSERA" convert "$work/hostile.deck" --quiet --set data.train="$name.npz" --out "$work/right.h5"
  fi
done < "$work/cases"
check "several ranks: one message" sh -c "! ${MPIRUN:-mpirun} -q -n 2 '$TESSERA' train '$work/hostile.deck' --set data.train=crc.npz --set run.output='$work/no' 2> '$work/err' > '$work/out'"
check "it is one" test "$(grep -c 'its checksum is wrong' "$work/err")" = 1
days() { refused "$@" --set "tables=({name=\"t\";rows=50;dim=4;features=[$sparse];})" --set model.dense_features=13; }
cp -r "$work/one" "$work/two"; cp "$work"/multi/day_0_sparse* "$work/two"
check "two files of ids: which" days 'are ids of the same samples: name one of them' two/day_0_dense.npy
check "two files of ids: both" days 'are ids of the same samples: name one of them' 'two/day_*'
check "the one" "$TESSERA" bench read "$work/days.deck" --set data.train=two/day_0_sparse.npy > "$work/out"
rm "$work/two/day_0_labels.npy"
check "a file that is missing" days 'two/day_0_*.npy: has no array label' two/day_0_sparse.npy
head -c 3000 "$work/one/day_1_dense.npy" > "$work/two/day_1_dense.npy"
check "a file that is cut" days "two/day_1_dense.npy: dense: (90, 13) elements of 4 bytes don't fill its 2872 bytes" two/day_1_labels.npy
mkdir "$work/few"; cp "$work"/multi/day_0_* "$work/few"
$python - "$work/few/day_0_sparse_multi_hot.npz" <<'PY'
import numpy, sys
x = dict(numpy.load(sys.argv[1]))
seven = x.pop("7")
numpy.savez(sys.argv[1], **x)
x["7"] = seven[:, :, None][:, :, :0]
numpy.savez(sys.argv[1].replace("few/day_0", "few/day_1"), **x)
PY
for file in labels dense; do cp "$work/few/day_0_$file.npy" "$work/few/day_1_$file.npy"; done
check "a member of another shape" days 'and not (N) or (N, K)' few/day_1_dense.npy
check "a member that is missing" days 'day_0_sparse_multi_hot.npz: has no member 7.npy' few/day_0_dense.npy
cp "$work/one/day_0_dense.npy" "$work/single.npy"
check "an array alone" refused 'format npy takes an .npz, or files whose names are' single.npy
mkfifo "$work/two/pipe_labels.npy"
check "a pipe" refused 'is not a file' two/pipe_labels.npy
check "no room to unpack" sh -c "OMPI_MCA_orte_tmpdir_base='$work' PRTE_MCA_prte_tmpdir_base='$work' TMPDIR='$work/own.npz' '$TESSERA' convert '$work/own.deck' --set data.train=packed.npz --out '$work/none.h5' 2> '$work/err'; test \$? = 1"
check "is said" grep -qF own.npz/tessera-npz- "$work/err"

# UCI Adult: the words' rows are those of CSV's vocabularies. The planner looks at
# samples of arrays and not of CSV, so the plan is given: another one rounds in
# another order.
adult=${TESSERA_DATA_DIR:-}/adult
if [ -r "$adult/adult.data" ]; then
  check "Adult as arrays" $python "$make" adult "$TESSERA_DATA_DIR" "$work"
  { echo 'columns = ('
    for c in age fnlwgt education-num capital-gain capital-loss hours-per-week; do echo "{ name = \"$c\"; kind = \"dense\"; from = \"$c\"; transform = \"log1p_standardise\"; },"; done
    for c in workclass education marital-status occupation relationship race sex native-country age capital-gain capital-loss hours-per-week; do
      echo "$comma{ name = \"$c\"; kind = \"ids\"; from = \"id_$c\"; encoding = \"none\"; }"; comma=,; done
    echo '); };'; } > "$work/adult_columns"
  sed "/format = \"csv\"/{
    s/csv/npy/
    r $work/adult_columns
  }; /csv = {/,/encoding = /d" "$srcdir/input/adult.deck" > "$work/adult.deck"
  for part in data test; do sed -i "s|\${TESSERA_DATA_DIR}/adult/adult.$part|adult-$part.npz|" "$work/adult.deck"; done
  for ranks in 1 2; do
    check "Adult, CSV, $ranks" ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" train "$srcdir/input/adult.deck" --quiet --set run.output="$work/csv-$ranks" --set run.threads=1 --set run.log_every=1 --set run.epochs=1.0 --set table_defaults.sharding=table_wise
    check "Adult, npy, $ranks" ${MPIRUN:-mpirun} -q -n $ranks "$TESSERA" train "$work/adult.deck" --quiet --set run.output="$work/npy-$ranks" --set run.threads=1 --set run.log_every=1 --set run.epochs=1.0 --set table_defaults.sharding=table_wise
    check "Adult: the same losses, $ranks" test "$(losses csv-$ranks)" = "$(losses npy-$ranks)"
    check "Adult: all of them" test "$(losses csv-$ranks | wc -l)" -gt 100
  done
fi
passed
