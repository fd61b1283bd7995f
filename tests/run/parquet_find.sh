# parquet_find.sh - sourced by parquet*.sh: $python, which has pyarrow, of which the
# program's module is, and $make; a build without Arrow ends here.
arrow=$(ldd "$(dirname "$TESSERA")/io/parquet.so" 2> /dev/null | sed -n 's|.*=> \(/.*\)/libarrow\.so.*|\1|p' | head -n 1)
[ -n "$arrow" ] || { echo "this build has no Apache Arrow"; [ $n_checks = 0 ] && exit 77; passed; exit; }
python=$(echo "$arrow" | sed -n 's|/lib/python3[^/]*/site-packages/pyarrow$|/bin/python3|p')
[ -x "$python" ] || python=python3
$python -c 'import pyarrow' 2> /dev/null || { echo "python3 with pyarrow is not here"; exit 77; }
make=$srcdir/tests/run/parquet.py
# Sanitizers see the ends of memory that is the system's.
[ -z "${TESSERA_SANITIZED:-}" ] || export ARROW_DEFAULT_MEMORY_POOL=system
