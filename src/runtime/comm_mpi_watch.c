/* comm_mpi_watch.c - how watchdogs of different ranks hear of each other:
 * shared memory within a node, messages between nodes.
 *
 * Nothing is sent while all is well.  The watchdog that finds its rank
 * overdue asks the ranks of all other nodes; of each node the first rank that
 * runs answers with its node's rows.  The node that asked first speaks, of
 * two that ask at once the one with the lower rank.  Messages need a library
 * that lets several threads call it; without one a node knows itself only. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"
#include "runtime/watchdog_impl.h"

enum { TAG_ASK = 1, TAG_ROWS = 2 };
/* A node that has asked is given so long to end the program. */
#define HEARD_S 5.0

static ts_watch_row single; /* where there is no shared memory */
static ts_watch_row *own = &single, *local = &single;
static int n_local = 1;
static ts_watch_row *all;    /* (size) what is known of every rank */
static ts_watch_row *answer; /* (n_local) on its way to another node */
static int rank, size = 1, per_node;
static _Atomic double heard; /* when another node asked */
static bool may_send;        /* from this thread */
static MPI_Comm comm = MPI_COMM_NULL;
static MPI_Win window = MPI_WIN_NULL;

ts_watch_row *ts_watch_own(void) {
  return own;
}

int ts_watch_size(void) {
  return size;
}

void ts_watch_nodes_of(int ranks_per_node) {
  per_node = ranks_per_node;
}

ts_watch_row *ts_watch_local(int i) {
  return i < n_local ? &local[i] : NULL;
}

/* Whether R is of this node, or of what tests make act as one. */
static bool is_near(const ts_watch_row *r) {
  return per_node <= 0 || r->rank / per_node == rank / per_node;
}

/* ---- start and end ------------------------------------------------------- */

static ts_err share_memory(MPI_Comm node) {
  int node_rank, unit;
  MPI_Aint bytes;
  void *base = NULL;
  TS_DO(TS_MPI(MPI_Comm_rank(node, &node_rank)));
  TS_DO(TS_MPI(MPI_Comm_size(node, &n_local)));
  bytes = node_rank ? 0 : (MPI_Aint)sizeof *local * n_local;
  TS_DO(TS_MPI(
      MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, node, &base, &window)));
  TS_DO(TS_MPI(MPI_Win_shared_query(window, 0, &bytes, &unit, &base)));
  local = base;
  own = &local[node_rank];
  memset(own, 0, sizeof *own);
  return TS_OK;
}

static ts_err gather_hosts(void) {
  ts_err err = TS_OK;
  char(*hosts)[TS_WATCH_HOST] = NULL;
  TS_TRY(ts_mem_many(all, size, COMM));
  TS_TRY(ts_mem_many(answer, n_local, COMM));
  TS_TRY(ts_mem_many(hosts, size, COMM));
  TS_TRY(TS_MPI(MPI_Allgather(own->host, TS_WATCH_HOST, MPI_BYTE, hosts,
                              TS_WATCH_HOST, MPI_BYTE, MPI_COMM_WORLD)));
  for (int r = 0; r < size; r++) {
    memcpy(all[r].host, hosts[r], TS_WATCH_HOST);
    all[r].rank = r;
  }
done:
  ts_mem_free(hosts);
  return err;
}

ts_err ts_watch_open(void) {
  ts_err err = TS_OK;
  int provided = 0;
  MPI_Comm node = MPI_COMM_NULL;
  TS_TRY(TS_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank)));
  TS_TRY(TS_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size)));
  TS_TRY(TS_MPI(MPI_Query_thread(&provided)));
  TS_TRY(TS_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank,
                                    MPI_INFO_NULL, &node)));
  if (size > 1) {
    TS_TRY(share_memory(node));
    TS_TRY(TS_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm)));
    TS_TRY(TS_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)));
  }
  may_send = provided == MPI_THREAD_MULTIPLE;
  own->rank = rank;
  own->pid = (int32_t)getpid();
  if (gethostname(own->host, sizeof own->host - 1) != 0) strcpy(own->host, "?");
  TS_TRY(gather_hosts());
done:
  if (node != MPI_COMM_NULL) (void)MPI_Comm_free(&node);
  return err;
}

void ts_watch_close(void) {
  own->state = TS_WATCH_LEFT;
  own->section = TS_SECTION_NONE;
  if (window != MPI_WIN_NULL) (void)MPI_Win_free(&window);
  if (comm != MPI_COMM_NULL) (void)MPI_Comm_free(&comm);
  ts_mem_free_all(all, answer);
  all = answer = NULL;
  own = local = &single;
  n_local = size = 1;
}

