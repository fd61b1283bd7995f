/* bench_checkpoint.c - `tessera bench checkpoint [key=value]...`: one table
 * over the ranks saved and loaded as in training, beside plain pwrite and
 * pread of the same bytes by the same ranks in the same folder, and how long a
 * save that is written beside the steps holds them up.  Writes end with fsync;
 * of three rounds, in turns, the fastest counts. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "commands/bench.h"
#include "commands/bench_table.h"
#include "io/checkpoint_writer.h"
#include "runtime/topology.h"
#include "runtime/trace.h"

enum {
  ROUNDS = 3,
  SAVE = 0,
  PLAIN_WRITE,
  LOAD,
  PLAIN_READ,
  BESIDE, /* until training goes on */
  N_WAYS
};

typedef struct ts_case {
  ts_device *device;
  ts_world *world;
  ts_comm *comm;
  const char *io;
  int rank, n_ranks, n_threads;
  bool cold; /* reads find nothing in the page cache */
  int64_t dim, rows, from, to;
  uint32_t *data; /* (to - from, dim), as f32 */
  char dir[1024], file[1100], plain[1100];
  ts_ckpt ckpt;
  ts_ckpt_writer *writer;
  double best[N_WAYS];
  double beside_s; /* from the start to the name, of the fastest stall */
} ts_case;

/* ---- the table ----------------------------------------------------------- */

static uint32_t word_at(int64_t i) {
  return (uint32_t)((uint64_t)i * UINT64_C(0x9E3779B97F4A7C15) >> 34);
}

static ts_err check(const ts_case *c, const char *path) {
  for (int64_t i = c->from * c->dim; i < c->to * c->dim; i++)
    if (c->data[i - c->from * c->dim] != word_at(i))
      return ts_fail(TS_ERR_INTERNAL, "%s: other bytes came back", path);
  return TS_OK;
}

static int64_t own_bytes(const ts_case *c) {
  return (c->to - c->from) * c->dim * 4;
}

static ts_err describe(const ts_case *c, ts_ckpt *ckpt) {
  ts_ckpt_item *item;
  ckpt->step = 1;
  TS_DO(ts_ckpt_add_item(ckpt, "model/table.weight", TS_F32, c->rows, c->dim,
                         &item));
  return ts_ckpt_add_piece(item, true, true, c->from, c->to - c->from, c->data);
}

/* ---- the ways ------------------------------------------------------------ */

