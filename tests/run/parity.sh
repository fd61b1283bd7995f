#!/bin/sh
# parity.sh - TorchRec's own losses and weights, at 1 to 4 ranks and every
# sharding.  TESSERA_PARITY_DIR names the folder of cases, TESSERA_BACKEND what
# they run on, TESSERA_PARITY_RANKS other numbers of ranks (1,2).  seconds: 900  isa: all
[ -n "${TESSERA_PARITY_DIR:-}" ] || { echo "TESSERA_PARITY_DIR is not set: no cases to compare with"; exit 77; }
python=python3
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null && python=/usr/bin/python3
$python -c 'import h5py, numpy' 2>/dev/null || { echo "python3 with numpy and h5py is not here"; exit 77; }
: "${TESSERA_PARITY_RANKS:=}"
for case in "$TESSERA_PARITY_DIR"/*/expect.h5; do
  $python "$srcdir/tests/run/parity.py" "$(dirname "$case")" "$TESSERA" $TESSERA_PARITY_RANKS || exit 1
done
