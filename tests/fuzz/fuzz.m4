# fuzz.m4 - a compiler with libFuzzer, for `make check-fuzz` only: TS_FUZZ.
# It is clang, whatever compiler the program itself is built with; Debian has
# libFuzzer in libclang-rt-14-dev.
AC_DEFUN([TS_FUZZ], [
AC_ARG_VAR([FUZZ_CC], [clang with libFuzzer, for make check-fuzz])
AC_CHECK_PROGS([FUZZ_CC], [clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14], [])
ts_fuzz_found="no: clang is missing (Debian: clang libclang-rt-14-dev)"
AS_IF([test "x$FUZZ_CC" != x], [
  AC_MSG_CHECKING([whether $FUZZ_CC has libFuzzer])
  ts_saved_cc=$CC; ts_saved_cflags=$CFLAGS; ts_saved_libs=$LIBS
  CC=$FUZZ_CC; CFLAGS="-fsanitize=fuzzer,address,undefined"; LIBS=
  AC_LINK_IFELSE([AC_LANG_SOURCE([[#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n);
int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n) { return n && *p == 1 ? 0 : 0; }]])],
    [AC_MSG_RESULT([yes]); ts_fuzz_found="$FUZZ_CC: make check-fuzz"],
    [AC_MSG_RESULT([no]); FUZZ_CC=
     ts_fuzz_found="no: libFuzzer is missing (Debian: libclang-rt-14-dev)"])
  CC=$ts_saved_cc; CFLAGS=$ts_saved_cflags; LIBS=$ts_saved_libs
])
])
