/* comm_mpi_world.c - MPI's start and end, worlds, groups and communicators. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"
#include "runtime/watchdog_impl.h"

/* Operations of a comm that may be under way at once before more are made. */
enum { SPARE_OPS = 16 };

static bool started;

ts_err ts_mpi_start(int *argc, char ***argv) {
  int provided = 0;
  TS_DO(TS_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided)));
  started = true;
  if (provided < MPI_THREAD_SERIALIZED)
    return ts_fail(TS_ERR_COMM,
                   "this MPI library allows no calls from a service "
                   "thread (MPI_THREAD_SERIALIZED)");
  TS_DO(TS_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)));
  return ts_watch_open();
}

void ts_mpi_stop(void) {
  int finalized = 0;
  if (!started) return;
  ts_watch_close();
  if (MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized)
    (void)MPI_Finalize();
  started = false;
}

void ts_mpi_abort(int code) {
  fflush(NULL);
  if (started) MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

static int world_number(int (*get)(MPI_Comm, int *), int otherwise) {
  int n = otherwise, finalized = 0;
  if (!started || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized)
    return otherwise;
  return get(MPI_COMM_WORLD, &n) == MPI_SUCCESS ? n : otherwise;
}

int ts_mpi_rank(void) {
  return world_number(MPI_Comm_rank, 0);
}
int ts_mpi_size(void) {
  return world_number(MPI_Comm_size, 1);
}

const char *ts_mpi_version(void) {
  static char text[128];
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int n, version, subversion;
  (void)MPI_Get_library_version(library, &n);
  (void)MPI_Get_version(&version, &subversion);
  library[strcspn(library, ",\n")] = '\0';
  snprintf(text, sizeof text, "%.90s, MPI %d.%d", library, version, subversion);
  return text;
}

/* Sets per_node, alike on all ranks. */
static ts_err compare_nodes(ts_world *w) {
  const int expected = w->node * w->node_size + w->node_rank;
  int most[3] = {w->node_size, -w->node_size, w->rank != expected};
  TS_DO(TS_MPI(MPI_Allreduce(MPI_IN_PLACE, most, 3, MPI_INT, MPI_MAX,
                             w->groups[TS_GROUP_WORLD])));
  w->per_node = most[0] == -most[1] && !most[2] ? w->node_size : 0;
  return TS_OK;
}

static ts_err split_nodes(ts_world *w) {
  MPI_Comm *node = &w->groups[TS_GROUP_NODE];
  const int per = w->options.ranks_per_node;
  int numbers[2];
  if (per > 0)
    TS_DO(TS_MPI(MPI_Comm_split(MPI_COMM_WORLD, w->rank / per, w->rank, node)));
  else
    TS_DO(TS_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED,
                                     w->rank, MPI_INFO_NULL, node)));
  TS_DO(TS_MPI(MPI_Comm_rank(*node, &w->node_rank)));
  TS_DO(TS_MPI(MPI_Comm_size(*node, &w->node_size)));
  TS_DO(TS_MPI(MPI_Comm_split(MPI_COMM_WORLD, w->node_rank, w->rank,
                              &w->groups[TS_GROUP_CROSS])));
  /* Nodes are numbered by their first ranks. */
  TS_DO(TS_MPI(MPI_Comm_rank(w->groups[TS_GROUP_CROSS], &numbers[0])));
  TS_DO(TS_MPI(MPI_Comm_size(w->groups[TS_GROUP_CROSS], &numbers[1])));
  TS_DO(TS_MPI(MPI_Bcast(numbers, 2, MPI_INT, 0, *node)));
  w->node = numbers[0];
  w->n_nodes = numbers[1];
  return compare_nodes(w);
}

ts_err ts_world_create(ts_world **out, ts_device *device,
                       const ts_world_options *options) {
  ts_err err = TS_OK;
  ts_world *w = NULL;
  pthread_condattr_t monotonic;
  TS_TRY(ts_mem_alloc(&w, sizeof *w, TS_TAG_COMM));
  for (int g = 0; g < TS_GROUP_COUNT; g++) w->groups[g] = MPI_COMM_NULL;
  w->device = device;
  w->options = *options;
  pthread_mutex_init(&w->lock, NULL);
  pthread_mutex_init(&w->serving, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&w->more, &monotonic);
  pthread_condattr_destroy(&monotonic);
  if (gethostname(w->host, sizeof w->host - 1) != 0) strcpy(w->host, "?");
  TS_TRY(TS_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &w->rank)));
  TS_TRY(TS_MPI(MPI_Comm_size(MPI_COMM_WORLD, &w->size)));
  TS_TRY(TS_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &w->groups[TS_GROUP_WORLD])));
  TS_TRY(split_nodes(w));
  TS_TRY(ts_world_choose(w));
  if (device->ops->is_remote)
    TS_TRY(ts_device_host_create(&w->lanes, &device->options));
  else
    w->lanes = device;
  if (!ts_device_options_of(device)->serial) {
    device->on_progress = ts_world_poke;
    device->on_progress_arg = w;
    w->lanes->on_progress = ts_world_poke;
    w->lanes->on_progress_arg = w;
    TS_TRY(ts_world_serve(w));
  }
  *out = w;
  w = NULL;
done:
  ts_world_destroy(w);
  return err;
}