/* ---- within the node ----------------------------------------------------- */

static atomic_flag claimed = ATOMIC_FLAG_INIT; /* by a thread of this rank */

static ts_watch_row *first_near(void) {
  int i = 0;
  while (i < n_local - 1 && !is_near(&local[i])) i++;
  return &local[i];
}

bool ts_watch_claim(void) {
  int nobody = 0;
  if (atomic_flag_test_and_set(&claimed)) return false;
  if (atomic_compare_exchange_strong(&first_near()->speaker, &nobody, rank + 1))
    return true;
  atomic_flag_clear(&claimed);
  return false;
}

void ts_watch_unclaim(void) {
  atomic_store(&first_near()->speaker, 0);
  atomic_flag_clear(&claimed);
}

static void read_row(ts_watch_row *to, const ts_watch_row *from, double now) {
  memcpy(to, from, sizeof *to);
  to->silent_s = now - from->beat;
  to->stuck_s = now - from->since;
  to->answered = from->state != TS_WATCH_UNKNOWN;
}

/* ---- between nodes ------------------------------------------------------- */

/* Whether this rank is the first of its node that runs. */
static bool answers(double now) {
  for (int i = 0; i < n_local && &local[i] != own; i++)
    if (is_near(&local[i]) && local[i].state == TS_WATCH_RUNS &&
        now - local[i].beat < TS_WATCH_SILENT_S)
      return false;
  return true;
}

/* Sends that may never be received: the program ends soon, one way or the
 * other. */
static void send_away(const void *data, int bytes, int to, int tag) {
  MPI_Request request;
  if (MPI_Isend(data, bytes, MPI_BYTE, to, tag, comm, &request) == MPI_SUCCESS)
    (void)MPI_Request_free(&request);
}

static void send_rows(int to) {
  const double now = ts_now();
  int n = 0;
  for (int i = 0; i < n_local; i++)
    if (is_near(&local[i])) read_row(&answer[n++], &local[i], now);
  send_away(answer, n * (int)sizeof *answer, to, TAG_ROWS);
}

bool ts_watch_answer(bool asking) {
  int there = 1;
  MPI_Status status;
  if (!may_send || comm == MPI_COMM_NULL) return true;
  while (MPI_Iprobe(MPI_ANY_SOURCE, TAG_ASK, comm, &there, &status) ==
             MPI_SUCCESS &&
         there) {
    const int from = status.MPI_SOURCE;
    if (MPI_Recv(NULL, 0, MPI_BYTE, from, TAG_ASK, comm, &status) !=
        MPI_SUCCESS)
      break;
    if (asking && from > rank) continue;
    if (answers(ts_now())) send_rows(from);
    heard = ts_now();
    if (asking) return false;
  }
  return true;
}

/* Asks the ranks of other nodes; the number of those. */
static int ask(void) {
  int n = 0;
  if (!may_send || comm == MPI_COMM_NULL) return 0;
  for (int r = 0; r < size; r++) {
    bool here = false;
    for (int i = 0; i < n_local; i++)
      here |= local[i].rank == r && is_near(&local[i]);
    if (here) continue;
    send_away(NULL, 0, r, TAG_ASK);
    n++;
  }
  return n;
}

/* One node's rows, if some have come. */
static void take_rows(void) {
  int there, bytes;
  MPI_Status status;
  ts_watch_row *rows = NULL;
  if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_ROWS, comm, &there, &status) !=
          MPI_SUCCESS ||
      !there || MPI_Get_count(&status, MPI_BYTE, &bytes) != MPI_SUCCESS)
    return;
  if (ts_mem_alloc(&rows, (size_t)bytes, TS_TAG_COMM) == TS_OK &&
      MPI_Recv(rows, bytes, MPI_BYTE, status.MPI_SOURCE, TAG_ROWS, comm,
               &status) == MPI_SUCCESS)
    for (int i = 0; i < bytes / (int)sizeof *rows; i++)
      if (rows[i].rank >= 0 && rows[i].rank < size) all[rows[i].rank] = rows[i];
  ts_mem_free(rows);
}

const ts_watch_row *ts_watch_collect(double seconds) {
  const double t0 = ts_now();
  if (!all) return own;
  if (heard > 0 && t0 - heard < seconds + HEARD_S) return NULL;
  const int others = ask();
  while (others && ts_now() < t0 + seconds) {
    if (!ts_watch_answer(true)) return NULL;
    take_rows();
    ts_pause(10000);
  }
  own->beat = ts_now();
  for (int i = 0; i < n_local; i++)
    if (is_near(&local[i])) read_row(&all[local[i].rank], &local[i], ts_now());
  return all;
}
