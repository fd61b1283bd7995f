/* comm_mpi_agree.c - agreement before there is a world: what a deck's reading
 * found on one node ends the run on all. */
#include <mpi.h>
#include <string.h>

#include "runtime/comm.h"
#include "runtime/comm_impl.h"

/* The message of rank ROOT into every rank's record. */
static ts_err share(int root, ts_err own) {
  ts_err_record fault;
  ts_err_take(&fault);
  if (own == TS_OK) memset(&fault, 0, sizeof fault);
  fault.code = own;
  TS_DO(TS_MPI(
      MPI_Bcast(&fault, (int)sizeof fault, MPI_BYTE, root, MPI_COMM_WORLD)));
  fault.file = __FILE__; /* a pointer means nothing on another rank */
  fault.agreed = true;
  ts_err_put(&fault);
  return fault.code;
}

ts_err ts_mpi_agree(ts_err own) {
  const int size = ts_mpi_size();
  int first = own == TS_OK ? size : ts_mpi_rank(), root = size;
  if (size == 1) return own;
  TS_DO(TS_MPI(
      MPI_Allreduce(&first, &root, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD)));
  if (root < size) TS_DO(share(root, own));
  return TS_OK;
}

ts_err ts_mpi_bcast(void *buf, int bytes) {
  if (ts_mpi_size() == 1) return TS_OK;
  return TS_MPI(MPI_Bcast(buf, bytes, MPI_BYTE, 0, MPI_COMM_WORLD));
}
