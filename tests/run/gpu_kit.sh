#!/bin/sh
# gpu_kit.sh - the folder of `make gpu-kit`: under 60 MiB, with libraries of its
# own, and it starts with the machine's C library and with the kit's.
# seconds: 200
. "$srcdir/tests/support/common.sh"
not_sanitized
cd "$(dirname "$TESSERA")" || exit 1
grep -q 'define HAVE_CUDA 1' config.h || { echo "no nvcc: the kit is of a build with the CUDA backend"; exit 77; }
command -v ompi_info > /dev/null || { echo "needs ompi_info: the kit knows Open MPI alone"; exit 77; }
kit=$work/kit
check "the kit" "$srcdir/jobs/gpu_kit" "$kit" > "$work/says"
check "under 60 MiB" test "$(du -sb "$kit" | cut -f1)" -le $((60 * 1024 * 1024))
alone() { env -i PATH=/usr/bin:/bin TESSERA_KIT_LIBC=$libc "$kit/run" "$@"; }
for libc in '' 1; do
  check "it says what it would do" alone --dry > "$work/dry"
  check "with all steps" test "$(grep -c '^==' "$work/dry")" = 10
  check "a test on two ranks" alone -- mpirun -q -n 2 tests/runtime/test_device > "$work/out"
  check "it ran" grep -q '^100%: Checks: ' "$work/out"
  check "a test alone" alone -- tests/kernels/flat > /dev/null
  check "the program" alone -- ./tessera plan "$kit/files/src/input/example.deck" --world 2 > /dev/null
done
for elf in tessera mpi/mpirun tests/dense/test_mlp; do
  "$kit"/libc/ld-linux-* --library-path "$kit/libc:$kit/files/lib:$kit/files/found" --list "$kit/files/elf/$elf" > "$work/libs"
  check "$elf has libraries" grep -q "libhwloc.* => $kit" "$work/libs"
  check "they are the kit's" eval '! grep "=> " "$work/libs" | grep -v "=> $kit/"'
done
command -v nvidia-smi > /dev/null && passed && exit
alone look > "$work/look" 2>&1; check "no GPU is code 77" test $? = 77
check "it says so" grep -q '^no GPU is here' "$work/look"
passed