static ts_err plain_write(ts_case *c) {
  ts_err err = TS_OK;
  const int fd = open(c->plain, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (fd < 0) return ts_fail_errno(TS_ERR_IO, c->plain);
  TS_TRY(ts_pwrite(fd, c->data, own_bytes(c), c->from * c->dim * 4, c->plain,
                   TS_ERR_IO));
  if (fsync(fd) != 0) err = ts_fail_errno(TS_ERR_IO, c->plain);
done:
  close(fd);
  return err;
}

static ts_err plain_read(ts_case *c) {
  const int fd = open(c->plain, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ts_fail_errno(TS_ERR_IO, c->plain);
  const ts_err err = ts_pread(fd, c->data, own_bytes(c), c->from * c->dim * 4,
                              c->plain, TS_ERR_IO);
  close(fd);
  return err;
}

/* The writer takes a description over: it gets one of its own. */
static ts_err beside(ts_case *c) {
  ts_err err = TS_OK;
  ts_ckpt copy = {0};
  TS_TRY(ts_agree(c->comm, describe(c, &copy)));
  TS_TRY(ts_ckpt_writer_save(c->writer, &copy, false, false));
done:
  ts_ckpt_reset(&copy);
  return err;
}

/* Works as a step does while the checkpoint is written. */
static ts_err finish_beside(ts_case *c, double stall_s) {
  ts_ckpt_saved saved;
  memset(c->data, 0, (size_t)own_bytes(c));
  TS_DO(ts_ckpt_writer_finish(c->writer, &saved));
  double seconds = saved.write_s;
  TS_DO(ts_comm_max_f64(c->comm, &seconds, 1));
  /* The writer's clock begins with its thread, steps may wait for that. */
  if (stall_s <= c->best[BESIDE]) c->beside_s = fmax(stall_s, seconds);
  return ts_ckpt_load(&c->ckpt, c->file, false, NULL, c->comm);
}

static ts_err go(ts_case *c, int way) {
  switch (way) {
  case BESIDE:
    return beside(c);
  case SAVE:
    return ts_ckpt_save(&c->ckpt, c->dir, 1, c->io, c->comm);
  case LOAD:
    return ts_ckpt_load(&c->ckpt, c->file, false, NULL, c->comm);
  case PLAIN_WRITE:
    return ts_agree(c->comm, plain_write(c));
  default:
    return ts_agree(c->comm, plain_read(c));
  }
}

/* Every round writes a new file, as training does; a read starts with other
 * bytes in memory. */
static ts_err prepare(ts_case *c, int way) {
  const bool plain = way == PLAIN_WRITE || way == PLAIN_READ;
  const char *path = plain ? c->plain : c->file;
  if (way == SAVE || way == PLAIN_WRITE || way == BESIDE) {
    if (c->rank == 0) unlink(path);
    for (int64_t i = c->from * c->dim; i < c->to * c->dim; i++)
      c->data[i - c->from * c->dim] = word_at(i);
  } else {
    memset(c->data, 0, (size_t)own_bytes(c));
    const int fd = c->cold ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (fd >= 0) close(fd);
  }
  return ts_comm_barrier(c->comm);
}

static ts_err measure(ts_case *c) {
  for (int round = 0; round < ROUNDS; round++)
    for (int way = 0; way < N_WAYS; way++) {
      TS_DO(prepare(c, way));
      const double t0 = ts_now();
      TS_DO(go(c, way));
      double seconds = ts_now() - t0;
      TS_DO(ts_comm_max_f64(c->comm, &seconds, 1));
      if (round == 0 || seconds < c->best[way]) c->best[way] = seconds;
      if (way == BESIDE) TS_DO(finish_beside(c, seconds));
      TS_DO(ts_agree(c->comm, check(c, way == LOAD ? c->file : c->plain)));
    }
  return TS_OK;
}

static const ts_bench_table rates = {
    "rates",
    "{way|%-6s|}{checkpoint_gb_per_s| %9.2f GB/s|checkpoint}"
    "{plain_gb_per_s| %9.2f GB/s|plain}{of_plain_percent| %9.0f%%|of plain}"};

static const ts_bench_table saves = {
    "save",
    "{save_ms|save: steps wait %.1f ms}"
    "{beside_ms|; written beside them %.1f ms}{beside_percent|, %.1f%% of it}"
    "{done_ms|, and the file is there after %.1f ms}"};

static void report(const ts_case *c) {
  const double gb = (double)(c->rows * c->dim) * 4e-9;
  ts_info("bench checkpoint: %d ranks, %d threads each, %.3f GB, checkpoint.io "
          "\"%s\", reads %s; best of %d",
          c->n_ranks, c->n_threads, gb, c->io,
          c->cold ? "past the page cache" : "cached", ROUNDS);
  ts_bench_heads(&rates);
  for (int k = 0; k < 2; k++) {
    const double *t = &c->best[k ? LOAD : SAVE];
    ts_bench_print(&rates, k ? "read" : "write", gb / t[0], gb / t[1],
                   100 * t[1] / t[0]);
  }
  ts_bench_print(&saves, 1e3 * c->best[SAVE], 1e3 * c->best[BESIDE],
                 100 * c->best[BESIDE] / c->best[SAVE], 1e3 * c->beside_s);
}

/* ---- setting up ---------------------------------------------------------- */

/* A folder of its own: saving forgets older checkpoints beside the new one. */
static ts_err make_folder(ts_case *c, const char *parent) {
  ts_err err = TS_OK;
  if (c->rank == 0) {
    snprintf(c->dir, sizeof c->dir, "%.1000s/bench-XXXXXX", parent);
    if (!mkdtemp(c->dir)) {
      err = ts_fail_errno(TS_ERR_IO, c->dir);
      c->dir[0] = '\0';
    }
  }
  TS_DO(ts_agree(c->comm, err));
  TS_DO(ts_comm_bcast(c->comm, c->dir, sizeof c->dir, 0));
  snprintf(c->file, sizeof c->file, "%s/step-00000001.h5", c->dir);
  snprintf(c->plain, sizeof c->plain, "%s/plain", c->dir);
  return TS_OK;
}

static ts_err make_table(ts_case *c) {
  c->from = c->rows * c->rank / c->n_ranks;
  c->to = c->rows * (c->rank + 1) / c->n_ranks;
  TS_DO(ts_mem_array(&c->data, c->to - c->from, (size_t)c->dim * 4,
                     TS_TAG_TABLES));
  return describe(c, &c->ckpt);
}

static ts_err make_writer(ts_case *c) {
  int64_t needed, room;
  const char *why;
  const ts_ckpt_writer_options o = {.dir = c->dir,
                                    .io = c->io,
                                    .keep = 1,
                                    .mirror_every = 1,
                                    .beside = true,
                                    .node_size = ts_world_node_size(c->world),
                                    .n_threads = c->n_threads};
  TS_DO(ts_ckpt_writer_create(&c->writer, &o, c->world));
  TS_DO(ts_ckpt_writer_prepare(c->writer, &c->ckpt, &needed, &room, &why));
  if (why) ts_note("saves are not written beside steps: %s", why);
  return TS_OK;
}

static ts_err start(ts_case *c) {
  bool widened;
  const ts_device_options device = {.n_threads = 1, .timeout_s = 600};
  const ts_world_options world = {.ordered = true, .timeout_s = 600};
  c->n_threads = ts_bind_local(0, &widened); /* as many as train */
  TS_DO(ts_device_create(&c->device, "host", &device));
  TS_DO(ts_world_create(&c->world, c->device, &world));
  TS_DO(ts_comm_create(c->world, &c->comm, TS_GROUP_WORLD, "control"));
  c->rank = ts_comm_rank(c->comm);
  c->n_ranks = ts_comm_size(c->comm);
  return TS_OK;
}

static void stop(ts_case *c) {
  if (c->rank == 0 && *c->dir) {
    unlink(c->file);
    unlink(c->plain);
    rmdir(c->dir);
  }
  ts_ckpt_writer_destroy(c->writer);
  ts_ckpt_reset(&c->ckpt);
  ts_mem_free(c->data);
  ts_comm_destroy(c->comm);
  ts_world_destroy(c->world);
  ts_device_destroy(c->device);
}

ts_err ts_bench_checkpoint(const ts_args *a) {
  ts_err err = TS_OK;
  static const char *const ways[] = {"auto", "pwrite", "mpio"};
  ts_case c = {0};
  double mb = 512, dim = 64;
  int io = 0, cold = 0;
  const char *dir = ".";
  const ts_bench_key keys[] = {
      TS_BENCH_NUMBER("mb", &mb, 1, 1e9, "size of the table, in MB"),
      TS_BENCH_NUMBER("dim", &dim, 1, 1 << 20, "width of a row"),
      TS_BENCH_CHOICE("io", &io, "auto|pwrite|mpio", "how it is written"),
      TS_BENCH_CHOICE("cold", &cold, "0|1", "reads past the page cache"),
      TS_BENCH_WORD("dir", &dir,
                    "where a folder of its own is made and removed")};
  TS_TRY(ts_bench_keys(a, 0, keys, (int)(sizeof keys / sizeof *keys)));
  c.io = ways[io];
  c.cold = cold;
  c.dim = (int64_t)dim;
  c.rows = (int64_t)(mb * 1e6 / 4 / (double)c.dim) + 1;
  TS_TRY(start(&c));
  TS_TRY(ts_agree(c.comm, make_table(&c)));
  TS_TRY(make_folder(&c, dir));
  TS_TRY(make_writer(&c));
  TS_TRY(measure(&c));
  report(&c);
done:
  stop(&c);
  return err;
}
