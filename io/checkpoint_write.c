/* checkpoint_write.c - saving.
 *
 * Rank 0 makes the file under a temporary name with contiguous datasets that
 * have their place on disk; every rank writes its rows there with pwrite and
 * computes checksums of the 1 MiB blocks that are wholly its own.  Blocks at
 * borders between ranks are read back by rank 0.  All statuses are agreed
 * before the file gets its name: a failed write on one rank never leaves a
 * file that looks whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"
#include "runtime/watchdog.h"

/* ---- every rank: its rows ------------------------------------------------ */

/* Checksums of the blocks that lie wholly in bytes [from, from + n). */
static void sum_blocks(ts_saver *s, int32_t i, const char *data, int64_t from,
                       int64_t n, int64_t total) {
  int64_t block = ts_blocks(from);
  for (;; block++) {
    const int64_t start = block * TS_BLOCK_BYTES;
    const int64_t end =
        total - start < TS_BLOCK_BYTES ? total : start + TS_BLOCK_BYTES;
    if (start >= total || end > from + n) return;
    s->crc[i][block] =
        ts_crc32c(0, data + (start - from), (size_t)(end - start));
    s->own[i][block] = 1;
  }
}

/* Bytes [from, from + n) of P's rows, of ROW bytes each: where they are, or a
 * copy. */
static ts_err bring(ts_saver *s, const ts_ckpt_piece *p, int64_t row,
                    int64_t from, int64_t n, const char **data) {
  *data = (const char *)p->ptr + from;
  if (ts_ckpt_is_plain(&s->c->staging, p)) return TS_OK;
  *data = s->bite;
  return ts_ckpt_bring(&s->c->staging, s->bite, p, row, from, n);
}

ts_err ts_ckpt_write_rows(ts_saver *s, int32_t i, const ts_ckpt_piece *p) {
  const ts_ckpt_item *item = &s->c->items[i];
  const int64_t row = ts_item_row_bytes(item);
  const int64_t total = ts_item_bytes(item->dtype, item->rows, item->cols);
  const int64_t from = p->row0 * row, n = p->n_rows * row;
  if (ts_fault("freeze"))
    for (;;) pause();
  /* In bites, summed while they are in the cache. */
  for (int64_t at = 0; at < n;) {
    int64_t end =
        (from + at) / TS_BLOCK_BYTES * TS_BLOCK_BYTES + TS_BITE_BYTES - from;
    const char *data;
    if (end > n) end = n;
    TS_DO(bring(s, p, row, at, end - at, &data));
    sum_blocks(s, i, data, from + at, end - at, total);
    TS_DO(ts_ckpt_check_finite(s->c, item, data, from + at, end - at));
    TS_DO(ts_pwrite(s->fd, data, end - at, s->at[i] + from + at, s->temp,
                    TS_ERR_CKPT));
    if (s->hooks.beat) s->hooks.beat(s->hooks.arg);
    at = end;
  }
  return TS_OK;
}

static ts_err write_pieces(ts_saver *s, bool copied) {
  if (s->fd < 0) {
    s->fd = ts_file_open(s->temp, O_RDWR);
    if (s->fd < 0)
      return ts_fail(TS_ERR_CKPT,
                     "%s: %s (is the folder shared by all "
                     "nodes?)",
                     s->temp, strerror(errno));
  }
  for (int32_t i = 0; s->filling && !copied && i < s->c->n_items; i++)
    TS_DO(s->filling->fill(s->filling->arg, s, i));
  for (int32_t i = 0; i < s->c->n_items; i++)
    for (int32_t k = 0; k < s->c->items[i].n_write; k++)
      if (s->c->items[i].write[k].copied == copied)
        TS_DO(ts_ckpt_write_rows(s, i, &s->c->items[i].write[k]));
  return TS_OK;
}

static ts_err sync_file(const ts_saver *s) {
  if (ts_file_sync(s->fd) != 0) return ts_fail_errno(TS_ERR_CKPT, s->temp);
  return TS_OK;
}

/* ---- checksums ----------------------------------------------------------- */

/* Brings all checksums to all ranks: sums of (checksum + 2^40 marker). */
static ts_err share_sums(ts_saver *s, int32_t i) {
  const int64_t n = s->n_blocks[i];
  int64_t *shared = s->shared;
  for (int64_t b = 0; b < n; b++)
    shared[b] = s->own[i][b] ? INT64_C(1) << 40 | s->crc[i][b] : 0;
  return ts_comm_sum_i64(s->comm, shared, n);
}

/* Rank 0 reads back what no rank had whole. */
static ts_err sum_borders(ts_saver *s, int32_t i) {
  const ts_ckpt_item *item = &s->c->items[i];
  const int64_t total = ts_item_bytes(item->dtype, item->rows, item->cols);
  for (int64_t b = 0; b < s->n_blocks[i]; b++) {
    if (s->shared[b] >> 40) {
      s->crc[i][b] = (uint32_t)s->shared[b];
      continue;
    }
    const int64_t at = b * TS_BLOCK_BYTES;
    const int64_t n = total - at < TS_BLOCK_BYTES ? total - at : TS_BLOCK_BYTES;
    TS_DO(ts_pread(s->fd, s->block, n, s->at[i] + at, s->temp, TS_ERR_CKPT));
    s->crc[i][b] = ts_crc32c(0, s->block, (size_t)n);
  }
  return TS_OK;
}

