# libconfig.m4 - libconfig reads the decks.
AC_DEFUN([TS_LIB_CONFIG], [
AC_CHECK_HEADER([libconfig.h], [],
  [AC_MSG_ERROR([libconfig.h is missing (Debian: libconfig-dev)])])
AC_SEARCH_LIBS([config_read_string], [config], [],
  [AC_MSG_ERROR([libconfig is missing (Debian: libconfig-dev)])])
])
