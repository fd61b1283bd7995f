/* input_dist.c - ids from the ranks that read them to the ranks that hold
 * their rows: one message to each rank for all tables.
 *
 *     ts_status | bags of each variable feature (int32, padded to 8)
 *     section count and form of each route to that rank (int64)
 *     then per route: lengths (int32 or bytes, padded to 4; none where every
 *     bag has one id), local rows (1, 2 or 4 bytes, padded to 4), weights
 *     (f32, weighted tables), positions (uint16, padded to 4: of feature
 *     processors where a bag's ids are spread over shards)
 *
 * Rows are numbered within the shard that they go to, in as few bytes as its
 * rows need.  Each id is copied once: from where the source put it into the
 * message. */
#include <string.h>

#include "base/mem.h"
#include "shard/message.h"

int64_t ts_section_bytes(const ts_route *r, int64_t n_ids, int form,
                         int64_t n_bags) {
  return ts_form_bytes(form, n_bags) + ts_pad4(n_ids * ts_id_bytes(r->n_rows)) +
         (r->weighted ? 4 * n_ids : 0) +
         (r->positions ? ts_pad4(2 * n_ids) : 0);
}

static ts_err bad_id(const ts_ebc *ebc, int32_t feature, int64_t id) {
  const int32_t table = ebc->feature_table[feature];
  const ts_table_config *t = &ebc->config->tables[table];
  int32_t first = feature;
  while (first > 0 && ebc->feature_table[first - 1] == table) first--;
  return ts_fail(TS_ERR_DATA,
                 "feature %s: id %lld is not a row of table %s, which has "
                 "%lld rows",
                 t->features.item[feature - first], (long long)id, t->name,
                 (long long)t->rows);
}

/* The source has checked its ids against the file; this keeps a faulty
 * source from touching other rows. */
static ts_err check_features(const ts_flight *fl) {
  const ts_ebc *ebc = fl->ebc;
  for (int32_t f = 0; f < ebc->n_features; f++) {
    const ts_jagged *j = &fl->kjt->features[f];
    const ts_table_config *t = &ebc->config->tables[ebc->feature_table[f]];
    if (t->weighted && !j->weights && j->n_ids)
      return ts_fail(TS_ERR_DATA,
                     "table %s is weighted but its data has no weights",
                     t->name);
    for (int64_t k = 0; k < j->n_ids; k++)
      if ((uint64_t)j->ids[k] >= (uint64_t)t->rows)
        return bad_id(ebc, f, j->ids[k]);
  }
  return TS_OK;
}

/* The bags that a route chooses from. */
static ts_jagged bags_of(const ts_flight *fl, const ts_route *r, int32_t *n) {
  const ts_bags *b = &fl->bags[r->feature];
  ts_jagged j = b->ids;
  *n = b->n;
  if (b->part) { /* a sequence: bags of one id, ordered by shard */
    *n = b->part[r->part + 1] - b->part[r->part];
    j.ids += b->part[r->part];
    j.n_ids = *n;
  }
  return j;
}

/* Number of ids of a route that takes whole bags, and their lengths' form. */
static void measure(const ts_flight *fl, const ts_route *r, int64_t *n_ids,
                    int *form) {
  int32_t n_bags;
  const ts_jagged j = bags_of(fl, r, &n_bags);
  int64_t longest = 0;
  *n_ids = j.n_ids;
  *form = TS_FORM_ONE;
  if (ts_jagged_is_one(&j)) return;
  for (int32_t b = 0; b < n_bags; b++)
    if (ts_jagged_length(&j, b) > longest) longest = ts_jagged_length(&j, b);
  *form = longest < 256 ? TS_FORM_BYTES : TS_FORM_INTS;
}

ts_layout ts_section_layout(const ts_route *r, int64_t n_ids, int form,
                            int64_t n_bags, char *at) {
  ts_layout l = {.lengths = at,
                 .rows = at + ts_form_bytes(form, n_bags),
                 .end = at + ts_section_bytes(r, n_ids, form, n_bags),
                 .form = form,
                 .id_bytes = ts_id_bytes(r->n_rows)};
  char *end_of_rows = l.rows + ts_pad4(n_ids * l.id_bytes);
  if (r->weighted) l.weights = (float *)(void *)end_of_rows;
  if (r->positions)
    l.positions = (uint16_t *)(void *)(l.end - ts_pad4(2 * n_ids));
  if (l.rows > at) memset(l.rows - 4, 0, 4); /* the padding, too */
  if (end_of_rows > l.rows) memset(end_of_rows - 4, 0, 4);
  if (l.positions && n_ids) memset(l.end - 4, 0, 4);
  return l;
}

