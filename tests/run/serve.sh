#!/bin/sh
# serve.sh - files to serve: libtessera_serve's scores of f32 rows are those of
# predict and topk to the bit, for each graph that comes along and each rule of
# ids, words and numbers; few bits are near; deltas, updates under way, mistakes.
# seconds: 200
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
for deck in "$cases"/*.deck; do
  name=$(basename "$deck" .deck); cp "$deck" small.deck
  data=$cases/data.csv; ! grep -q '"none"; features' "$deck" || data=$cases/sequences.csv
  train 1 "$name" --set data.train="$data" --set run.steps=3 || exit 1
  of "$name" export --format serve --tables f32 --set data.train="$data" --out "$name.f32" || exit 1
  if serve "$name.f32" is_items; then
    tower=$(serve "$name.f32" tower "$data")
    if [ -z "$tower" ]; then
      of "$name" topk --data "$data" --set data.train="$data" --k 5 --out top.csv || exit 1
      check "$name: the best items" serve "$name.f32" topk "$data" top.csv
    fi
  else
    of "$name" predict --data "$data" --set data.train="$data" --out p.h5 || exit 1
    check "$name: predictions" serve "$name.f32" predict "$data" p.h5 0
  fi
done
passed
