/* input_dist.c - ids from the ranks that read them to the ranks that hold
 * their rows: one message to each rank for all tables.
 *
 *     ts_status | bags of each variable feature (int32, padded to 8)
 *     distinct rows of each group of replicas (int64; with ebc->counts)
 *     section count and form of each route to that rank (int64)
 *     then per route: lengths (int32 or bytes, padded to 4; none where every
 *     bag has one id), local rows (1, 2, 4 or 8 bytes, padded to 4), weights
 *     (f32, weighted tables), positions (uint16, padded to 4: of feature
 *     processors where a bag's ids are spread over shards)
 *
 * Ids of a feature in several tables of as many rows, that go to the same
 * shards of rows, have one route to a rank (ts_ebc.ids_of).
 *
 * Rows are numbered within the shard that they go to, in as few bytes as its
 * rows need; ids of dynamic tables take 8, and their shard finds the rows
 * (dynamic.c).  Each id is copied once: from where the source put it into the
 * message.  On one rank, which has all rows, messages are heads without routes:
 * ids wait where they are (input_unpack.c).  Kernels copy (shard/pack.h).  On a
 * discrete device the sections stay there: the host's messages are the heads
 * alone, and the sections to each rank go from its memory to that rank's once
 * the heads have come.  All that the host waits for is how many ids go where.
 */
#include <string.h>

#include "base/mem.h"
#include "shard/message.h"

int64_t ts_section_bytes(const ts_route *r, int64_t n_ids, int form,
                         int64_t n_bags) {
  return ts_form_bytes(form, n_bags) + ts_pad4(n_ids * ts_route_id_bytes(r)) +
         (r->weighted ? 4 * n_ids : 0) +
         (r->positions ? ts_pad4(2 * n_ids) : 0);
}