void ts_world_destroy(ts_world *w) {
  if (!w) return;
  ts_world_unserve(w);
  w->device->on_progress = NULL;
  for (int g = 0; g < TS_GROUP_COUNT; g++)
    if (w->groups[g] != MPI_COMM_NULL) (void)MPI_Comm_free(&w->groups[g]);
  pthread_mutex_destroy(&w->lock);
  pthread_mutex_destroy(&w->serving);
  pthread_cond_destroy(&w->more);
  if (w->lanes != w->device) ts_device_destroy(w->lanes);
  ts_mem_free(w);
}

int ts_world_rank(const ts_world *w) {
  return w->rank;
}
int ts_world_size(const ts_world *w) {
  return w->size;
}
int ts_world_node_size(const ts_world *w) {
  return w->node_size;
}
int ts_world_node(const ts_world *w) {
  return w->node;
}
int ts_world_nodes(const ts_world *w) {
  return w->n_nodes;
}

/* Communicators are made and freed by the caller's thread, when no operation
 * is under way anywhere: the service thread is stopped meanwhile. */
static ts_err duplicate(ts_comm *c, ts_group group, int block) {
  const ts_world *w = c->world;
  if (block)
    TS_DO(TS_MPI(MPI_Comm_split(w->groups[TS_GROUP_WORLD], w->rank / block,
                                w->rank, &c->mpi)));
  else
    TS_DO(TS_MPI(MPI_Comm_dup(w->groups[group], &c->mpi)));
  TS_DO(TS_MPI(MPI_Comm_set_errhandler(c->mpi, MPI_ERRORS_RETURN)));
  TS_DO(TS_MPI(MPI_Comm_rank(c->mpi, &c->rank)));
  return TS_MPI(MPI_Comm_size(c->mpi, &c->size));
}

ts_err ts_world_gather_places(ts_world *w, ts_wire_place *all,
                              const ts_wire_place *own) {
  return TS_MPI(MPI_Allgather(own, (int)sizeof *own, MPI_BYTE, all,
                              (int)sizeof *own, MPI_BYTE,
                              w->groups[TS_GROUP_WORLD]));
}

ts_err ts_comm_share(ts_comm *c, void *buf, int bytes, ts_err of_rank_0) {
  int code = of_rank_0;
  TS_DO(TS_MPI(MPI_Bcast(&code, 1, MPI_INT, 0, c->mpi)));
  if (c->rank == 0 && code != TS_OK) return (ts_err)code;
  if (code != TS_OK)
    return ts_fail((ts_err)code, "rank 0 of \"%s\" could not begin it",
                   c->name);
  return TS_MPI(MPI_Bcast(buf, bytes, MPI_BYTE, 0, c->mpi));
}

/* The ranks of a comm: a group, or blocks of BLOCK ranks.  HOST: it carries
 * only buffers that the host may touch. */
typedef struct scope {
  ts_group group;
  int block;
  bool host;
} scope;

static ts_err create_comm(ts_world *w, ts_comm **out, scope of,
                          const char *name) {
  ts_err err = TS_OK;
  ts_comm *c = NULL;
  const bool served = w->has_thread;
  ts_world_unserve(w);
  w->stop = false;
  TS_TRY(ts_mem_alloc(&c, sizeof *c, TS_TAG_COMM));
  c->world = w;
  c->name = c->stage = name;
  c->mpi = MPI_COMM_NULL;
  TS_TRY(duplicate(c, of.group, of.block));
  if (c->size == w->size) c->per_node = w->per_node;
  TS_TRY(ts_op_spare(c, SPARE_OPS));
  TS_TRY(ts_mem_many(c->codes, c->size, COMM));
  TS_TRY(ts_mem_alloc(&c->fault, sizeof *c->fault, TS_TAG_COMM));
  TS_TRY(ts_lane_create(w->lanes, &c->lane, name, TS_LANE_COMM));
  if (w->ops->open && !of.host) TS_TRY(w->ops->open(c));
  c->watch = ts_watch_lane_take(name);
  c->next = w->comms;
  w->comms = c;
  if (served) TS_TRY(ts_world_serve(w));
  *out = c;
done:
  if (err != TS_OK) ts_comm_destroy(c);
  return err;
}

ts_err ts_comm_create(ts_world *w, ts_comm **out, ts_group group,
                      const char *name) {
  return create_comm(w, out, (scope){.group = group}, name);
}

ts_err ts_comm_create_host(ts_world *w, ts_comm **out, ts_group group,
                           const char *name) {
  return create_comm(w, out, (scope){.group = group, .host = true}, name);
}

ts_err ts_comm_create_block(ts_world *w, ts_comm **out, int n,
                            const char *name) {
  return create_comm(w, out, (scope){TS_GROUP_WORLD, n, false}, name);
}

void ts_comm_destroy(ts_comm *c) {
  if (!c) return;
  ts_world *w = c->world;
  const bool served = w->has_thread;
  ts_world_unserve(w);
  w->stop = false;
  for (ts_comm **p = &w->comms; *p; p = &(*p)->next)
    if (*p == c) {
      *p = c->next;
      break;
    }
  if (c->far) w->ops->close(c);
  if (c->mpi != MPI_COMM_NULL) (void)MPI_Comm_free(&c->mpi);
  ts_op_free_all(c);
  ts_comm_free(c, c->scratch);
  ts_comm_free(c, c->codes);
  ts_comm_free(c, c->fault);
  ts_watch_lane_give(c->watch);
  ts_lane_destroy(c->lane);
  ts_mem_free(c);
  if (served && w->comms && ts_world_serve(w) != TS_OK) ts_err_clear();
}
