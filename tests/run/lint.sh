#!/bin/sh
# lint.sh - house rules that a grep can check.  seconds: 400
[ -z "${TESSERA_SANITIZED:-}" ] || { echo "runs without sanitizers only: it reads texts"; exit 77; }
cd "$srcdir" || exit 1
bad=0
complain() { echo "$1"; bad=1; }
code=$(find src io cuda tests -name '*.[ch]' -o -name '*.cu' | sort)
nocuda=$(find src io tests -name '*.[ch]' | sort)
# CUDA, NCCL and cuBLAS stay in cuda/ and its tests.
grep -nE '^ *# *include *[<"](cuda|nccl|cublas|cub/)' $(echo "$nocuda" | grep -vE '^tests/(support/emulated|[a-z]+/(test_)?cuda)') && complain "a CUDA header outside cuda/"
# Only the MPI backend moves data with MPI; io/ has MPI-IO, tests their start.
grep -nE '\bMPI_(I?send|I?recv|I?all|I?bcast|I?reduce|I?gather|I?scatter|Wait|Test)' $nocuda \
  | grep -vE '^(src/runtime/comm_mpi|io/checkpoint_mpio)' && complain "MPI data movement outside comm_mpi"
# Folders depend on each other in one direction.
layer() { # folder, folders it may not include
  grep -nE "^ *# *include *\"($2)/" src/"$1"/*.[ch] && complain "src/$1 includes what stands above it"
}
layer base 'runtime|sparse|dense|shard|model|train|commands|io'
layer runtime 'sparse|dense|shard|model|train|commands|io'
layer sparse 'dense|shard|model|train|commands|io'
layer dense 'sparse|shard|model|train|commands|io'
layer shard 'dense/[^p]|model|train|commands|io' # dense/param.h alone
layer model 'train|commands|io'
layer train 'commands'
# Memory is counted: no raw allocation outside base/.
grep -nE '\b(malloc|calloc|realloc) *\(' $(find src io -name '*.c' ! -path 'src/base/*') && complain "raw allocation"
# Public declarations say who makes the call.
if command -v python3 > /dev/null; then
  python3 tests/run/headers.py $(find src io cuda -name '*.h' | sort) || complain "headers that do not say Collective, Local or Enqueues"
else
  echo "python3 is not here: headers not checked"
fi
# A test that no .mk names never runs.
for f in $(ls tests/*/test_*.c tests/run/*.sh; grep -l '^ \* ranks: ' tests/*/*.c); do
  case $f in *.sh) name=$f ;; *) name=${f%.c*} ;; esac
  cat tests/*/local.mk tests/*/*/local.mk | grep -qE "$name( |\$)" || complain "no local.mk names $f"
done
# Text.
grep -nE '[[:space:]]+$' $code && complain "blanks at the end of a line"
grep -nE '.{81,}' $code && complain "lines over 80 columns"
grep -nwE 'TODO|FIXME|XXX' $code && complain "leftovers"
for f in $code; do
  [ "$(wc -l < "$f")" -le 800 ] || complain "$f is longer than 800 lines"
done
if clang-format --version 2>/dev/null | grep -q 'version 14'; then
  clang-format --dry-run -Werror $nocuda 2>&1 | head -20 | grep . && complain "clang-format"
else
  echo "left out: the format: clang-format 14 is not here"
fi
[ $bad = 0 ] && echo "100%: Checks: 11, Failures: 0, Errors: 0"
exit $bad
