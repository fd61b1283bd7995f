# cuda.m4 - the CUDA toolkit, cuBLASLt in it, and NCCL, both optional.
#
# --with-cuda=DIR|no|auto.  Sets NVCC, CUDA_FLAGS, CUDA_CPPFLAGS, CUDA_LIBS and
# the conditional HAVE_CUDA.  CUDA_ARCHS lists the architectures to build for,
# PTX of the last one included.
#
# --with-nccl=DIR|no|auto, where there is CUDA.  Adds to the same and sets the
# conditional HAVE_NCCL.
AC_DEFUN([TS_CUDA], [
AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda@<:@=DIR|no|auto@:>@], [CUDA toolkit (auto)])], [],
  [with_cuda=auto])
AC_ARG_WITH([nccl],
  [AS_HELP_STRING([--with-nccl@<:@=DIR|no|auto@:>@], [NCCL, with CUDA (auto)])], [],
  [with_nccl=auto])
AC_ARG_VAR([CUDA_ARCHS], [architectures for nvcc, "80 90" by default])
AC_ARG_VAR([NVCC], [CUDA compiler])
: ${CUDA_ARCHS="80 90"}
ts_cuda_found=no
ts_nccl_found=no
AS_IF([test "x$with_cuda" != xno], [
  ts_cuda_path=$PATH:/usr/local/cuda/bin
  AS_CASE([$with_cuda], [auto|yes], [], [ts_cuda_path=$with_cuda/bin])
  AC_PATH_PROGS([NVCC], [nvcc], [], [$ts_cuda_path])
  AS_IF([test "x$NVCC" != x], [
    ts_cuda_dir=`dirname \`dirname $NVCC\``
    # What nvcc puts before a kernel needs the C++ library (guards of statics).
    CUDA_CPPFLAGS="-isystem $ts_cuda_dir/include"
    CUDA_LIBS="-L$ts_cuda_dir/lib64 -Wl,-rpath,$ts_cuda_dir/lib64 -lcublasLt -lcudart -ldl -lstdc++"
    ts_saved_libs=$LIBS; ts_saved_cppflags=$CPPFLAGS
    LIBS="$CUDA_LIBS $LIBS"; CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
    AC_MSG_CHECKING([whether CUDA programs link])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>
#include <cublasLt.h>
#if CUDART_VERSION < 11080
#error "no stream-ordered memory, or no fused gradients in cuBLASLt"
#endif]],
      [[void *p; cublasLtHandle_t h;
       return cudaMallocAsync(&p, 1, 0) + (int)cublasLtCreate(&h);]])],
      [AC_MSG_RESULT([yes])
       ts_cuda_release=`$NVCC --version | sed -n 's/.*release \(@<:@0-9.@:>@*\).*/\1/p'`
       ts_cuda_found="$ts_cuda_release, $NVCC, architectures $CUDA_ARCHS"],
      [AC_MSG_RESULT([no])])
    AS_IF([test "x$ts_cuda_found" != xno], [TS_NCCL])
    LIBS=$ts_saved_libs; CPPFLAGS=$ts_saved_cppflags
  ])
  AS_IF([test "x$ts_cuda_found" = xno && test "x$with_cuda" != xauto],
    [AC_MSG_ERROR([CUDA was asked for, and no nvcc of CUDA 11.8 or later works])])
])
AS_IF([test "x$ts_nccl_found" = xno],
  [AS_CASE([$with_nccl], [auto|no], [],
    [AC_MSG_ERROR([NCCL was asked for, and there is none that works (or no CUDA)])])])
AS_IF([test "x$ts_cuda_found" = xno], [CUDA_CPPFLAGS= CUDA_LIBS=], [
  CUDA_FLAGS=
  for ts_arch in $CUDA_ARCHS; do
    CUDA_FLAGS="$CUDA_FLAGS -gencode arch=compute_$ts_arch,code=sm_$ts_arch"
  done
  CUDA_FLAGS="$CUDA_FLAGS -gencode arch=compute_$ts_arch,code=compute_$ts_arch"
  # Contraction to fused multiply-add would make bits differ from the host's;
  # where it pays, kernels ask for it (__fmaf_rn).
  CUDA_FLAGS="$CUDA_FLAGS -O3 -std=c++17 -fmad=false -lineinfo"
  AS_IF([test "x$enable_werror" = xyes], [CUDA_FLAGS="$CUDA_FLAGS -Werror all-warnings"])
  AS_IF([test "x$enable_faults" = xyes], [CUDA_FLAGS="$CUDA_FLAGS -DTS_FAULTS"])
  CUDA_FLAGS="$CUDA_FLAGS -Xcompiler -fPIC"
  AC_DEFINE([HAVE_CUDA], [1], [Define when the CUDA backend is built.])
  AC_DEFINE_UNQUOTED([TS_CUDA_ARCHS], ["$CUDA_ARCHS"],
    [Architectures of the CUDA code, PTX of the last one included.])
])
AC_SUBST([CUDA_FLAGS])
AC_SUBST([CUDA_CPPFLAGS])
AC_SUBST([CUDA_LIBS])
AM_CONDITIONAL([HAVE_CUDA], [test "x$ts_cuda_found" != xno])
AM_CONDITIONAL([HAVE_NCCL], [test "x$ts_nccl_found" != xno])
])

# With CUDA's flags in force.
AC_DEFUN([TS_NCCL], [
AS_IF([test "x$with_nccl" != xno], [
  ts_nccl_cppflags= ts_nccl_libs=-lnccl
  AS_CASE([$with_nccl], [auto|yes], [],
    [ts_nccl_cppflags="-isystem $with_nccl/include"
     for ts_dir in "$with_nccl/lib64" "$with_nccl/lib"; do
       AS_IF([test -d "$ts_dir"],
         [ts_nccl_libs="-L$ts_dir -Wl,-rpath,$ts_dir $ts_nccl_libs"])
     done])
  ts_cuda_cppflags=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $ts_nccl_cppflags"; LIBS="$ts_nccl_libs $LIBS"
  AC_MSG_CHECKING([for NCCL])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>
#if NCCL_VERSION_CODE < 21400
#error "no ncclCommInitRankConfig"
#endif]],
    [[int v; return ncclGetVersion(&v);]])],
    [ts_nccl_found=`(AS_ECHO(["#include <nccl.h>"]); echo ts_is NCCL_MAJOR.NCCL_MINOR.NCCL_PATCH) |
       $CC -E -P $CPPFLAGS - 2>/dev/null | tr -d ' \n' | sed 's/.*ts_is//'`
     AS_IF([test "x$ts_nccl_found" = x], [ts_nccl_found=yes])
     AC_MSG_RESULT([$ts_nccl_found])
     CUDA_CPPFLAGS="$CUDA_CPPFLAGS $ts_nccl_cppflags"
     CUDA_LIBS="$ts_nccl_libs $CUDA_LIBS"
     AC_DEFINE([HAVE_NCCL], [1], [Define when NCCL is there.])],
    [AC_MSG_RESULT([no])])
])
])
