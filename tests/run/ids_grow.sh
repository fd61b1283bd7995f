#!/bin/sh
# ids_grow.sh - dynamic tables whose memory grows: ids, rows and losses are those
# of tables that have all of it from the start, on 1, 2 and 4 ranks, by any
# pipeline, on a device and over restarts there; and less memory is taken.
# seconds: 40
. "$srcdir/tests/support/common.sh"
not_sanitized
. "$srcdir/tests/support/ids.sh"
check "data" ids_data
met_deck
last=checkpoints/step-00000014.h5
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
all="--set table_defaults.dim=256 --set tables.a.capacity=8000 --set tables.b.capacity=8000 --set tables.c.capacity=8000 --set model.dense_arch=[16,256]
  --set table_defaults.evict.every=6 --set table_defaults.evict.keep=0.05 --set table_defaults.admit.min_count=2 --set table_defaults.ema=true --set optimizer.ema=0.9 --set run.steps=14"
go() { n=$1; folder=$2; shift 2; run "$n" train "$work/met.deck" --set run.output="$work/$folder" $all "$@" > "$work/$folder.log"; }
there() { TESSERA=$emulated go "$@" --set run.backend=emulated; }
grow="--set table_defaults.grow=1.5"
same() { # FOLDER OTHER: to the bit
  check "$2: the same ids" same_ids "$1" "$2"
  check "$2: the same rows" same_rows "$1" "$2"
  check "$2: the same losses" close_losses "$1" "$2" 0 14
}
mib() { sed -n "/$2/,\$p" "$work/$1.log" | sed -n 's/^embedding tables *\([0-9.]*\) MiB/\1/p' | head -1; } # FOLDER TITLE
less() { a=$(mib "$1" "$3"); b=$(mib "$2" "$3"); echo "$3: $a and $b MiB"; awk -v a="$a" -v b="$b" 'BEGIN { exit !(b * 16 > a * 1.1 && b * 3 < a) }'; }
for n in 1 2 4; do
  check "on $n ranks" go $n on$n
  check "that grow, on $n ranks" go $n grow$n $grow
  same on$n grow$n
done
check "less memory" less on1 grow1 "peak memory of a rank"
for kind in base prefetch; do
  check "$kind" go 2 $kind $grow --set pipeline.kind=$kind
  same on2 $kind
done
for from in 0 1.5; do check "few bits, $from" go 2 few$from --set table_defaults.grow=$from --set table_defaults.dtype=int4; done
same few0 few1.5
# Between two looks, and with a delta, to and from tables that do not grow.
for from in 0 1.5; do
  check "to step 7" go 2 part$from --set table_defaults.grow=$from --set run.steps=7
  for to in 0 3; do
    cp -r "$work/part$from" "$work/from$from-$to"
    check "from step 7, $from and $to" go 2 from$from-$to --set table_defaults.grow=$to
    same on2 from$from-$to
  done
done
# Rows in slow memory have their room from the start.
check "cached" go 1 cached $grow --set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.2
same on1 cached
# Fewer rows than ids.
for g in 0 2; do
  cp -r "$work/on2" "$work/fewer$g"
  check "a smaller capacity, $g" go 2 fewer$g --set table_defaults.grow=$g --set run.steps=16 --set tables.b.capacity=600 --set tables.b.evict.keep=0.3 --set tables.b.evict.every=1000
done
last=checkpoints/step-00000016.h5
check "a smaller capacity: the same ids" same_ids fewer0 fewer2
check "a smaller capacity: the same rows" same_rows fewer0 fewer2
last=checkpoints/step-00000014.h5
if [ -x "$emulated" ]; then
  check "on a device" there 2 device
  check "that grow, on a device" there 2 grow-there $grow
  same device grow-there
  check "less memory of a device" less device grow-there "peak on a rank"
  cp -r "$work/on2" "$work/fewer"
  last=checkpoints/step-00000016.h5
  check "a smaller capacity on a device" there 2 fewer $grow --set run.steps=16 --set tables.b.capacity=600 --set tables.b.evict.keep=0.3 --set tables.b.evict.every=1000
  check "a smaller capacity: the same ids" same_ids fewer0 fewer
  last=checkpoints/step-00000014.h5
  check "on a device to step 7" there 2 up $grow --set run.steps=7
  check "from there on the host" go 1 up $grow
  check "the same ids" same_ids on1 up
  check "rows in a device's means" sh -c '"$@" > "$0" 2>&1' "$work/out" ${MPIRUN:-mpirun} -q -n 2 "$emulated" eval "$work/met.deck" --set run.backend=emulated --set run.output="$work/grow-there" --set data.eval=data.h5 $all $grow
fi
"$TESSERA" train "$work/met.deck" --check --set tables.a.grow=1 > "$work/out" 2>&1
check "code 2, no growth" test $? = 2
check "it says so" grep -q 'table a: grow, more than 1, is for rows = "dynamic"' "$work/out"
passed
