/* replicas.c - what several ranks hold, compared. */
#include "train/replicas.h"

#include "base/hash.h"
#include "base/mem.h"
#include "dense/param_optim.h"
#include "shard/sharding.h"
#include "train/state_dense.h"

enum { PIECE = 1 << 20, NAMED = 8 };

/* ---- what there is ------------------------------------------------------- */

typedef struct ts_listed {
  ts_trainer *t;
  ts_ckpt *ckpt;
  int32_t table;
} ts_listed;

/* A table's shard here, all of it: rows, then states. */
static ts_err add_shard(void *arg, int32_t table, const ts_shard *s,
                        ts_tbe *tbe, int32_t number) {
  const ts_listed *l = arg;
  ts_err err = TS_OK;
  ts_str name = {0};
  ts_ckpt_item *item;
  if (table != l->table) return TS_OK;
  for (int k = -1; k < ts_tbe_optim(tbe)->n_states; k++) {
    int32_t cols;
    ts_dtype dtype;
    void *rows = ts_tbe_rows(tbe, number, k, &cols, &dtype);
    ts_str_reset(&name);
    TS_TRY(ts_str_append(&name, "%s of table %s",
                         k < 0 ? "rows" : ts_tbe_optim(tbe)->state[k].name,
                         l->t->config->tables[table].name));
    TS_TRY(ts_ckpt_add_item(l->ckpt, name.text, dtype, s->n_rows, cols, &item));
    TS_TRY(ts_ckpt_add_piece(item, false, true, 0, s->n_rows, rows));
  }
done:
  ts_str_reset(&name);
  return err;
}

/* In the same order on all ranks; tables' from item *FIRST_TABLE on. */
static ts_err list(ts_trainer *t, ts_ckpt *ckpt, int32_t *first_table) {
  ts_listed l = {.t = t, .ckpt = ckpt};
  TS_DO(ts_ckpt_on(ckpt, t->device));
  TS_DO(ts_trainer_rest(t));
  TS_DO(ts_state_dense(t, ckpt, true));
  *first_table = ckpt->n_items;
  for (; l.table < t->config->n_tables; l.table++)
    if (ts_shard_kind_is_replicated(t->plan->tables[l.table].kind))
      TS_DO(ts_ebc_each_shard(t->ebc, add_shard, &l));
  return TS_OK;
}

/* ---- sums ---------------------------------------------------------------- */

/* The sum of BYTES at P, which the host may touch, by N_THREADS. */
static uint64_t sum_here(const char *p, int64_t bytes, int n_threads) {
  const int64_t n = (bytes + PIECE - 1) / PIECE;
  uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(n_threads)
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = i * PIECE, left = bytes - at;
    sum += ts_sum64((uint64_t)i, p + at, (size_t)(left < PIECE ? left : PIECE));
  }
  return sum;
}

static ts_err sum_there(ts_staging *s, const char *p, int64_t bytes, char *room,
                        uint64_t *sum) {
  *sum = 0;
  for (int64_t at = 0, i = 0; at < bytes; at += PIECE, i++) {
    const size_t n = (size_t)(bytes - at < PIECE ? bytes - at : PIECE);
    TS_DO(ts_staging_get(s, room, p + at, n));
    *sum += ts_sum64((uint64_t)i, room, n);
  }
  return TS_OK;
}

/* SUM 0: this rank has not all of the item. */
static ts_err sum_of(const ts_trainer *t, ts_ckpt *ckpt,
                     const ts_ckpt_item *item, char *room, uint64_t *sum) {
  const ts_ckpt_piece *p = item->read;
  const int64_t bytes =
      item->rows * ts_row_bytes(item->dtype, item->cols ? item->cols : 1);
  *sum = 0;
  if (item->n_read != 1 || p->row0 || p->n_rows != item->rows) return TS_OK;
  if (ts_staging_is_remote(&ckpt->staging, p->ptr))
    TS_DO(sum_there(&ckpt->staging, p->ptr, bytes, room, sum));
  else
    *sum = sum_here(p->ptr, bytes, t->n_threads);
  if (!*sum) *sum = 1;
  return TS_OK;
}

static ts_err sum_all(const ts_trainer *t, ts_ckpt *ckpt, uint64_t *sums) {
  ts_err err = TS_OK;
  char *room = NULL;
  TS_TRY(ts_mem_many(room, PIECE, MISC));
  for (int32_t i = 0; i < ckpt->n_items; i++)
    TS_TRY(sum_of(t, ckpt, &ckpt->items[i], room, &sums[i]));
done:
  ts_mem_free(room);
  return err;
}

