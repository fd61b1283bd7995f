# json.m4 - Jansson reads and writes all JSON: metrics, traces, plans.
AC_DEFUN([TS_LIB_JANSSON], [
AC_CHECK_HEADER([jansson.h], [],
  [AC_MSG_ERROR([jansson.h is missing (Debian: libjansson-dev)])])
AC_SEARCH_LIBS([json_pack], [jansson], [],
  [AC_MSG_ERROR([Jansson is missing (Debian: libjansson-dev)])])
AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <jansson.h>
#if JANSSON_VERSION_HEX < 0x020800
#error members of objects have no order
#endif]])], [], [AC_MSG_ERROR([Jansson is older than 2.8])])
])
