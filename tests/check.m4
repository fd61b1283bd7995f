# check.m4 - Check, for the tests only.
AC_DEFUN([TS_CHECK], [
PKG_CHECK_MODULES([CHECK], [check >= 0.10],
  [ts_have_check=yes; ts_check_found="Check, each program at its numbers of ranks by tests/launch with $MPIRUN"],
  [ts_have_check=no; ts_check_found="scripts only: Check is missing (Debian: check)"])
AM_CONDITIONAL([HAVE_CHECK], [test $ts_have_check = yes])
AC_PATH_PROG([TIMEOUT], [timeout], [])
])
