# check.m4 - Check, for the tests only.
AC_DEFUN([TS_CHECK], [
PKG_CHECK_MODULES([CHECK], [check >= 0.10],
  [ts_have_check=yes; ts_check_found="Check, each program at its numbers of ranks by tests/support/launch with $MPIRUN"],
  [ts_have_check=no; ts_check_found="none: Check is missing (Debian: check); with it, configure again"])
AM_CONDITIONAL([HAVE_CHECK], [test $ts_have_check = yes])
AC_PATH_PROG([TIMEOUT], [timeout], [])
# Where test programs, a folder each, find the library they share.
AC_SUBST([CHECK_RPATH], ['-Wl,-rpath,\$$ORIGIN/../support'])
])

# A C++17 compiler, for tests that run CUDA kernels on the CPU
# (tests/support/emulated/emulated.h).  The C compiler links what it makes: no C++ library.
AC_DEFUN([TS_CXX], [
AC_REQUIRE([AC_PROG_CXX])
AC_CHECK_TOOL([LD], [ld])
AC_CHECK_TOOL([OBJCOPY], [objcopy])
TS_CXXFLAGS=`echo " $TS_CFLAGS " | sed 's/ -std=gnu11 / -std=c++17 /; s/ -Wstrict-prototypes / /'`
TS_CXXFLAGS="$TS_CXXFLAGS -Wno-unused-function -fno-exceptions -fno-rtti -fno-threadsafe-statics"
AC_MSG_CHECKING([whether $CXX compiles C++17])
AC_LANG_PUSH([C++])
ts_saved_cxxflags=$CXXFLAGS; CXXFLAGS="$CXXFLAGS $TS_CXXFLAGS"
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <stdint.h>]],
  [[if constexpr (sizeof(int64_t) == 8) return 0;]])],
  [ts_have_cxx=yes], [ts_have_cxx=no])
CXXFLAGS=$ts_saved_cxxflags
AC_LANG_POP([C++])
AC_MSG_RESULT([$ts_have_cxx])
AS_IF([test "$ts_have_cxx" = no],
  [ts_check_found="$ts_check_found; without a C++ compiler no CUDA kernels"])
AC_SUBST([TS_CXXFLAGS])
AM_CONDITIONAL([HAVE_CXX], [test $ts_have_cxx = yes])
])
