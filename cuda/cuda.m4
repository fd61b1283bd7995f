# cuda.m4 - the CUDA toolkit and NCCL, both optional.
#
# --with-cuda=DIR|no|auto.  Sets NVCC, CUDA_FLAGS, CUDA_LIBS and the
# conditional HAVE_CUDA.  CUDA_ARCHS lists the architectures to build for,
# PTX of the last one included.
AC_DEFUN([TS_CUDA], [
AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda@<:@=DIR|no|auto@:>@], [CUDA toolkit (auto)])], [],
  [with_cuda=auto])
AC_ARG_VAR([CUDA_ARCHS], [architectures for nvcc, "80 90" by default])
AC_ARG_VAR([NVCC], [CUDA compiler])
: ${CUDA_ARCHS="80 90"}
ts_cuda_found=no
AS_IF([test "x$with_cuda" != xno], [
  ts_cuda_path=$PATH:/usr/local/cuda/bin
  AS_CASE([$with_cuda], [auto|yes], [], [ts_cuda_path=$with_cuda/bin])
  AC_PATH_PROGS([NVCC], [nvcc], [], [$ts_cuda_path])
  AS_IF([test "x$NVCC" != x], [
    ts_cuda_dir=`dirname \`dirname $NVCC\``
    CUDA_LIBS="-L$ts_cuda_dir/lib64 -Wl,-rpath,$ts_cuda_dir/lib64 -lcudart"
    ts_saved_libs=$LIBS; ts_saved_cppflags=$CPPFLAGS
    LIBS="$CUDA_LIBS $LIBS"; CPPFLAGS="$CPPFLAGS -I$ts_cuda_dir/include"
    AC_MSG_CHECKING([whether CUDA programs link])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>]],
      [[int n; return cudaGetDeviceCount(&n);]])],
      [AC_MSG_RESULT([yes]); ts_cuda_found="$NVCC, architectures $CUDA_ARCHS"],
      [AC_MSG_RESULT([no])])
    LIBS=$ts_saved_libs; CPPFLAGS=$ts_saved_cppflags
  ])
  AS_IF([test "x$ts_cuda_found" = xno && test "x$with_cuda" != xauto],
    [AC_MSG_ERROR([CUDA was asked for and no working nvcc is there])])
])
AS_IF([test "x$ts_cuda_found" != xno], [
  CUDA_FLAGS=
  for ts_arch in $CUDA_ARCHS; do
    CUDA_FLAGS="$CUDA_FLAGS -gencode arch=compute_$ts_arch,code=sm_$ts_arch"
  done
  CUDA_FLAGS="$CUDA_FLAGS -gencode arch=compute_$ts_arch,code=compute_$ts_arch"
  AS_CASE([$TS_HARDEN_CFLAGS], [*-fPIE*], [CUDA_FLAGS="$CUDA_FLAGS -Xcompiler -fPIE"])
  AC_DEFINE([HAVE_CUDA], [1], [Define when the CUDA backend is built.])
])
AC_SUBST([CUDA_FLAGS])
AC_SUBST([CUDA_LIBS])
AM_CONDITIONAL([HAVE_CUDA], [test "x$ts_cuda_found" != xno])
])
