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
#include "shard/sharding.h"

static int64_t section_bytes(const ts_route *r, int64_t n_ids, int form,
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

static bool chooses(const ts_route *r) {
  return r->split && !r->sequence;
}

/* Number of ids of a route, and the form of its lengths. */
static void measure(const ts_flight *fl, const ts_route *r, int64_t *n_ids,
                    int *form) {
  int32_t n_bags;
  const ts_jagged j = bags_of(fl, r, &n_bags);
  int64_t n = 0, k = 0, longest = 0;
  if (ts_jagged_is_one(&j) && !chooses(r)) {
    *n_ids = j.n_ids;
    *form = TS_FORM_ONE;
    return;
  }
  for (int32_t b = 0; b < n_bags; b++) {
    const int64_t end = k + ts_jagged_length(&j, b);
    int64_t here = chooses(r) ? 0 : end - k;
    for (; chooses(r) && k < end; k++)
      here += (uint64_t)(j.ids[k] - r->row0) < (uint64_t)r->n_rows;
    k = end;
    n += here;
    if (here > longest) longest = here;
  }
  *n_ids = n;
  *form = longest < 256 ? TS_FORM_BYTES : TS_FORM_INTS;
}

static inline void put_row(char *rows, int64_t n, int id_bytes, int64_t row) {
  if (id_bytes == 1) ((uint8_t *)rows)[n] = (uint8_t)row;
  if (id_bytes == 2) ((uint16_t *)(void *)rows)[n] = (uint16_t)row;
  if (id_bytes == 4) ((int32_t *)(void *)rows)[n] = (int32_t)row;
}

/* Where every bag has one id and all of them go. */
static void write_ones(const ts_route *r, const ts_jagged *j, char *rows,
                       float *weights) {
  const int id_bytes = ts_id_bytes(r->n_rows);
  const int64_t n = j->n_ids, row0 = r->row0;
  /* One loop each: this is where most ids are copied. */
  for (int64_t k = 0; id_bytes == 1 && k < n; k++)
    put_row(rows, k, 1, j->ids[k] - row0);
  for (int64_t k = 0; id_bytes == 2 && k < n; k++)
    put_row(rows, k, 2, j->ids[k] - row0);
  for (int64_t k = 0; id_bytes == 4 && k < n; k++)
    put_row(rows, k, 4, j->ids[k] - row0);
  if (weights && j->n_ids) memcpy(weights, j->weights, (size_t)j->n_ids * 4);
}

/* Writes one route's section and returns its end. */
static char *write_section(const ts_flight *fl, const ts_route *r,
                           int64_t n_ids, int form, char *to) {
  int32_t n_bags;
  const ts_jagged j = bags_of(fl, r, &n_bags);
  const int id_bytes = ts_id_bytes(r->n_rows);
  char *rows = to + ts_form_bytes(form, n_bags);
  char *end_of_rows = rows + ts_pad4(n_ids * id_bytes);
  float *weights = r->weighted ? (float *)(void *)end_of_rows : NULL;
  char *end = to + section_bytes(r, n_ids, form, n_bags);
  uint16_t *positions =
      r->positions ? (uint16_t *)(void *)(end - ts_pad4(2 * n_ids)) : NULL;
  int64_t k = 0, n = 0;
  if (rows > to) memset(rows - 4, 0, 4); /* the padding, too */
  if (end_of_rows > rows) memset(end_of_rows - 4, 0, 4);
  if (positions && n_ids) memset(end - 4, 0, 4);
  if (form == TS_FORM_ONE) {
    write_ones(r, &j, rows, weights);
    return end;
  }
  for (int32_t b = 0; b < n_bags; b++) {
    const int64_t first = k, next = k + ts_jagged_length(&j, b), before = n;
    for (; k < next; k++) {
      const int64_t row = j.ids[k] - r->row0;
      if ((uint64_t)row >= (uint64_t)r->n_rows) continue;
      put_row(rows, n, id_bytes, row);
      if (weights) weights[n] = j.weights[k];
      if (positions) positions[n] = ts_position(k - first);
      n++;
    }
    if (form == TS_FORM_BYTES) ((uint8_t *)to)[b] = (uint8_t)(n - before);
    if (form == TS_FORM_INTS)
      ((int32_t *)(void *)to)[b] = (int32_t)(n - before);
  }
  return end;
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

static ts_err measure_all(ts_flight *fl, int64_t *n_bytes) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = fl->ebc;
  *n_bytes = 0;
  TS_TRY(check_features(fl));
  TS_TRY(ts_bags_make(fl));
  for (int r = 0; r < ebc->n_ranks; r++) {
    const int32_t first = ebc->route_start[r], end = ebc->route_start[r + 1];
    int64_t bytes = ts_head_bytes(ebc, end - first);
    for (int32_t i = first; i < end; i++) {
      int64_t n_ids;
      int32_t n_bags;
      int form;
      measure(fl, &ebc->routes[i], &n_ids, &form);
      bags_of(fl, &ebc->routes[i], &n_bags);
      fl->route_count[i] = n_ids << TS_FORM_BITS | form;
      bytes += section_bytes(&ebc->routes[i], n_ids, form, n_bags);
    }
    fl->send_bytes[r] = (bytes + 7) / 8 * 8;
    *n_bytes += fl->send_bytes[r];
  }
done:
  return err;
}

/* 1 / bag length of the means that are finished after the sum over shards. */
static void find_means(ts_flight *fl) {
  for (int32_t l = 0; l < fl->ebc->n_lots; l++) {
    ts_lot_flight *lf = &fl->lots[l];
    for (int32_t i = 0; lf->inverse && i < lf->lot->n_views; i++) {
      const ts_jagged *j = &fl->kjt->features[lf->lot->views[i].feature];
      float *inverse = lf->inverse + (int64_t)i * fl->batch_max;
      for (int32_t b = 0; lf->lot->views[i].mean && b < fl->own.n; b++) {
        const int64_t length = ts_jagged_length(j, b);
        inverse[b] = length > 0 ? 1.0f / (float)length : 0.0f;
      }
    }
  }
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
      const int64_t n_ids = fl->route_count[i] >> TS_FORM_BITS;
      to = write_section(fl, &ebc->routes[i], n_ids,
                         (int)(fl->route_count[i] & 3), to);
      ebc->stat.n_copied += n_ids;
    }
    message += fl->send_bytes[r];
  }
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
    if (err == TS_OK) {
      find_means(fl);
      return TS_OK;
    }
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
  const char *from = fl->exchange.recv.ptr;
  fl->n_global = 0;
  for (int r = 0; r < ebc->n_ranks; r++) {
    if (fl->recv_bytes[r] >= (int64_t)sizeof fl->own)
      memcpy(&fl->statuses[r], from, sizeof fl->own);
    if (fl->recv_bytes[r] < (int64_t)sizeof fl->own ||
        (fl->statuses[r].n > 0 &&
         fl->recv_bytes[r] < ts_head_bytes(ebc, n_routes)))
      return ts_fail(TS_ERR_COMM, "rank %d sent a message of %lld bytes", r,
                     (long long)fl->recv_bytes[r]);
    fl->batch[r] = fl->statuses[r].n;
    fl->n_global += fl->batch[r];
    if (ebc->n_variable) read_variable(fl, r, from);
    from += fl->recv_bytes[r];
  }
  fl->n = fl->batch[ebc->rank];
  if (fl->own.err != TS_OK) ts_err_put(&fl->fault);
  return TS_OK;
}