static ts_err collect_sums(ts_saver *s) {
  ts_err err = TS_OK, local = TS_OK;
  for (int32_t i = 0; i < s->c->n_items; i++) {
    TS_TRY(share_sums(s, i));
    if (s->first && local == TS_OK) local = sum_borders(s, i);
  }
done:
  return err != TS_OK ? err : local;
}

/* ---- all of it ----------------------------------------------------------- */

/* All that is COPIED, or is not. */
static ts_err write_all(ts_saver *s, bool copied) {
  TS_DO(ts_agree(s->comm, write_pieces(s, copied)));
  return ts_ckpt_write_columns(s, copied);
}

static ts_err give_name(ts_saver *s) {
  return s->filling ? s->filling->publish(s->filling->arg, s)
                    : ts_ckpt_give_name(s->temp, s->path, s->dir);
}

static ts_err save_all(ts_saver *s) {
  TS_DO(ts_agree(s->comm, s->first ? ts_ckpt_file_create(s) : TS_OK));
  TS_DO(ts_comm_bcast(s->comm, s->at, 8 * (int64_t)s->c->n_items, 0));
  TS_DO(write_all(s, false));
  if (s->hooks.read) s->hooks.read(s->hooks.arg);
  TS_DO(write_all(s, true));
  TS_DO(ts_agree(s->comm, sync_file(s)));
  TS_DO(ts_agree(s->comm, collect_sums(s)));
  TS_DO(ts_agree(s->comm, s->first ? ts_ckpt_file_seal(s) : TS_OK));
  return ts_agree(s->comm, s->first ? give_name(s) : TS_OK);
}

/* All that it will need: nobody must run out of memory on its own later. */
static ts_err saver_start(ts_saver *s) {
  const int32_t n = s->c->n_items;
  int64_t most = 0;
  TS_DO(ts_mem_many(s->at, n, CHECKPOINT));
  TS_DO(ts_mem_many(s->crc, n, CHECKPOINT));
  TS_DO(ts_mem_many(s->own, n, CHECKPOINT));
  TS_DO(ts_mem_many(s->n_blocks, n, CHECKPOINT));
  for (int32_t i = 0; i < n; i++) {
    const ts_ckpt_item *it = &s->c->items[i];
    s->n_blocks[i] = ts_blocks(ts_item_bytes(it->dtype, it->rows, it->cols));
    if (s->n_blocks[i] > most) most = s->n_blocks[i];
    TS_DO(ts_mem_many(s->crc[i], s->n_blocks[i], CHECKPOINT));
    TS_DO(ts_mem_many(s->own[i], s->n_blocks[i], CHECKPOINT));
  }
  TS_DO(ts_mem_many(s->shared, most, CHECKPOINT));
  TS_DO(ts_mem_alloc(&s->block, TS_BLOCK_BYTES, TS_TAG_CHECKPOINT));
  if (ts_ckpt_needs_bite(s->c))
    TS_DO(ts_mem_alloc(&s->bite, TS_BITE_BYTES, TS_TAG_CHECKPOINT));
  return TS_OK;
}

static void saver_reset(ts_saver *s) {
  if (s->fd >= 0) close(s->fd);
  for (int32_t i = 0; s->crc && i < s->c->n_items; i++) ts_mem_free(s->crc[i]);
  for (int32_t i = 0; s->own && i < s->c->n_items; i++) ts_mem_free(s->own[i]);
  ts_mem_free_all(s->crc, s->own, s->n_blocks, s->block, s->bite);
  ts_comm_free(s->comm, s->at);
  ts_comm_free(s->comm, s->shared);
}

static void beat(void *arg) {
  (void)arg;
  ts_watch_beat();
}

ts_err ts_ckpt_save(ts_ckpt *c, const char *dir, int keep, const char *io,
                    ts_comm *comm) {
  const ts_ckpt_hooks hooks = {.beat = beat};
  if (ts_ckpt_use_mpio(io, dir)) return ts_ckpt_save_mpio(c, dir, keep, comm);
  return ts_ckpt_save_hooked(c, dir, keep, comm, &hooks);
}

/* TEMP: its temporary name. */
static ts_err save(ts_saver *s, const char *dir, const char *temp) {
  ts_err err = TS_OK;
  char name[64];
  s->first = ts_comm_rank(s->comm) == 0;
  s->file = s->fd = -1;
  ts_ckpt_name(name, s->c->kind, s->c->step);
  snprintf(s->dir, sizeof s->dir, "%s", dir);
  snprintf(s->path, sizeof s->path, "%.4000s/%s", dir, name);
  snprintf(s->temp, sizeof s->temp, "%.4000s/.%s.part", dir,
           temp ? temp : name);
  TS_TRY(ts_agree(s->comm, saver_start(s)));
  TS_TRY(save_all(s));
done:
  if (err != TS_OK && s->first) unlink(s->temp);
  saver_reset(s);
  return err;
}

ts_err ts_ckpt_save_hooked(ts_ckpt *c, const char *dir, int keep, ts_comm *comm,
                           const ts_ckpt_hooks *hooks) {
  ts_saver s = {.c = c, .comm = comm, .hooks = *hooks};
  TS_DO(save(&s, dir, NULL));
  return ts_agree(comm,
                  s.first ? ts_ckpt_prune(dir, keep, s.path, true) : TS_OK);
}

ts_err ts_ckpt_save_filled(ts_ckpt *c, const char *dir, const char *temp,
                           const ts_filling *filling, ts_comm *comm) {
  ts_saver s = {
      .c = c, .comm = comm, .hooks = {.beat = beat}, .filling = filling};
  return save(&s, dir, temp);
}
