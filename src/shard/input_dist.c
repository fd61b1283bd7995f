/* input_dist.c - ids from the ranks that read them to the ranks that hold
 * their rows: one message to each rank for all tables.
 *
 *     ts_status | section count and form of each route to that rank (int64)
 *     then per route: lengths (int32 or bytes, padded to 4; none where every
 *     bag has one id), local rows (int32), weights (f32, weighted tables)
 *
 * Rows are numbered within the shard that they go to, so 32 bits do. */
#include <string.h>

#include "base/mem.h"
#include "shard/sharding.h"

static int64_t section_bytes(const ts_route *r, int64_t n_ids, int form,
                             int32_t batch) {
  return ts_form_bytes(form, batch) + n_ids * (r->weighted ? 8 : 4);
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

/* Number of ids of a route, and the form of its lengths. */
static void measure(const ts_flight *fl, const ts_route *r, int64_t *n_ids,
                    int *form) {
  const ts_jagged *j = &fl->kjt->features[r->feature];
  int64_t n = 0, k = 0, longest = 0;
  for (int32_t b = 0; b < fl->own.n; b++) {
    const int64_t end = k + (j->lengths ? j->lengths[b] : 1);
    int64_t here = r->bucketize ? 0 : end - k;
    for (; r->bucketize && k < end; k++)
      here += (uint64_t)(j->ids[k] - r->row0) < (uint64_t)r->n_rows;
    k = end;
    n += here;
    if (here > longest) longest = here;
  }
  *n_ids = n;
  *form = !r->bucketize && !j->lengths ? TS_FORM_ONE
          : longest < 256              ? TS_FORM_BYTES
                                       : TS_FORM_INTS;
}

/* Writes one route's section and returns its end. */
static char *write_section(const ts_flight *fl, const ts_route *r,
                           int64_t n_ids, int form, char *to) {
  const ts_jagged *j = &fl->kjt->features[r->feature];
  uint8_t *bytes = (uint8_t *)to;
  int32_t *ints = (int32_t *)to;
  int32_t *rows = (int32_t *)(to + ts_form_bytes(form, fl->own.n));
  float *weights = r->weighted ? (float *)(rows + n_ids) : NULL;
  int64_t k = 0, n = 0;
  if (form == TS_FORM_BYTES && fl->own.n) /* the padding, too */
    memset(to, 0, (size_t)ts_form_bytes(form, fl->own.n));
  for (int32_t b = 0; b < fl->own.n; b++) {
    const int64_t end = k + (j->lengths ? j->lengths[b] : 1);
    const int64_t before = n;
    for (; k < end; k++) {
      const int64_t row = j->ids[k] - r->row0;
      if ((uint64_t)row >= (uint64_t)r->n_rows) continue;
      rows[n] = (int32_t)row;
      if (weights) weights[n] = j->weights[k];
      n++;
    }
    if (form == TS_FORM_BYTES) bytes[b] = (uint8_t)(n - before);
    if (form == TS_FORM_INTS) ints[b] = (int32_t)(n - before);
  }
  return to + section_bytes(r, n_ids, form, fl->own.n);
}

/* Header-only messages: this rank has nothing or has failed. */
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
  fl->exchange.send = fl->send.ptr;
done:
  return err;
}

static ts_err measure_all(ts_flight *fl, int64_t *n_bytes) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = fl->ebc;
  *n_bytes = 0;
  TS_TRY(check_features(fl));
  for (int r = 0; r < ebc->n_ranks; r++) {
    const int32_t first = ebc->route_start[r], end = ebc->route_start[r + 1];
    int64_t bytes = (int64_t)sizeof fl->own + 8 * (int64_t)(end - first);
    for (int32_t i = first; i < end; i++) {
      int64_t n_ids;
      int form;
      measure(fl, &ebc->routes[i], &n_ids, &form);
      fl->route_count[i] = n_ids << TS_FORM_BITS | form;
      bytes += section_bytes(&ebc->routes[i], n_ids, form, fl->own.n);
    }
    fl->send_bytes[r] = (bytes + 7) / 8 * 8;
    *n_bytes += fl->send_bytes[r];
  }
done:
  return err;
}

/* 1 / bag length of the means that are finished after the reduce-scatter. */
static void find_means(ts_flight *fl) {
  for (int32_t l = 0; l < fl->ebc->n_lots; l++) {
    ts_lot_flight *lf = &fl->lots[l];
    for (int32_t i = 0; lf->inverse && i < lf->lot->n_features; i++) {
      const ts_jagged *j = &fl->kjt->features[lf->lot->features[i].feature];
      float *inverse = lf->inverse + (int64_t)i * fl->batch_max;
      for (int32_t b = 0; b < fl->own.n; b++) {
        const int32_t length = j->lengths ? j->lengths[b] : 1;
        inverse[b] = length > 0 ? 1.0f / (float)length : 0.0f;
      }
    }
  }
}

static ts_err pack_sections(ts_flight *fl, int64_t n_bytes) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = fl->ebc;
  TS_TRY(ts_buffer_reserve(&fl->send, (size_t)n_bytes));
  char *message = fl->send.ptr;
  for (int r = 0; r < ebc->n_ranks; r++) {
    const int32_t first = ebc->route_start[r], end = ebc->route_start[r + 1];
    const size_t table = 8 * (size_t)(end - first);
    memcpy(message, &fl->own, sizeof fl->own);
    memcpy(message + sizeof fl->own, &fl->route_count[first], table);
    char *to = message + sizeof fl->own + table;
    for (int32_t i = first; i < end; i++)
      to =
          write_section(fl, &ebc->routes[i], fl->route_count[i] >> TS_FORM_BITS,
                        (int)(fl->route_count[i] & 3), to);
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

ts_err ts_input_statuses(ts_flight *fl) {
  const char *from = fl->exchange.recv.ptr;
  fl->n_global = 0;
  for (int r = 0; r < fl->ebc->n_ranks; r++) {
    if (fl->recv_bytes[r] < (int64_t)sizeof fl->own)
      return ts_fail(TS_ERR_COMM, "rank %d sent a message of %lld bytes", r,
                     (long long)fl->recv_bytes[r]);
    memcpy(&fl->statuses[r], from, sizeof fl->own);
    fl->batch[r] = fl->statuses[r].n;
    fl->n_global += fl->batch[r];
    from += fl->recv_bytes[r];
  }
  fl->n = fl->batch[fl->ebc->rank];
  if (fl->own.err != TS_OK) ts_err_put(&fl->fault);
  return TS_OK;
}
