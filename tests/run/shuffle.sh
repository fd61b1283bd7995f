#!/bin/sh
# shuffle.sh - data.shuffle: the same order on any number of ranks and over a
# restart in the middle of an epoch; formats give the same samples; what is
# refused.  seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
fails() { # CODE PATTERN command...
  want=$1; pattern=$2; shift 2
  "$@" > "$work/out" 2> "$work/err"; code=$?
  check "code $want for $pattern, not $code" test $code = "$want"
  check "$pattern is said" grep -q -e "$pattern" "$work/err"
}
differ() { # two runs' losses; those that can't be read don't
  losses "$1" > "$work/x"; losses "$2" > "$work/y"
  [ -s "$work/x" ] && [ -s "$work/y" ] && ! cmp -s "$work/x" "$work/y"
}
# 1000 samples are 10 batches of 96 and one of 40.
f32="--set tables.c.dtype=f32 --set tables.d.dtype=f32 --set optimizer.kind=adagrad --set tables.b.optimizer.kind=rowwise_adagrad --set tables.e.optimizer.kind=sgd"
check "not shuffled" train 1 none $f32
for kind in full block; do
  set="--set data.shuffle=$kind --set data.shuffle_window=0.01"
  for n in 1 2 4; do check "$kind on $n" train $n $kind$n $f32 $set; done
  check "$kind is another order" differ ${kind}1 none
  for n in 2 4; do check "$kind: 1 and $n ranks agree" close_losses ${kind}1 $kind$n 1e-6 40; done
  check "$kind, stopped in the second epoch" train 2 moved$kind $f32 $set --set run.steps=17
  check "$kind, on 4 ranks from there" train 4 moved$kind $f32 $set
  check "$kind: the same samples" close_losses ${kind}1 moved$kind 1e-6 40
  check "$kind, another pipeline" train 2 base$kind $f32 $set --set pipeline.kind=base --set run.lanes=serial
  check "$kind: pipelines don't matter" close_losses ${kind}1 base$kind 1e-6 40
done
check "full and block differ" differ full1 block1
# Each batch of three places of the data, in their order or shuffled.
for kind in none block; do
  set="--set data.streams=3 --set data.shuffle=$kind --set data.shuffle_window=0.01"
  for n in 1 2 3; do check "streams, $kind, on $n" train $n streams$kind$n $f32 $set; done
  check "streams, $kind: another order" differ streams${kind}1 none
  for n in 2 3; do check "streams, $kind: 1 and $n ranks agree" close_losses streams${kind}1 streams$kind$n 1e-6 40; done
  check "streams, $kind, stopped in the second epoch" train 3 movedstreams$kind $f32 $set --set run.steps=17
  check "streams, $kind, on 2 ranks from there" train 2 movedstreams$kind $f32 $set
  check "streams, $kind: the same samples" close_losses streams${kind}1 movedstreams$kind 1e-6 40
done
check "streams of a shuffle are others" differ streamsnone1 streamsblock1
check "streams, to step 17" train 2 cut --set data.streams=3 --set run.steps=17
fails 4 'data.streams was 3, the deck has 1' train 2 cut
fails 4 'data.streams was 3, the deck has 2' train 2 cut --set data.streams=2
fails 4 'goes by the batch, which was 96 samples (data.global_batch) and is 48 now' train 2 cut --set data.streams=3 --set data.global_batch=48
fails 2 'data.streams = 7: a batch of 96 samples' train 2 seven --set data.streams=7
fails 2 'data.streams = 3: a batch of 64 samples' train 2 each --set data.streams=3 --set data.batch_per_rank=32 --check
# A checkpoint of the middle of an epoch.
full="--set data.shuffle=full"
check "to step 17" train 2 part $full --set run.steps=17
fails 4 'data.shuffle was "full", the deck has "none"' train 2 part
fails 4 'data.shuffle was "full", the deck has "block"' train 2 part --set data.shuffle=block
fails 4 'run.seed was 11, the deck has 12' train 2 part $full --set run.seed=12
check "goes on as it was" train 2 part $full --set run.steps=22
check "another order from an epoch's start on" train 2 part --set data.shuffle=block --set run.steps=25
fails 4 'data.shuffle_window was 64 MiB, the deck has 1:' train 2 part --set data.shuffle=block --set data.shuffle_window=1
check "no shuffle in a checkpoint" train 2 plain --set run.steps=17
fails 4 'data.shuffle was "none", the deck has "full"' train 2 plain $full
# Files: a log, and data sets of it with and without HDF5's own reading.
cat > "$work/criteo.deck" <<'DECK'
run = { steps = 12; log_every = 1; threads = 1; };
data = { train = "log.tsv"; format = "criteo_tsv"; global_batch = 96; shuffle = "full"; };
tables = ( { name = "t{0..25}"; rows = 1000; dim = 16; features = ["C{1..26}"]; } );
model = { dense_features = 13; dense_arch = [16]; over_arch = [1]; };
sharding = { topology = "default"; };
DECK
run() { n=$1; shift; ${MPIRUN:-mpirun} -q -n "$n" "$TESSERA" "$@"; }
go() { n=$1; folder=$2; shift 2; run "$n" train "$work/criteo.deck" --quiet --set run.output="$work/$folder" "$@"; }
check "a log" run 1 generate "$work/criteo.deck" --quiet --out "$work/log.tsv" --format criteo_tsv --set data.synthetic.samples=500
check "a data set of it, whose deck shuffles" run 2 convert "$work/criteo.deck" --quiet --out "$work/log.h5"
check "text in full" go 2 text
check "a data set in full" go 2 set --set data.format=dataset --set data.train=log.h5
check "are the same" close_losses text set 1e-7 12
check "in order" go 2 ordered --set data.shuffle=none
check "and not in order" differ text ordered
head -n 200 "$work/log.tsv" > "$work/part1.tsv"; tail -n +201 "$work/log.tsv" > "$work/part2.tsv"
check "of two files" go 2 parts --set 'data.train=["part1.tsv","part2.tsv"]'
check "as of one" close_losses text parts 1e-7 12
if command -v h5repack > /dev/null; then
  h5repack -l CHUNK=64 -f GZIP=1 "$work/log.h5" "$work/packed.h5" 2> /dev/null || h5repack -f GZIP=1 "$work/log.h5" "$work/packed.h5"
  check "a packed data set" go 2 packed --set data.format=dataset --set data.train=packed.h5
  check "is the same, too" close_losses text packed 1e-7 12
