#!/bin/sh
# train_errors.sh - one message on stderr and the documented code, at 4 ranks.
# seconds: 300
. "$srcdir/tests/support/common.sh"
# fails CODE PATTERN command...: the code, one line of error, and what it says.
fails() {
  want=$1; pattern=$2; shift 2
  n_checks=$((n_checks + 1))
  "$@" > "$work/out" 2> "$work/err"; code=$?
  lines=$(grep -c 'tessera: error' "$work/err")
  if [ $code != "$want" ] || [ "$lines" != 1 ] || ! grep -q "$pattern" "$work/err"; then
    echo "FAILED: $* gave $code ($want is right), $lines messages:"; cat "$work/err"; exit 1
  fi
}
fails 2 'did you mean' train 4 a --set optimizer.lrr=1
fails 2 'out of range' train 4 a --set run.threads=-1
fails 2 'it needs run.backend = "cuda"' train 4 a --set comm.backend=nccl
fails 2 'no layer "over_arch.7"; there are: dense_arch.0, dense_arch.1, over_arch.0, over_arch.1, over_arch.2' train 4 a \
  --set dense.parallel=fully_sharded --set 'dense.forward_prefetch=({layer="over_arch.0";prefetch=["over_arch.7"];})'
fails 2 'do not make up 4' train 4 a --set dense.parallel=fully_sharded --set dense.reshard_after_forward=3
fails 2 'is not one of: base' train 4 a --set pipeline.kind=mystery
fails 2 'needs optimizer.in_backward = false' train 4 a --set pipeline.kind=semi_sync --set pipeline.stash_gradients=true
fails 2 'has no momentum' train 4 a --set tables.a.optimizer.momentum=0.5
fails 2 'must be equal' train 4 a --set 'model.dense_arch=[32,8]'
fails 2 'matches no parameter' train 4 a --set 'optimizer.overrides=({match="nothing*";lr=1.0;})'
fails 3 'no such file' train 4 a --set data.format=dataset --set 'data.train=nowhere.h5'
head -c 5000 /dev/urandom > "$work/noise.h5"
fails 3 'not a whole HDF5 file' train 4 a --set data.format=dataset --set "data.train=$work/noise.h5"
printf '1\t1\t2\n0\tx\t2\n' > "$work/bad.txt"
fails 3 'bad.txt:2' train 2 a --set data.format=criteo_tsv --set "data.train=$work/bad.txt" --set model.dense_features=13 --set tables.e.weighted=false
{ echo label,x,y,z,fa,fb,fc,fd,fe,ff
  for i in $(seq 1 300); do echo "$((i % 2)),3e38,-3e38,3e38,$i,$i,$i,$i,$i,$i"; done; } > "$work/huge.csv"
fails 3 'not a number' train 4 nan --set 'model.over_arch=[1]' --set 'table_defaults.init={kind="normal";scale=1e6;}' --set data.format=csv --set "data.train=$work/huge.csv" --set 'data.csv.dense=["x","y","z"]' --set tables.e.weighted=false
check "no checkpoint of it" test -z "$(newest nan)"
check "a run to damage" train 4 good
fails 4 'in the file and' train 4 good --set tables.a.rows=51 --set run.steps=50
fails 4 'must' train 4 none --set checkpoint.resume=must
cp -r "$work/good" "$work/flipped"
for f in "$work"/flipped/checkpoints/*.h5; do
  at=$(grep -obUaP '\x00' "$f" | head -n 1 | cut -d: -f1); at=$(($(stat -c %s "$f") / 2))
  printf '\377\377\377\377\377\377\377\377' | dd of="$f" bs=1 seek=$at conv=notrunc 2> /dev/null
done
"$TESSERA" inspect "$f" --verify > "$work/out" 2> "$work/err"; code=$?
check "inspect finds the damage, or it hit no data ($code)" test $code = 4 -o $code = 0
if [ $code = 4 ]; then fails 4 'damaged' train 4 flipped --set run.steps=50; fi
truncate -s 3000 "$work"/flipped/checkpoints/*.h5
fails 4 'HDF5 file' train 2 flipped --set run.steps=50
fails 2 'did you mean' "$TESSERA" trian x.deck
fails 2 'usage' "$TESSERA" train
fails 4 'no checkpoint' ${MPIRUN:-mpirun} -q -n 2 "$TESSERA" eval "$work/small.deck" --quiet --set run.output="$work/empty"
# A limit on the size of files: of one rank, since those of MPI count, too.
large() { (ulimit -f 20000; exec "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/large" --set run.steps=2 --set tables.c.rows=1000000); }
fails 4 'File too large' large
check "no half of a file" test -z "$(find "$work/large" -name '*.part')"
passed