/* ---- the verdict --------------------------------------------------------- */

ts_err ts_ranks_append(ts_str *to, const int64_t *marked, int n) {
  int n_marked = 0, named = 0;
  for (int r = 0; r < n; r++) n_marked += marked[r] != 0;
  TS_DO(ts_str_append(to, "%s", n_marked > 1 ? "ranks " : "rank "));
  for (int r = 0; r < n && named < NAMED; r++)
    if (marked[r]) TS_DO(ts_str_append(to, "%s%d", named++ ? ", " : "", r));
  return n_marked > named ? ts_str_append(to, " and %d more", n_marked - named)
                          : TS_OK;
}

/* The ranks of N with another sum than most, those that have one: N_ITEMS
 * apart.  All of them where most have none in common; *MOST says that. */
static bool find_odd(const uint64_t *sum, int n, int32_t n_items, int64_t *odd,
                     bool *most) {
  uint64_t usual = 0;
  int n_have = 0, n_best = 0;
  for (int a = 0; a < n; a++) {
    int same = 0;
    for (int b = 0; b < n; b++)
      same += sum[a * (int64_t)n_items] == sum[b * (int64_t)n_items];
    if (!sum[a * (int64_t)n_items]) continue;
    n_have++;
    if (same > n_best) n_best = same, usual = sum[a * (int64_t)n_items];
  }
  *most = 2 * n_best > n_have;
  for (int a = 0; a < n; a++) {
    const uint64_t own = sum[a * (int64_t)n_items];
    odd[a] = own && (!*most || own != usual);
  }
  return n_best < n_have;
}

static ts_err judge(const ts_ckpt *ckpt, const uint64_t *all, int n,
                    ts_str *what) {
  ts_err err = TS_OK;
  int64_t odd[n];
  bool most;
  ts_str ranks = {0};
  for (int32_t i = 0; i < ckpt->n_items; i++) {
    if (!find_odd(all + i, n, ckpt->n_items, odd, &most)) continue;
    TS_TRY(ts_ranks_append(&ranks, odd, n));
    TS_TRY(most ? ts_str_append(what, "%s of %s differs from the other ranks'",
                                ckpt->items[i].name, ranks.text)
                : ts_str_append(what,
                                "%s differs between %s, and no more than "
                                "half of them agree",
                                ckpt->items[i].name, ranks.text));
    break;
  }
done:
  ts_str_reset(&ranks);
  return err;
}

ts_err ts_replicas_compare(ts_trainer *t, ts_str *what) {
  ts_err err = TS_OK;
  ts_ckpt ckpt = {0};
  uint64_t *sums = NULL, *all = NULL;
  int32_t first;
  if (t->n_ranks == 1) return TS_OK;
  TS_TRY(ts_settle(t, list(t, &ckpt, &first)));
  err = ts_mem_many(sums, ckpt.n_items, MISC);
  if (err == TS_OK)
    err = ts_mem_many(all, (int64_t)t->n_ranks * ckpt.n_items, MISC);
  if (err == TS_OK) err = sum_all(t, &ckpt, sums);
  TS_TRY(ts_settle(t, err));
  TS_TRY(ts_comm_gather_all(t->control, all, sums,
                            ckpt.n_items * (int64_t)sizeof *sums));
  TS_TRY(ts_settle(t, judge(&ckpt, all, t->n_ranks, what)));
done:
  ts_comm_free(t->control, all);
  ts_comm_free(t->control, sums);
  ts_ckpt_reset(&ckpt);
  return err;
}

/* ---- a fault on purpose -------------------------------------------------- */

ts_err ts_replicas_flip(ts_trainer *t) {
  ts_err err = TS_OK;
  ts_ckpt ckpt = {0};
  uint32_t bits;
  int32_t i;
  TS_TRY(list(t, &ckpt, &i));
  void *w = ckpt.items[i < ckpt.n_items ? i : 0].read->ptr;
  TS_TRY(ts_staging_get(&ckpt.staging, &bits, w, sizeof bits));
  bits ^= 4;
  TS_TRY(ts_staging_put(&ckpt.staging, w, &bits, sizeof bits));
done:
  ts_ckpt_reset(&ckpt);
  return err;
}
