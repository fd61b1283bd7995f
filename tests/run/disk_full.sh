#!/bin/sh
# disk_full.sh - a disk that fills up, a small tmpfs: one message with the
# file and the reason, the documented code, no hang, nothing half-written, the
# older checkpoint whole; with room again the same line goes on.  seconds: 400
if ! [ "${TESSERA_UNSHARED:-}" ] && [ "$(id -u)" != 0 ]; then
  unshare -rm true 2> /dev/null || { echo "mounting is not allowed here"; exit 77; }
  TESSERA_UNSHARED=1; export TESSERA_UNSHARED
  exec unshare -rm sh "$0"
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
. "$srcdir/tests/support/common.sh"
not_sanitized
disk=$work/disk
mkdir "$disk"
mount -t tmpfs -o size=64k none "$disk" 2> /dev/null || { echo "mounting is not allowed here"; exit 77; }
trap 'umount -l "$disk"; rm -rf "$work"' EXIT
fresh() { umount -l "$disk"; mount -t tmpfs -o "size=$1" none "$disk"; }

slowest=0
# full WHAT CODE FILE command...: one message, with FILE and why.
full() {
  what=$1; want=$2; file=$3; shift 3
  began=$(date +%s)
  timeout -k 5 60 "$@" > "$work/out" 2> "$work/err"; code=$?
  took=$(($(date +%s) - began))
  [ $took -le "$slowest" ] || slowest=$took
  check "$what: an end within 30 s, not $took" test $took -lt 30
  [ $code = "$want" ] || cat "$work/err"
  check "$what: code $want, not $code" test $code = "$want"
  check "$what: one message" test "$(grep -c 'tessera: error' "$work/err")" = 1
  check "$what: file and reason" grep -q "tessera: error: .*$file.*: No space left" "$work/err"
  check "$what: no half of a file" test -z "$(find "$disk" -name '*.part')"
}
trainer() { echo "${MPIRUN:-mpirun} -q -n $1 $TESSERA train $work/small.deck --quiet --set run.output=$disk/run"; }
whole() { "$TESSERA" inspect "$1" --verify > "$work/out"; }

kinds="pwrite mpio"
train 1 probe --set run.steps=1 --set checkpoint.io=mpio 2>&1 | grep -q 'needs parallel HDF5' && kinds=pwrite

# The disk ends in the structure of the file, and in the rows.  In long with
# both of Open MPI's components.
case $kinds in *mpio) [ "${TESSERA_SWEEP-}" = long ] && kinds="pwrite mpio romio321" ;; esac
given=${OMPI_MCA_io:-ompio}
for io in $kinds; do
  component=$given
  [ $io = romio321 ] && io=mpio && component=romio321
  export OMPI_MCA_io="$component"
  sizes="340 440 620"
  [ $io = pwrite ] || sizes="560 700 950"
  for ranks in 1 2; do
    for kb in $sizes; do
      fresh ${kb}k
      on="checkpoint.io=$io ($component) on $ranks, $kb KB"
      line="$(trainer $ranks) --set checkpoint.every=10 --set checkpoint.keep=9 --set checkpoint.io=$io --set run.log_every=40"
      full "$on" 4 'checkpoints/\.step-000000.0\.h5\.part' $line
      check "$on: the first one stays" test -f "$disk/run/checkpoints/step-00000010.h5"
      for old in "$disk"/run/checkpoints/step-*; do check "$on: $old is whole" whole "$old"; done
    done
    mount -o remount,size=4m "$disk"
    check "$on: room again" $line
    check "$on: all four" test "$(ls "$disk"/run/checkpoints | wc -l)" = 4
  done
done

# Little room: the log of the metrics, predictions, data sets.
other="--set checkpoint.dir=$work/elsewhere --set run.steps=400"
for ranks in 1 2; do
  fresh 32k
  full "metrics on $ranks" 1 'metrics.jsonl' $(trainer $ranks) $other
  rm -rf "$work/elsewhere"
done
check "a run" train 2 good
for ranks in 1 2; do
  run="${MPIRUN:-mpirun} -q -n $ranks $TESSERA"
  set="--quiet --set data.synthetic.eval_samples=30000 --set run.output=$work/good"
  for kb in 4 32; do
    fresh ${kb}k
    full "predict on $ranks" 1 'x.h5.part' $run predict "$work/small.deck" $set --out "$disk/x.h5"
    full "CSV of predictions on $ranks" 1 'x.csv' $run predict "$work/small.deck" $set --out "$disk/x.csv"
    full "packed, on $ranks" 1 'x.csv.gz' $run predict "$work/small.deck" $set --out "$disk/x.csv.gz"
    full "generate on $ranks" 1 'x.h5.part' $run generate "$work/small.deck" eval $set --out "$disk/x.h5"
  done
done
echo "the slowest end took $slowest s"
passed
