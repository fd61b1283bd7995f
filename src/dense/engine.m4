# engine.m4 - who multiplies matrices: oneDNN, else a CBLAS, else plain C.
AC_DEFUN([TS_LIB_ENGINE], [
AC_ARG_WITH([onednn],
  [AS_HELP_STRING([--with-onednn@<:@=DIR|no|auto@:>@], [oneDNN for dense layers])],
  [], [with_onednn=auto])
AC_ARG_WITH([cblas],
  [AS_HELP_STRING([--with-cblas@<:@=no|auto@:>@], [a CBLAS where oneDNN is missing])],
  [], [with_cblas=auto])
ts_engine_found="plain C (slow)"
AS_IF([test "x$with_onednn" != xno], [
  AS_CASE([$with_onednn], [yes|auto], [],
    [CPPFLAGS="$CPPFLAGS -I$with_onednn/include"
     LDFLAGS="$LDFLAGS -L$with_onednn/lib -Wl,-rpath,$with_onednn/lib"])
  AC_CHECK_HEADER([oneapi/dnnl/dnnl.h],
    [AC_CHECK_LIB([dnnl], [dnnl_version],
      [LIBS="-ldnnl $LIBS"; ts_engine_found="oneDNN"
       AC_DEFINE([HAVE_ONEDNN], [1], [Define when oneDNN is there.])])])
  AS_IF([test "x$ts_engine_found" != xoneDNN && test "x$with_onednn" != xauto],
    [AC_MSG_ERROR([oneDNN was asked for and is missing (Debian: libdnnl-dev)])])
])
AS_IF([test "x$with_cblas" != xno], [
  AC_CHECK_HEADER([cblas.h], [
    ts_cblas=no
    AC_SEARCH_LIBS([cblas_sgemm], [openblas blis cblas blas], [ts_cblas=yes])
    AS_IF([test $ts_cblas = yes], [
      AC_DEFINE([HAVE_CBLAS], [1], [Define when a CBLAS is there.])
      AS_IF([test "x$ts_engine_found" = xoneDNN],
        [ts_engine_found="oneDNN, CBLAS"], [ts_engine_found="CBLAS"])])])
  AS_IF([test "x$with_cblas" != xauto && test "x$ts_cblas" != xyes],
    [AC_MSG_ERROR([a CBLAS was asked for and is missing (Debian: libopenblas-dev)])])
])
])