fi
gzip -c "$work/log.tsv" > "$work/log.tsv.gz"
fails 2 'log.tsv.gz: packed text is read in order.*tessera convert' go 2 gz --set data.train=log.tsv.gz
check "convert takes it, as it says" run 2 convert "$work/criteo.deck" --quiet --out "$work/gz.h5" --set data.train=log.tsv.gz
{ echo label,x,y,z,fa,fb,fc,fd,fe,ff
  for i in $(seq 1 300); do echo "$((i * i % 7 % 2)),$((i % 5)),$((i % 3)),$i,$i,$i,$i,$i,$i,$i"; done; } > "$work/few.csv"
csv="--set data.format=csv --set data.train=$work/few.csv --set tables.e.weighted=false --set run.steps=8"
for n in 1 2; do check "CSV in full on $n" train $n csv$n $f32 $csv $full --set 'data.csv.dense=["x","y","z"]'; done
check "CSV: ranks don't matter" close_losses csv1 csv2 1e-5 8

# Where the lines of a large file are is looked for once, as long as it stays.
python3 - "$work/few.csv" "$work/large.csv" <<'END'
import base64, gzip, random, sys
lines = open(sys.argv[1]).read().split()
draw = random.Random(1)
with gzip.open(sys.argv[2] + ".gz", "wt", 1) as f:
    for line in [lines[0] + ",pad"] + [x + "," + base64.b64encode(draw.randbytes(900)).decode() for x in lines[1:] * 5]:
        f.write(line + "\n")
pad = ',"' + 'long,\n' * 10 + '"\n'
open(sys.argv[2], "w").write(lines[0] + ",pad\n" + pad.join(lines[1:] * 640) + pad)
END
large="$csv --set run.output=$work/known --set data.csv.dense=[\"x\",\"y\",\"z\"]"
samples() { # KIND FILE RANKS
  run "$3" train "$work/small.deck" --check $large --set data.train="$work/$2" | sed -n 's/^data.train: csv, \([0-9,]*\) samples.*/\1/p' > "$work/samples"
  check "$1: $(cat "$work/samples")" test "$(cat "$work/samples")" = "$4"
}
change() { # the number of lines that is kept, by ADD; or its places
  python3 - "$1" "$2" "$work"/known/lines-* <<'END'
import struct, sys
for name in sys.argv[3:]:
    b = bytearray(open(name, "rb").read())
    at = int(sys.argv[1])
    b[at:at + 8] = struct.pack("<q", struct.unpack_from("<q", b, at)[0] + int(sys.argv[2]))
    open(name, "wb").write(b)
END
}
samples "a large file" large.csv 2 192,000
check "a run of it" run 2 train "$work/small.deck" --quiet $large --set data.train="$work/large.csv" --set run.steps=1
check "its lines are kept" test "$(ls "$work"/known/lines-* | wc -l)" = 1
change 40 -1
for n in 1 2; do samples "they are not looked for again" large.csv $n 191,999; done
change 80 1
samples "nor taken where they are broken" large.csv 2 192,000
change 40 -1
check "a packed one" run 2 train "$work/small.deck" --quiet $large --set data.train="$work/large.csv.gz" --set run.steps=1 --set checkpoint.dir=none
check "its lines are kept, too" test "$(ls "$work"/known/lines-* | wc -l)" = 2
change 40 -1
samples "they are not unpacked to be counted" large.csv.gz 2 1,499
change 40 1
sed -n 2,12p "$work/large.csv" >> "$work/large.csv"
samples "nor where the file is another" large.csv 2 192,001
passed
