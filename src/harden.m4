# harden.m4 - what the compiler and the linker can do against a fault in
# memory that a hostile file finds: TS_HARDEN, after AC_PROG_CC.
#
# On unless --disable-hardening; each flag is tried, with warnings as errors.
# Sanitizers watch more than these do, and don't go together with all of them:
# their builds have none.  Sets TS_HARDEN_CFLAGS, TS_HARDEN_LDFLAGS and
# ts_harden_found.
AC_DEFUN([TS_TRY_HARDEN], [ # compiler's flag, linker's flag, word for people
ts_saved_cflags=$CFLAGS; ts_saved_ldflags=$LDFLAGS
CFLAGS="$CFLAGS -Werror $TS_HARDEN_CFLAGS $1"
LDFLAGS="$LDFLAGS $TS_HARDEN_LDFLAGS $2"
AC_MSG_CHECKING([for $3])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <string.h>
#include <stdio.h>]], [[char a[16] = ""; return fgets(a, 16, stdin) ? (int)strlen(a) : 0;]])],
  [AC_MSG_RESULT([yes])
   TS_HARDEN_CFLAGS="$TS_HARDEN_CFLAGS $1"
   TS_HARDEN_LDFLAGS="$TS_HARDEN_LDFLAGS $2"
   ts_harden_found="$ts_harden_found $3"],
  [AC_MSG_RESULT([no])])
CFLAGS=$ts_saved_cflags; LDFLAGS=$ts_saved_ldflags
])
AC_DEFUN([TS_HARDEN], [
AC_ARG_ENABLE([hardening],
  [AS_HELP_STRING([--disable-hardening], [no protection of stack, addresses and symbols])])
ts_harden_found=
AS_IF([test "x$enable_hardening" = xno], [ts_harden_found=" no"],
  [test "x${enable_sanitizers:-no}" != xno], [ts_harden_found=" no, sanitizers"],
  [TS_TRY_HARDEN([-fPIE], [-pie], [pie])
   TS_TRY_HARDEN([], [-Wl,-z,relro], [relro])
   TS_TRY_HARDEN([], [-Wl,-z,now], [now])
   TS_TRY_HARDEN([], [-Wl,-z,noexecstack], [noexecstack])
   TS_TRY_HARDEN([-fstack-protector-strong], [], [stack-protector])
   TS_TRY_HARDEN([-fstack-clash-protection], [], [stack-clash])
   TS_TRY_HARDEN([-fcf-protection], [], [cf-protection])
   TS_TRY_HARDEN([-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3], [], [fortify-3])
   AS_CASE([$ts_harden_found], [*fortify*], [],
     [TS_TRY_HARDEN([-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2], [], [fortify-2])])])
AC_DEFINE_UNQUOTED([TS_HARDENING], ["$ts_harden_found"],
  [What protects the program, for tests/run/hardening.sh.])
])
