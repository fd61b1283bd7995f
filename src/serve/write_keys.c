/* write_keys.c - the ids of dynamic tables in a file that is served, by their
 * keys, and whose row is whose in the file that a delta is over. */
#include "base/mem.h"
#include "serve/keys.h"
#include "serve/write_impl.h"
#include "sparse/index.h"

enum { BLOCK = 1 << 20 }; /* ids that are read at a time */

static ts_err bad(const ts_table_config *x) {
  return ts_fail(TS_ERR_CKPT, "the ids of table %s are damaged", x->name);
}

/* *T: the tensor of X's ids; NULL: there is none. */
static ts_err find_ids(const ts_tensor_out **t, const ts_tensors_out *m,
                       const ts_table_config *x) {
  ts_str name = {0};
  TS_DO(ts_str_append(&name, "dynamic/%s/ids", x->name));
  *t = NULL;
  for (int32_t i = 0; i < m->n && !*t; i++)
    if (!strcmp(m->item[i].name, name.text)) *t = &m->item[i];
  ts_str_reset(&name);
  return TS_OK;
}

static ts_err read_keys(ts_part_keys *k, const ts_tensors_out *m,
                        const ts_table_config *x, const ts_tensor_out *t) {
  if (t->cols || t->rows < 0 || t->rows > TS_SERVE_KEYS_MAX) return bad(x);
  TS_DO(ts_mem_many(k->key, t->rows + 1, CHECKPOINT));
  k->n = t->rows;
  for (int64_t at = 0; at < k->n; at += BLOCK)
    TS_DO(m->read(m->arg, t, at, k->n - at < BLOCK ? k->n - at : BLOCK,
                  k->key + at));
  for (int64_t i = 0; i < k->n; i++) {
    k->key[i] = ts_index_key((int64_t)k->key[i]);
    if (i && k->key[i] <= k->key[i - 1]) return bad(x);
  }
  return TS_OK;
}

ts_err ts_serve_list_keys(ts_serve_writer *w) {
  const ts_config *c = w->out->config;
  const ts_tensors_out *m = w->out->model;
  int32_t n_all = 0;
  TS_DO(ts_mem_many(w->keys, c->n_tables, CHECKPOINT));
  for (int32_t i = 0; i < m->n; i++) n_all += ts_serve_is_ids(&m->item[i]);
  for (int32_t i = 0; i < c->n_tables; i++) {
    const ts_table_config *x = &c->tables[i];
    const ts_tensor_out *t;
    TS_DO(find_ids(&t, m, x));
    if ((t != NULL) != ts_table_is_dynamic(x))
      return ts_fail(TS_ERR_CKPT,
                     "table %s: rows = \"dynamic\" is in the deck or the "
                     "checkpoint alone",
                     x->name);
    if (!t) continue;
    n_all--;
    TS_DO(read_keys(&w->keys[i], m, x, t));
    TS_DO(ts_serve_list_data(w, "ids/", x->name, TS_PART_I64, w->keys[i].key,
                             w->keys[i].n));
  }
  if (!n_all) return TS_OK;
  return ts_fail(TS_ERR_CKPT, "the checkpoint has ids of a table that the deck "
                              "does not have");
}

/* ---- the base's ---------------------------------------------------------- */

/* P is model/NAME, a table's; its ids are those of the table's name. */
static const ts_serve_entry *base_ids(const ts_serve_writer *w,
                                      const ts_part *p) {
  const ts_config *c = w->out->config;
  for (int32_t i = 0; i < c->n_tables; i++)
    if (w->keys[i].key == p->key)
      return ts_serve_find(&w->base, "ids/", c->tables[i].name);
  return NULL;
}

bool ts_serve_base_goes(const ts_serve_writer *w, const ts_part *p,
                        const ts_serve_entry *b) {
  const ts_serve_entry *e = &p->entry;
  if (!b || b->kind != e->kind || b->cols != e->cols) return false;
  if (!p->key) return b->rows == e->rows;
  const ts_serve_entry *ids = base_ids(w, p);
  return ids && ids->kind == TS_PART_I64 && ids->rows + 1 == b->rows;
}

int64_t ts_serve_row_in_base(ts_serve_writer *w, const ts_part *p,
                             int64_t row) {
  if (!p->key) return row;
  const ts_serve_entry *ids = base_ids(w, p);
  const uint64_t *key = ts_serve_at(&w->base, ids);
  int64_t *at = &w->in_base;
  if (row == 0) *at = 0;
  if (row == p->entry.rows - 1) return ids->rows; /* of zeros */
  while (*at < ids->rows && key[*at] < p->key[row]) ++*at;
  return *at < ids->rows && key[*at] == p->key[row] ? *at : -1;
}
