# hdf5.m4 - HDF5, parallel where it can be had.
#
# TS_LIB_HDF5 tries --with-hdf5=DIR, then pkg-config (hdf5-openmpi, hdf5),
# then what the compiler finds by itself.
AC_DEFUN([TS_LIB_HDF5], [
AC_ARG_WITH([hdf5], [AS_HELP_STRING([--with-hdf5=DIR], [where HDF5 is])], [],
  [with_hdf5=auto])
AS_IF([test "x$with_hdf5" != xauto],
  [CPPFLAGS="$CPPFLAGS -I$with_hdf5/include"
   LIBS="-L$with_hdf5/lib -Wl,-rpath,$with_hdf5/lib -lhdf5 $LIBS"],
  [PKG_CHECK_MODULES([HDF5], [hdf5-openmpi],
    [CPPFLAGS="$CPPFLAGS $HDF5_CFLAGS"; LIBS="$HDF5_LIBS $LIBS"],
    [PKG_CHECK_MODULES([HDF5S], [hdf5],
      [CPPFLAGS="$CPPFLAGS $HDF5S_CFLAGS"; LIBS="$HDF5S_LIBS $LIBS"],
      [LIBS="-lhdf5 $LIBS"])])])
AC_MSG_CHECKING([for HDF5])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <hdf5.h>]], [[return H5open() < 0;]])],
  [AC_MSG_RESULT([yes])],
  [AC_MSG_RESULT([no])
   AC_MSG_ERROR([HDF5 is missing (Debian: libhdf5-openmpi-dev; or --with-hdf5=DIR)])])
AC_MSG_CHECKING([whether HDF5 is parallel])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <hdf5.h>
#ifndef H5_HAVE_PARALLEL
#error serial
#endif]], [[return H5Pset_fapl_mpio(0, MPI_COMM_WORLD, MPI_INFO_NULL) < 0;]])],
  [AC_MSG_RESULT([yes]); ts_hdf5_found="parallel"
   AC_DEFINE([HAVE_PARALLEL_HDF5], [1], [Define when HDF5 writes through MPI-IO.])],
  [AC_MSG_RESULT([no]); ts_hdf5_found="serial: checkpoint.io = \"mpio\" is left out"])
])
