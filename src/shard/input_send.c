/* input_send.c - a batch as kernels are told of it.
 *
 * On the host they read what the reader gave.  To a device whose memory the
 * host may not touch ids, lengths and weights of all features go in one copy,
 * out of one pinned block. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "shard/message.h"

bool ts_ebc_batch_is_discrete(const ts_ebc_batch *fl) {
  return ts_device_is_discrete(fl->ebc->device);
}

/* ---- descriptions -------------------------------------------------------- */

/* The next N structs of SIZE bytes of the plan; *AT counts while it has no
 * memory. */
static void *piece(const ts_ebc_batch *fl, size_t *at, int64_t n, size_t size) {
  char *p = fl->plan.ptr ? (char *)fl->plan.ptr + *at : NULL;
  *at += ((size_t)n * size + 63) / 64 * 64;
  return p;
}

static size_t lay_out_plan(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  size_t at = 0;
  fl->raw = piece(fl, &at, ebc->n_features, sizeof *fl->raw);
  fl->distinct = piece(fl, &at, ebc->n_variable, sizeof *fl->distinct);
  fl->pack = piece(fl, &at, ebc->n_routes, sizeof *fl->pack);
  fl->splits = piece(fl, &at, ebc->n_splits, sizeof *fl->splits);
  fl->parts = piece(fl, &at, ebc->n_parts, sizeof *fl->parts);
  fl->bad = piece(fl, &at, 2, sizeof *fl->bad);
  return at;
}

ts_err ts_send_create(ts_ebc_batch *fl) {
  ts_ebc *ebc = fl->ebc;
  const ts_buffer host = {.space = TS_SPACE_PINNED,
                          .tag = TS_TAG_INPUT,
                          .owned = true,
                          .device = ebc->device};
  fl->stage = fl->device_batch = fl->spread = fl->packed = host;
  fl->device_batch.space = fl->spread.space = TS_SPACE_DEVICE;
  fl->packed.space = TS_SPACE_DEVICE;
  TS_DO(ts_buffer_create(&fl->plan, ebc->device, lay_out_plan(fl),
                         TS_SPACE_PINNED, TS_TAG_COMM));
  lay_out_plan(fl);
  fl->first_word = 1 + ts_bags_found(fl);
  fl->n_known = fl->first_word + ebc->n_routes;
  TS_DO(ts_buffer_create(&fl->found, ebc->device, (size_t)fl->n_known * 8 + 8,
                         TS_SPACE_DEVICE, TS_TAG_COMM));
  fl->known = fl->found.ptr;
  if (ts_ebc_batch_is_discrete(fl)) {
    fl->known = NULL;
    TS_DO(ts_mem_many(fl->known, fl->n_known, COMM));
  }
  fl->route_count = fl->known + fl->first_word;
  return TS_OK;
}

void ts_send_destroy(ts_ebc_batch *fl) {
  ts_buffer *all[] = {&fl->plan,         &fl->found,  &fl->stage,
                      &fl->device_batch, &fl->spread, &fl->packed};
  if (fl->known != fl->found.ptr) ts_mem_free(fl->known);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) ts_buffer_reset(all[i]);
}

/* ---- results ------------------------------------------------------------- */

ts_err ts_send_bad_id(const ts_ebc_batch *fl, int32_t f, const int64_t *id) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t table = ebc->feature_table[f];
  const ts_table_config *t = &ebc->config->tables[table];
  char number[32] = "of an earlier batch";
  int32_t first = f;
  while (first > 0 && ebc->feature_table[first - 1] == table) first--;
  if (id) snprintf(number, sizeof number, "%lld", (long long)*id);
  return ts_fail(TS_ERR_DATA,
                 "feature %s: id %s is not a row of table %s, which has "
                 "%lld rows",
                 t->features.item[f - first], number, t->name,
                 (long long)t->rows);
}

/* The K-th id of all features; LATE: of a batch that the reader has taken
 * back. */
static ts_err bad_id(const ts_ebc_batch *fl, int64_t k, bool late) {
  int32_t f = 0;
  for (; k >= fl->raw[f].bags.n_ids; f++) k -= fl->raw[f].bags.n_ids;
  return ts_send_bad_id(fl, f, late ? NULL : &fl->kjt->features[f].ids[k]);
}

ts_err ts_send_find(ts_ebc_batch *fl, int64_t first, int64_t n) {
  if (ts_ebc_batch_is_discrete(fl))
    TS_DO(fl->ebc->kernels->fetch(
        fl->known + first, (int64_t *)fl->found.ptr + first, (size_t)n * 8));
  if (first == 0 && fl->known[0] != TS_NO_BAD_ID)
    return bad_id(fl, fl->known[0], false);
  return TS_OK;
}

ts_err ts_send_judge(const ts_ebc_batch *fl) {
  const int64_t bad = (int64_t)fl->bad[1];
  return fl->checked && bad != TS_NO_BAD_ID ? bad_id(fl, bad, true) : TS_OK;
}

