/* embeddings_rows.c - rows of a table out of a checkpoint: a part on each rank.
 */
#include <string.h>

#include "base/few_bits.h"
#include "dense/param_optim.h"
#include "model/named.h"
#include "sparse/row_optim.h"
#include "train/embeddings_impl.h"

/* An item KIND/FULL of the rows, with TAIL behind it, to X. */
static ts_err ask(ts_ckpt *ckpt, const ts_embedding_part *p,
                  const ts_table_config *table, const char *name, int64_t cols,
                  float *x) {
  ts_ckpt_item *item;
  TS_DO(ts_ckpt_add_item(ckpt, name, TS_F32, table->rows, cols, &item));
  item->optional = x != p->vectors;
  return ts_ckpt_add_piece(item, false, true, p->first, p->n, x);
}

/* Which ids the rows are. */
static ts_err ask_ids(ts_ckpt *ckpt, const ts_embedding_part *p,
                      const ts_table_config *table) {
  ts_err err = TS_OK;
  ts_str name = {0};
  ts_ckpt_item *item;
  if (!p->ids) return TS_OK;
  TS_TRY(ts_str_append(&name, "dynamic/%s/ids", table->name));
  TS_TRY(ts_ckpt_add_item(ckpt, name.text, TS_I64, table->rows, 0, &item));
  TS_TRY(ts_ckpt_add_piece(item, false, true, p->first, p->n, p->ids));
done:
  ts_str_reset(&name);
  return err;
}

static ts_err ask_mean(ts_ckpt *ckpt, const ts_embedding_part *p,
                       const ts_table_config *table, const char *full) {
  ts_err err = TS_OK;
  ts_str name = {0};
  if (!p->mean) return TS_OK;
  memset(p->pass, 0, (size_t)p->n * 4); /* where the file has none */
  TS_TRY(ts_str_append(&name, "optim/%s/ema", full));
  TS_TRY(ask(ckpt, p, table, name.text, table->dim, p->mean));
  TS_TRY(ts_str_append(&name, "_pass"));
  TS_TRY(ask(ckpt, p, table, name.text, 0, p->pass));
done:
  ts_str_reset(&name);
  return err;
}

/* Rows become their means at the end of pass AT, as ts_tbe_take_averages has
 * them. */
static void take_means(const ts_trainer *t, const ts_table_config *table,
                       ts_embedding_part *p, int64_t at) {
  const double decay = t->config->optimizer.ema;
  const int64_t dim = table->dim;
  char rounded[ts_row_bytes(table->dtype, dim)];
  for (int64_t i = 0; i < p->n; i++) {
    float *w = p->vectors + i * dim;
    ts_row_take_mean(w, p->mean + i * dim, p->pass[i], dim, decay, at);
    ts_rows_from_f32(rounded, w, table->dtype, 1, table->dim);
    ts_rows_to_f32(w, rounded, table->dtype, 1, table->dim);
  }
}

ts_err ts_embedding_read(const ts_trainer *t, const ts_embedding *e,
                         ts_embedding_part *p, const char *path, int64_t at) {
  ts_err err = TS_OK;
  const ts_named *model = ts_named_of(t->config);
  ts_table_config table = *e->table;
  ts_ckpt ckpt = {0};
  ts_str full = {0}, name = {0};
  if (p->ids) table.rows = e->n;
  table.weighted_apart = table.weighted && model && model->weighted_apart;
  TS_TRY(ts_param_table_name(&full, &table));
  TS_TRY(ts_str_append(&name, "model/%s", full.text));
  TS_TRY(ask(&ckpt, p, &table, name.text, table.dim, p->vectors));
  TS_TRY(ask_mean(&ckpt, p, &table, full.text));
  TS_TRY(ask_ids(&ckpt, p, &table));
done:
  err = ts_agree(t->control, err);
  if (err == TS_OK) err = ts_ckpt_load_items(&ckpt, path, t->control);
  if (err == TS_OK && p->mean) take_means(t, &table, p, at);
  ts_str_reset(&full);
  ts_str_reset(&name);
  ts_ckpt_reset(&ckpt);
  return err;
}