/* The bags that a route chooses from. */
static ts_jagged bags_of(const ts_ebc_batch *fl, const ts_route *r,
                         int32_t *n) {
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

ts_layout ts_section_layout(const ts_route *r, int64_t n_ids, int form,
                            int64_t n_bags, char *at) {
  ts_layout l = {.lengths = at,
                 .rows = at + ts_form_bytes(form, n_bags),
                 .end = at + ts_section_bytes(r, n_ids, form, n_bags),
                 .form = form,
                 .id_bytes = ts_route_id_bytes(r)};
  if (r->weighted)
    l.weights = (float *)(void *)(l.rows + ts_pad4(n_ids * l.id_bytes));
  if (r->positions)
    l.positions = (uint16_t *)(void *)(l.end - ts_pad4(2 * n_ids));
  return l;
}

static bool is_spread(const ts_route *r) {
  return r->split && !r->sequence;
}

/* Status-only messages: this rank has nothing or has failed. */
static ts_err pack_headers(ts_ebc_batch *fl) {
  const int n_ranks = fl->ebc->n_ranks;
  fl->own.n = 0;
  fl->checked = false;
  TS_DO(ts_buffer_reserve(&fl->send, (size_t)n_ranks * sizeof fl->own));
  for (int r = 0; r < n_ranks; r++) {
    memcpy((char *)fl->send.ptr + (size_t)r * sizeof fl->own, &fl->own,
           sizeof fl->own);
    fl->send_bytes[r] = sizeof fl->own;
    fl->section_send[r] = 0;
  }
  for (int32_t f = 0; f < fl->ebc->n_features; f++)
    fl->bags[f].n = fl->bags[f].n_out = 0, fl->bags[f].spread = (ts_spread){0};
  fl->exchange.send = fl->send.ptr;
  return TS_OK;
}

/* Bytes of route I's section, once it is measured. */
static int64_t route_bytes(const ts_ebc_batch *fl, int32_t i) {
  const ts_route *r = &fl->ebc->routes[i];
  int32_t n_bags;
  bags_of(fl, r, &n_bags);
  return ts_section_bytes(r, fl->route_count[i] >> TS_FORM_BITS,
                          (int)(fl->route_count[i] & 3), n_bags);
}

static ts_pack_args pack_args(const ts_ebc_batch *fl) {
  return (ts_pack_args){.sections = fl->pack,
                        .splits = fl->splits,
                        .parts = fl->parts,
                        .n_sections = fl->n_pack,
                        .n_splits = fl->ebc->n_splits,
                        .n_parts = fl->ebc->n_parts,
                        .bad = fl->found.ptr,
                        .words = (int64_t *)fl->found.ptr + fl->first_word};
}

/* Describes the bytes of each route for the kernels. */
static ts_err describe(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  fl->n_pack = 0;
  for (int32_t i = 0; i < ebc->n_routes; i++) {
    ts_pack_section *s = &fl->pack[fl->n_pack];
    if (is_spread(&ebc->routes[i])) continue;
    *s = (ts_pack_section){
        .route = i, .row0 = ebc->routes[i].dynamic ? 0 : ebc->routes[i].row0};
    s->bags = bags_of(fl, &ebc->routes[i], &s->n_bags);
    fl->n_pack++;
  }
  if (ts_ebc_batch_is_discrete(fl))
    TS_DO(ts_buffer_reserve(&fl->spread, (size_t)ts_split_starts(fl) * 4));
  ts_split_describe(fl);
  return TS_OK;
}

/* Ids of bags that are spread are rows of their tables: each finds its part. */
static ts_err check_spread(const ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  for (int32_t k = 0; k < ebc->n_splits; k++) {
    const int32_t f = ebc->splits[k].feature;
    const ts_jagged *j = &fl->kjt->features[f];
    const int64_t ids =
        ts_table_row_ids(&ebc->config->tables[ebc->feature_table[f]]);
    for (int64_t i = 0; i < j->n_ids; i++)
      if (!ts_id_is_row(j->ids[i], ids))
        return ts_send_bad_id(fl, f, &j->ids[i]);
  }
  return TS_OK;
}

/* Words of the routes from what the host has read, by its own kernel. */
static ts_err count(ts_ebc_batch *fl) {
  static const int64_t none = TS_NO_BAD_ID;
  TS_DO(check_spread(fl));
  ts_replicas_count(fl);
  for (int32_t f = 0; f < fl->ebc->n_features; f++)
    fl->bags[f] = (ts_bags){.ids = fl->kjt->features[f], .n = fl->own.n};
  TS_DO(describe(fl));
  ts_pack_args a = pack_args(fl);
  a.bad = &none;
  a.words = fl->route_count;
  return ts_pack_measure(&a);
}

static ts_err measure_all(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  if (ebc->counts) TS_DO(count(fl));
  TS_DO(ts_send_batch(fl));
  TS_DO(ts_bags_make(fl));
  TS_DO(describe(fl));
  const ts_pack_args a = pack_args(fl);
  /* Also for the places of spread bags' ids, which stay on the device. */
  if (ebc->n_routes && (!ebc->counts || ebc->n_splits))
    TS_DO(ebc->kernels->pack_measure(&a));
  if (!ebc->counts) TS_DO(ts_send_find(fl, 0, fl->n_known));
  for (int r = 0; r < ebc->n_ranks; r++) {
    const int32_t first = ebc->route_start[r], end = ebc->route_start[r + 1];
    int64_t bytes = ts_head_bytes(ebc, end - first), sections = 0;
    for (int32_t i = first; i < end; i++) sections += route_bytes(fl, i);
    if (!ebc->section_comm) bytes += sections;
    fl->send_bytes[r] = (bytes + 7) / 8 * 8;
    fl->section_send[r] = ebc->section_comm ? (sections + 7) / 8 * 8 : 0;
  }
  return TS_OK;
}

/* The bag lengths of view I, which the device can see. */
static ts_bag_mean mean_of(const ts_ebc_batch *fl, const ts_sharding_batch *lf,
                           int32_t i) {
  const int32_t f = lf->sharding->views[i].feature;
  const ts_jagged *j = &fl->kjt->features[f];
  const ts_bags *b = &fl->bags[f];
  ts_bag_mean v = {.out = lf->inverse + (int64_t)i * fl->batch_max,
                   .lengths = j->lengths,
                   .offsets = j->offsets,
                   .n = fl->own.n};
  if (ts_device_is_discrete(fl->ebc->device)) {
    v.lengths = NULL;
    v.offsets = ts_jagged_is_one(&b->ids) ? NULL : b->offsets;
    v.bag = b->inverse;
  }
  return v;
}

/* 1 / bag length of the means that are finished after the sum over shards. */
static ts_err find_means(ts_ebc_batch *fl) {
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++) {
    const ts_sharding_batch *lf = &fl->shardings[l];
    ts_bag_means_args a = {0};
    for (int32_t i = 0; lf->inverse && i < lf->sharding->n_views; i++) {
      if (lf->sharding->views[i].mean) a.view[a.n_views++] = mean_of(fl, lf, i);
      if (a.n_views < TS_BAG_MEANS) continue;
      TS_DO(fl->ebc->kernels->bag_means(&a));
      a.n_views = 0;
    }
    if (a.n_views) TS_DO(fl->ebc->kernels->bag_means(&a));
  }
  return TS_OK;
}

/* Distinct rows of this rank's batch, see ts_ebc_batch. */
static int64_t *own_rows(const ts_ebc_batch *fl) {
  return fl->replica_rows + (int64_t)fl->ebc->n_ranks * fl->ebc->n_replicas;
}