static void write_rows(const ts_layout *l, const ts_jagged *j, int64_t row0) {
  const int64_t n = j->n_ids;
  /* One loop each: this is where most ids are copied. */
  for (int64_t k = 0; l->id_bytes == 1 && k < n; k++)
    ts_put_row(l->rows, k, 1, j->ids[k] - row0);
  for (int64_t k = 0; l->id_bytes == 2 && k < n; k++)
    ts_put_row(l->rows, k, 2, j->ids[k] - row0);
  for (int64_t k = 0; l->id_bytes == 4 && k < n; k++)
    ts_put_row(l->rows, k, 4, j->ids[k] - row0);
}

static void write_lengths(const ts_layout *l, const ts_jagged *j,
                          int32_t n_bags) {
  uint8_t *bytes = (uint8_t *)l->lengths;
  int32_t *ints = (int32_t *)(void *)l->lengths;
  for (int32_t b = 0; l->form == TS_FORM_BYTES && b < n_bags; b++)
    bytes[b] = (uint8_t)ts_jagged_length(j, b);
  for (int32_t b = 0; l->form == TS_FORM_INTS && b < n_bags; b++)
    ints[b] = (int32_t)ts_jagged_length(j, b);
}

/* The section of a route that takes whole bags. */
static void write_section(const ts_flight *fl, int32_t i) {
  const ts_route *r = &fl->ebc->routes[i];
  int32_t n_bags;
  const ts_jagged j = bags_of(fl, r, &n_bags);
  const ts_layout l = ts_section_layout(
      r, j.n_ids, (int)(fl->route_count[i] & 3), n_bags, fl->section_at[i]);
  write_lengths(&l, &j, n_bags);
  write_rows(&l, &j, r->row0);
  if (l.weights && j.n_ids) memcpy(l.weights, j.weights, (size_t)j.n_ids * 4);
}

static bool is_spread(const ts_route *r) {
  return r->split && !r->sequence;
}

/* Status-only messages: this rank has nothing or has failed. */
static ts_err pack_headers(ts_flight *fl) {
  ts_err err = TS_OK;
  const int n_ranks = fl->ebc->n_ranks;
  fl->own.n = 0;
  TS_TRY(ts_buffer_reserve(&fl->send, (size_t)n_ranks * sizeof fl->own));
  for (int r = 0; r < n_ranks; r++) {
    memcpy((char *)fl->send.ptr + (size_t)r * sizeof fl->own, &fl->own,
           sizeof fl->own);
    fl->send_bytes[r] = sizeof fl->own;
  }
  for (int32_t f = 0; f < fl->ebc->n_features; f++)
    fl->bags[f].n = fl->bags[f].n_out = 0;
  fl->exchange.send = fl->send.ptr;
done:
  return err;
}

/* Bytes of route I's section, once it is measured. */
static int64_t route_bytes(const ts_flight *fl, int32_t i) {
  const ts_route *r = &fl->ebc->routes[i];
  int32_t n_bags;
  bags_of(fl, r, &n_bags);
  return ts_section_bytes(r, fl->route_count[i] >> TS_FORM_BITS,
                          (int)(fl->route_count[i] & 3), n_bags);
}

static ts_err measure_all(ts_flight *fl, int64_t *n_bytes) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = fl->ebc;
  *n_bytes = 0;
  TS_TRY(check_features(fl));
  TS_TRY(ts_bags_make(fl));
  for (int32_t k = 0; k < ebc->n_splits; k++)
    ts_split_measure(fl, &ebc->splits[k]);
  for (int r = 0; r < ebc->n_ranks; r++) {
    const int32_t first = ebc->route_start[r], end = ebc->route_start[r + 1];
    int64_t bytes = ts_head_bytes(ebc, end - first);
    for (int32_t i = first; i < end; i++) {
      const ts_route *route = &ebc->routes[i];
      int64_t n_ids;
      int form;
      if (!is_spread(route)) {
        measure(fl, route, &n_ids, &form);
        fl->route_count[i] = n_ids << TS_FORM_BITS | form;
      }
      bytes += route_bytes(fl, i);
    }
    fl->send_bytes[r] = (bytes + 7) / 8 * 8;
    *n_bytes += fl->send_bytes[r];
  }
done:
  return err;
}

/* The bag lengths of view I, which the device can see. */
static ts_bag_mean mean_of(const ts_flight *fl, const ts_lot_flight *lf,
                           int32_t i) {
  const int32_t f = lf->lot->views[i].feature;
  const ts_jagged *j = &fl->kjt->features[f];
  const ts_bags *b = &fl->bags[f];
  ts_bag_mean v = {.out = lf->inverse + (int64_t)i * fl->batch_max,
                   .lengths = j->lengths,
                   .offsets = j->offsets,
                   .n = fl->own.n};
  if (ts_device_is_apart(fl->ebc->device)) {
    v.lengths = NULL;
    v.offsets = ts_jagged_is_one(&b->ids) ? NULL : b->offsets;
    v.bag = b->inverse;
  }
  return v;
}