/* ---- to a discrete device ---------------------------------------------------
 */

/* A block in two places, filled from its start. */
typedef struct ts_load {
  char *host, *device;
  int64_t bytes;
} ts_load;

/* Room for BYTES; *HERE is where it is filled. */
static void *room(ts_load *l, void *host /* T** */, int64_t bytes) {
  char *from = l->host + l->bytes, *to = l->device + l->bytes;
  memcpy(host, &from, sizeof from);
  l->bytes += (bytes + 15) / 16 * 16;
  return to;
}

static void *load(ts_load *l, const void *from, int64_t bytes) {
  void *host, *device = room(l, &host, bytes);
  if (bytes) memcpy(host, from, (size_t)bytes);
  return device;
}

static int64_t rounded(int64_t bytes) {
  return (bytes + 15) / 16 * 16;
}

/* Where kernels see P of the batch without a copy; NULL: they don't. */
static const void *device_address(const ts_ebc_batch *fl, const void *p) {
  const uintptr_t at = (uintptr_t)p - (uintptr_t)fl->uploaded.from;
  return p && at < fl->uploaded.bytes ? fl->uploaded.at + at : NULL;
}

/* How many of the N bytes at P have to be copied to the device. */
static int64_t sent(const ts_ebc_batch *fl, const void *p, int64_t n) {
  return p && !device_address(fl, p) ? rounded(n) : 0;
}

/* Whether lengths are made there, of the offsets that came. */
static bool has_offsets(const ts_ebc_batch *fl, const ts_jagged *j) {
  return !j->lengths && device_address(fl, j->offsets);
}

/* Bytes that feature F takes: sent, and what kernels make there. */
static void add_bytes(const ts_ebc_batch *fl, int32_t f, int64_t bytes[2]) {
  const ts_jagged *j = &fl->raw[f].bags;
  const int64_t n = fl->raw[f].n_bags;
  const void *lengths = j->lengths ? (const void *)j->lengths : j->offsets;
  int32_t n_parts;
  ts_bags_parts(fl, f, &n_parts);
  bytes[0] += sent(fl, j->ids, 8 * j->n_ids) + rounded(8 * (int64_t)n_parts) +
              sent(fl, j->weights, 4 * j->n_ids) + sent(fl, lengths, 4 * n);
  bytes[1] += has_offsets(fl, j) ? rounded(4 * n) : rounded(8 * (n + 1));
}

static const void *load_unseen(const ts_ebc_batch *fl, ts_load *l,
                               const void *p, int64_t bytes) {
  const void *device = device_address(fl, p);
  return device || !p ? device : load(l, p, bytes);
}

/* Copies the lengths of bags that come with offsets which kernels don't see. */
static void *load_lengths(ts_load *l, const ts_jagged *j, int32_t n) {
  int32_t *host;
  void *device = room(l, &host, 4 * (int64_t)n);
  for (int32_t b = 0; b < n; b++) host[b] = (int32_t)ts_jagged_length(j, b);
  return device;
}

static void load_feature(ts_ebc_batch *fl, int32_t f, ts_load *l) {
  ts_pack_feature *p = &fl->raw[f];
  const ts_jagged j = p->bags;
  int32_t n_parts;
  const int64_t *row0 = ts_bags_parts(fl, f, &n_parts);
  p->bags.ids = load_unseen(fl, l, j.ids, 8 * j.n_ids);
  p->bags.weights = load_unseen(fl, l, j.weights, 4 * j.n_ids);
  p->bags.lengths = load_unseen(fl, l, j.lengths, 4 * (int64_t)p->n_bags);
  p->bags.offsets = NULL;
  if (has_offsets(fl, &j))
    p->bags.offsets = device_address(fl, j.offsets);
  else if (j.offsets && !j.lengths)
    p->bags.lengths = load_lengths(l, &j, p->n_bags);
  if (n_parts)
    fl->distinct[fl->ebc->variable[f]].row0 = load(l, row0, 8 * n_parts);
}

/* Room at AT for what bags_offsets computes of feature F: its offsets or, where
 * offsets came, its lengths.  Returns the address behind it. */
static char *make_room(ts_pack_feature *p, char *at) {
  const int64_t *given = p->bags.offsets;
  if (!given) {
    p->offsets = (int64_t *)(void *)at;
    return at + rounded(8 * ((int64_t)p->n_bags + 1));
  }
  p->offsets = (int64_t *)(uintptr_t)given; /* only read */
  p->bags.offsets = NULL;
  p->bags.lengths = p->lengths = (int32_t *)(void *)at;
  return at + rounded(4 * (int64_t)p->n_bags);
}

static ts_err reserve_batch(ts_ebc_batch *fl, int64_t bytes[2]) {
  bytes[0] = bytes[1] = 0;
  for (int32_t f = 0; f < fl->ebc->n_features; f++) add_bytes(fl, f, bytes);
  TS_DO(ts_buffer_reserve(&fl->stage, (size_t)bytes[0]));
  return ts_buffer_reserve(&fl->device_batch, (size_t)(bytes[0] + bytes[1]));
}