static void write_head(const ts_ebc_batch *fl, int r, char *to) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t first = ebc->route_start[r],
                n = ebc->route_start[r + 1] - first;
  int32_t *bags = (int32_t *)(void *)(to + sizeof fl->own);
  memcpy(to, &fl->own, sizeof fl->own);
  char *words = to + ts_head_bytes(ebc, 0);
  const size_t rows = 8 * (size_t)ebc->n_replicas;
  memset(bags, 0, (size_t)(words - (char *)bags));
  if (rows) memcpy(words - rows, own_rows(fl), rows);
  for (int32_t f = 0; f < ebc->n_features; f++)
    if (ebc->variable[f] >= 0) bags[ebc->variable[f]] = fl->bags[f].n;
  if (n) memcpy(words, &fl->route_count[first], 8 * (size_t)n);
}

/* Writes heads and notes where sections lie. */
static void place(ts_ebc_batch *fl) {
  ts_ebc *ebc = fl->ebc;
  char *messages = fl->send.ptr;
  int64_t start = 0, sections = 0;
  for (int r = 0; r < ebc->n_ranks; r++) {
    const int32_t first = ebc->route_start[r], end = ebc->route_start[r + 1];
    int64_t at =
        ebc->section_comm ? sections : start + ts_head_bytes(ebc, end - first);
    write_head(fl, r, messages + start);
    for (int32_t i = first; i < end; i++) {
      fl->section_at[i] = at;
      at += route_bytes(fl, i);
      ebc->stat.n_copied += fl->route_count[i] >> TS_FORM_BITS;
    }
    start += fl->send_bytes[r];
    sections += fl->section_send[r];
  }
}

/* Sections lie in MESSAGES, or by themselves. */
static void place_sections(ts_ebc_batch *fl, char *messages) {
  for (int32_t k = 0; k < fl->n_pack; k++) {
    ts_pack_section *s = &fl->pack[k];
    const int32_t i = s->route;
    s->to = ts_section_layout(&fl->ebc->routes[i], s->bags.n_ids,
                              (int)(fl->route_count[i] & 3), s->n_bags,
                              messages + fl->section_at[i]);
  }
  ts_split_place(fl, messages);
}

static int64_t sum_of(const int64_t *bytes, int n) {
  int64_t sum = 0;
  for (int r = 0; r < n; r++) sum += bytes[r];
  return sum;
}

static ts_err pack_sections(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  const int64_t n_sent = sum_of(fl->section_send, ebc->n_ranks);
  ts_buffer *to = ebc->section_comm ? &fl->packed : &fl->send;
  TS_DO(ts_buffer_reserve(&fl->send,
                          (size_t)sum_of(fl->send_bytes, ebc->n_ranks)));
  TS_DO(ts_buffer_reserve(&fl->packed, (size_t)n_sent));
  place(fl);
  place_sections(fl, to->ptr);
  if (n_sent) TS_DO(ebc->kernels->zero(to->ptr, (size_t)n_sent));
  const ts_pack_args a = pack_args(fl);
  if (ebc->n_routes) TS_DO(ebc->kernels->pack_write(&a));
  fl->exchange.send = fl->send.ptr;
  return TS_OK;
}

ts_err ts_input_pack(void *arg, ts_lane *lane) {
  (void)lane;
  ts_ebc_batch *fl = *(ts_ebc_batch **)arg;
  ts_err err = TS_OK;
  if (fl->own.err == TS_OK && fl->own.n > 0) {
    err = measure_all(fl);
    if (err == TS_OK) err = find_means(fl);
    if (err == TS_OK) err = pack_sections(fl);
    fl->checked = fl->ebc->counts;
    if (err == TS_OK) return TS_OK;
    /* The others must not wait for a message that never comes: they hear of
     * the error, and all end together at the step's agreement. */
    fl->own.err = err;
    ts_err_take(&fl->fault);
  }
  return pack_headers(fl);
}

/* Bags of the variable features of rank R, and its rows of replicas. */
static void read_head(ts_ebc_batch *fl, int r, const char *message) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t n = ebc->n_variable;
  int32_t *bags = fl->variable + (int64_t)r * n;
  int64_t *rows = fl->replica_rows + (int64_t)r * ebc->n_replicas;
  const size_t bytes = 8 * (size_t)ebc->n_replicas;
  if (fl->batch[r]) {
    if (n) memcpy(bags, message + sizeof fl->own, (size_t)n * sizeof *bags);
    if (bytes) memcpy(rows, message + ts_head_bytes(ebc, 0) - bytes, bytes);
  } else {
    if (n) memset(bags, 0, (size_t)n * sizeof *bags);
    if (bytes) memset(rows, 0, bytes);
  }
}

ts_err ts_input_statuses(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t n_routes = ts_routes_here(ebc);
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
    read_head(fl, r, from);
  }
  fl->n = fl->batch[ebc->rank];
  if (fl->own.err != TS_OK) ts_err_put(&fl->fault);
  return TS_OK;
}