/* 1 / bag length of the means that are finished after the sum over shards. */
static ts_err find_means(ts_flight *fl) {
  ts_err err = TS_OK;
  for (int32_t l = 0; l < fl->ebc->n_lots; l++) {
    const ts_lot_flight *lf = &fl->lots[l];
    ts_bag_means_args a;
    a.n_views = 0;
    for (int32_t i = 0; lf->inverse && i < lf->lot->n_views; i++) {
      if (lf->lot->views[i].mean) a.view[a.n_views++] = mean_of(fl, lf, i);
      if (a.n_views < TS_BAG_MEANS) continue;
      TS_TRY(fl->ebc->kernels->bag_means(&a));
      a.n_views = 0;
    }
    if (a.n_views) TS_TRY(fl->ebc->kernels->bag_means(&a));
  }
done:
  return err;
}

/* The head of the message to rank R; returns its end. */
static char *write_head(const ts_flight *fl, int r, char *to) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t first = ebc->route_start[r],
                n = ebc->route_start[r + 1] - first;
  int32_t *bags = (int32_t *)(void *)(to + sizeof fl->own);
  memcpy(to, &fl->own, sizeof fl->own);
  char *words = to + ts_head_bytes(ebc, 0);
  memset(bags, 0, (size_t)(words - (char *)bags));
  for (int32_t f = 0; f < ebc->n_features; f++)
    if (ebc->variable[f] >= 0) bags[ebc->variable[f]] = fl->bags[f].n;
  if (n) memcpy(words, &fl->route_count[first], 8 * (size_t)n);
  return words + 8 * (int64_t)n;
}

static ts_err pack_sections(ts_flight *fl, int64_t n_bytes) {
  ts_err err = TS_OK;
  ts_ebc *ebc = fl->ebc;
  TS_TRY(ts_buffer_reserve(&fl->send, (size_t)n_bytes));
  char *message = fl->send.ptr;
  for (int r = 0; r < ebc->n_ranks; r++) {
    char *to = write_head(fl, r, message);
    for (int32_t i = ebc->route_start[r]; i < ebc->route_start[r + 1]; i++) {
      fl->section_at[i] = to;
      to += route_bytes(fl, i);
      ebc->stat.n_copied += fl->route_count[i] >> TS_FORM_BITS;
      if (!is_spread(&ebc->routes[i])) write_section(fl, i);
    }
    message += fl->send_bytes[r];
  }
  for (int32_t k = 0; k < ebc->n_splits; k++)
    ts_split_write(fl, &ebc->splits[k]);
  fl->exchange.send = fl->send.ptr;
done:
  return err;
}

ts_err ts_input_pack(void *arg, ts_lane *lane) {
  (void)lane;
  ts_flight *fl = *(ts_flight **)arg;
  ts_err err = TS_OK;
  int64_t n_bytes;
  if (fl->own.err == TS_OK && fl->own.n > 0) {
    err = measure_all(fl, &n_bytes);
    if (err == TS_OK) err = pack_sections(fl, n_bytes);
    if (err == TS_OK) err = find_means(fl);
    if (err == TS_OK) return TS_OK;
    /* The others must not wait for a message that never comes: they hear of
     * the error, and all end together at the step's agreement. */
    fl->own.err = err;
    ts_err_take(&fl->fault);
  }
  return pack_headers(fl);
}

/* Bags of the variable features of each rank. */
static void read_variable(ts_flight *fl, int r, const char *message) {
  const int32_t n = fl->ebc->n_variable;
  int32_t *to = fl->variable + (int64_t)r * n;
  if (fl->batch[r])
    memcpy(to, message + sizeof fl->own, (size_t)n * sizeof *to);
  else
    memset(to, 0, (size_t)n * sizeof *to);
}

ts_err ts_input_statuses(ts_flight *fl) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t n_routes =
      ebc->route_start[ebc->rank + 1] - ebc->route_start[ebc->rank];
  const ts_exchange *x = &fl->exchange;
  fl->n_global = 0;
  for (int r = 0; r < ebc->n_ranks; r++) {
    const char *from = (const char *)x->recv.ptr + x->recv_at[r];
    const int64_t bytes = x->recv_bytes[r];
    if (bytes >= (int64_t)sizeof fl->own)
      memcpy(&fl->statuses[r], from, sizeof fl->own);
    if (bytes < (int64_t)sizeof fl->own ||
        (fl->statuses[r].n > 0 && bytes < ts_head_bytes(ebc, n_routes)))
      return ts_fail(TS_ERR_COMM, "rank %d sent a message of %lld bytes", r,
                     (long long)bytes);
    fl->batch[r] = fl->statuses[r].n;
    fl->n_global += fl->batch[r];
    if (ebc->n_variable) read_variable(fl, r, from);
  }
  fl->n = fl->batch[ebc->rank];
  if (fl->own.err != TS_OK) ts_err_put(&fl->fault);
  return TS_OK;
}