static ts_err bring(ts_ebc_batch *fl, const ts_bags_args *a) {
  const ts_kernels *k = fl->ebc->kernels;
  int64_t bytes[2];
  TS_DO(reserve_batch(fl, bytes));
  ts_load l = {fl->stage.ptr, fl->device_batch.ptr, 0};
  for (int32_t f = 0; f < a->n_features; f++) load_feature(fl, f, &l);
  char *made = l.device + bytes[0];
  for (int32_t f = 0; f < a->n_features; f++)
    made = make_room(&fl->raw[f], made);
  if (l.bytes) TS_DO(k->copy(l.device, l.host, (size_t)l.bytes));
  return k->bags_offsets(a);
}

/* ---- a batch ------------------------------------------------------------- */

/* Feature F with the bags J of BATCH samples; sequences have one bag for each
 * id. */
static void describe(ts_ebc_batch *fl, int32_t f, const ts_jagged *j,
                     int32_t batch) {
  const ts_table_config *t =
      &fl->ebc->config->tables[fl->ebc->feature_table[f]];
  int32_t n_parts;
  fl->raw[f] = (ts_pack_feature){
      .bags = *j, .rows = ts_table_row_ids(t), .n_bags = batch};
  if (t->pooling == TS_POOL_NONE) {
    fl->raw[f].n_bags = (int32_t)j->n_ids;
    fl->raw[f].bags.lengths = NULL;
    fl->raw[f].bags.offsets = NULL;
  }
  if (fl->ebc->variable[f] >= 0)
    fl->distinct[fl->ebc->variable[f]].row0 = ts_bags_parts(fl, f, &n_parts);
}

static ts_err check_weights(const ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  for (int32_t f = 0; f < ebc->n_features; f++) {
    const ts_jagged *j = &fl->kjt->features[f];
    const ts_table_config *t = &ebc->config->tables[ebc->feature_table[f]];
    if (t->weighted && !j->weights && j->n_ids)
      return ts_fail(TS_ERR_DATA,
                     "table %s is weighted but its data has no weights",
                     t->name);
  }
  return TS_OK;
}

ts_err ts_send_batch(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  const ts_bags_args a = {fl->raw, ebc->n_features, fl->found.ptr};
  TS_DO(check_weights(fl));
  for (int32_t f = 0; f < ebc->n_features; f++)
    describe(fl, f, &fl->kjt->features[f], fl->own.n);
  if (ts_ebc_batch_is_discrete(fl)) TS_DO(bring(fl, &a));
  /* The source has checked its ids against the file; this keeps a faulty
   * source from touching other rows. */
  TS_DO(ebc->kernels->bags_check(&a));
  if (!ts_ebc_batch_is_discrete(fl)) TS_DO(ts_send_find(fl, 0, 1));
  return TS_OK;
}

/* ---- room, before step 0 ------------------------------------------------- */

/* One element of each array, in the place of a full batch's. */
typedef struct ts_sample {
  int64_t ids;
  float weights;
  int32_t lengths;
} ts_sample;

/* Bytes of it that kernels will see.  Micro-batches have lengths of their
 * own. */
static size_t expect_seen(const ts_ebc *ebc) {
  return !ebc->uploaded                    ? 0
         : ebc->config->run.accumulate > 1 ? offsetof(ts_sample, lengths)
                                           : sizeof(ts_sample);
}

/* Bags of a full batch have their sizes already. */
ts_err ts_send_expect(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  static const ts_sample block = {0};
  int64_t bytes[2], send = 0;
  ts_buffer *all[] = {&fl->stage, &fl->device_batch, &fl->spread, &fl->packed};
  if (!ts_ebc_batch_is_discrete(fl)) return TS_OK;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    TS_DO(ts_pool_add(&fl->pool, all[i]));
  for (int32_t f = 0; f < ebc->n_features; f++) {
    const ts_jagged j = {.lengths = &block.lengths,
                         .ids = &block.ids,
                         .weights =
                             ebc->config->tables[ebc->feature_table[f]].weighted
                                 ? &block.weights
                                 : NULL,
                         .n_ids = fl->bags[f].ids.n_ids};
    describe(fl, f, &j, ebc->batch_max);
  }
  ts_ebc_batch_uploaded(fl, &block, expect_seen(ebc), &block);
  TS_DO(reserve_batch(fl, bytes));
  ts_ebc_batch_uploaded(fl, NULL, 0, NULL);
  for (int r = 0; r < ebc->n_ranks; r++) send += ts_expect_sections(ebc, r);
  TS_DO(ts_buffer_reserve(&fl->spread, (size_t)ts_split_starts(fl) * 4));
  return ts_buffer_reserve(&fl->packed, (size_t)send);
}
