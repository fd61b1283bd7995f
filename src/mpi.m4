# mpi.m4 - the C compiler for MPI programs: TS_FIND_MPICC, AC_PROG_CC,
# TS_CHECK_MPI, in this order.
AC_DEFUN([TS_FIND_MPICC], [
AC_ARG_VAR([MPICC], [MPI C compiler])
AC_ARG_VAR([MPIRUN], [launcher of MPI programs, for the tests])
AC_CHECK_PROGS([MPICC], [mpicc], [])
AS_IF([test "x$MPICC" = x],
  [AC_MSG_ERROR([mpicc is missing (Debian: libopenmpi-dev openmpi-bin; on clusters: module load openmpi)])])
CC=$MPICC
AC_CHECK_PROGS([MPIRUN], [mpirun mpiexec], [mpirun])
])
AC_DEFUN([TS_CHECK_MPI], [
AC_MSG_CHECKING([for MPI-3])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#if MPI_VERSION < 3
#error MPI-3 is needed
#endif]], [[MPI_Request r; return MPI_Ibarrier(MPI_COMM_WORLD, &r);]])],
  [AC_MSG_RESULT([yes])],
  [AC_MSG_RESULT([no]); AC_MSG_ERROR([$MPICC can't build an MPI-3 program])])
ts_mpi_found="$MPICC, tests with $MPIRUN"
])
