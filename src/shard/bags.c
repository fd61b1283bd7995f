/* bags.c - what of a feature travels.
 *
 * Mostly the bags as they came.  Features of data.dedup send each distinct
 * bag (ids and weights in order) once; sequences send each distinct id once,
 * as a bag of one.  The inverse index, which stays here, says which of them
 * each row of the output is.  Numbering is by first occurrence, so nothing
 * depends on hashes; ids of sequences that are cut by rows are further put
 * in the order of their shards.  distinct.c finds them on the host. */
#include <string.h>

#include "base/mem.h"
#include "shard/message.h"

/* Memory of the device, in the order of ts_distinct. */
typedef struct ts_bag_store {
  ts_buffer ids, start, weights, lengths, inverse, slot, member_start, member;
  int32_t *part; /* (n_parts + 1) the host's, as ts_bags has it */
  int64_t *row0; /* (n_parts) */
  int32_t n_parts;
} ts_bag_store;

static const ts_table_plan *plan_of(const ts_ebc_batch *fl, int32_t f) {
  return &fl->ebc->plan->tables[fl->ebc->feature_table[f]];
}

static bool is_sequence(const ts_ebc *ebc, int32_t f) {
  return ebc->config->tables[ebc->feature_table[f]].pooling == TS_POOL_NONE;
}

static int buffers_of(ts_bag_store *s, ts_buffer **out) {
  ts_buffer *all[] = {&s->ids,  &s->start,        &s->weights, &s->lengths,
                      &s->slot, &s->member_start, &s->member,  &s->inverse};
  memcpy(out, all, sizeof all);
  return (int)(sizeof all / sizeof *all);
}

static ts_err create_parts(ts_bag_store *s, const ts_table_plan *p) {
  s->n_parts = p->n_shards;
  TS_DO(ts_mem_many(s->part, s->n_parts + 1, MISC));
  TS_DO(ts_mem_many(s->row0, s->n_parts, MISC));
  for (int32_t k = 0; k < s->n_parts; k++) s->row0[k] = p->shards[k].row0;
  return TS_OK;
}

static ts_err create_store(ts_ebc_batch *fl, int32_t f) {
  ts_bag_store *s = NULL;
  ts_buffer *all[16];
  TS_DO(ts_mem_alloc(&s, sizeof *s, TS_TAG_MISC));
  fl->bags[f].store = s;
  for (int i = buffers_of(s, all) - 1; i >= 0; i--)
    *all[i] = (ts_buffer){.space = TS_SPACE_DEVICE,
                          .tag = TS_TAG_INPUT,
                          .owned = true,
                          .device = fl->ebc->device};
  if (is_sequence(fl->ebc, f) &&
      ts_sharding_find(plan_of(fl, f)->kind)->split_rows)
    TS_DO(create_parts(s, plan_of(fl, f)));
  return TS_OK;
}

ts_err ts_bags_create(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  TS_DO(ts_mem_many(fl->bags, ebc->n_features, MISC));
  TS_DO(
      ts_mem_many(fl->variable, (int64_t)ebc->n_variable * ebc->n_ranks, MISC));
  for (int32_t f = 0; f < ebc->n_features; f++)
    if (ebc->variable[f] >= 0) TS_DO(create_store(fl, f));
  return TS_OK;
}

void ts_bags_destroy(ts_ebc_batch *fl) {
  ts_buffer *all[16];
  for (int32_t f = 0; fl->bags && f < fl->ebc->n_features; f++) {
    ts_bag_store *s = fl->bags[f].store;
    if (!s) continue;
    for (int i = buffers_of(s, all) - 1; i >= 0; i--) ts_buffer_reset(all[i]);
    ts_mem_free(s->part);
    ts_mem_free(s->row0);
    ts_mem_free(s);
  }
  ts_mem_free(fl->bags);
  ts_mem_free(fl->variable);
}

const int64_t *ts_bags_parts(const ts_ebc_batch *fl, int32_t f, int32_t *n) {
  const ts_bag_store *s = fl->bags[f].store;
  *n = s ? s->n_parts : 0;
  return s ? s->row0 : NULL;
}

/* Slots of a hash table of N_BAGS bags.  Ids without weights are rows, so no
 * more of them differ than the table has (GPUs go by the bags). */
static uint64_t slots_of(const ts_ebc *ebc, int32_t f, int64_t n_bags,
                         bool weighted) {
  const ts_table_config *t = &ebc->config->tables[ebc->feature_table[f]];
  const int64_t rows = t->rows;
  const bool plain =
      is_sequence(ebc, f) && !weighted && !ts_table_is_dynamic(t);
  const int64_t most =
      plain && !ts_device_is_discrete(ebc->device) && rows < n_bags ? rows
                                                                    : n_bags;
  uint64_t n = 16;
  while (n < 2 * (uint64_t)most) n *= 2;
  return n;
}

/* Room for N_BAGS bags of feature F, of N_IDS ids in all; returns the mask of
 * the hash table. */
static ts_err reserve(ts_ebc_batch *fl, int32_t f, int64_t n_bags,
                      int64_t n_ids, bool weighted, uint64_t *mask) {
  const ts_ebc *ebc = fl->ebc;
  ts_bag_store *s = fl->bags[f].store;
  const size_t words = (size_t)(n_bags + 1) * 4;
  const uint64_t n_slots = slots_of(ebc, f, n_bags, weighted);
  TS_DO(ts_buffer_reserve(&s->ids, (size_t)(n_ids + 1) * 8));
  TS_DO(ts_buffer_reserve(&s->start, 2 * words));
  TS_DO(ts_buffer_reserve(&s->lengths, words));
  TS_DO(ts_buffer_reserve(&s->inverse, words));
  TS_DO(ts_buffer_reserve(&s->slot, n_slots * 4));
  if (weighted) TS_DO(ts_buffer_reserve(&s->weights, (size_t)(n_ids + 1) * 4));
  if (ebc->once[f] || ts_device_is_discrete(ebc->device)) {
    TS_DO(ts_buffer_reserve(&s->member_start, words));
    TS_DO(ts_buffer_reserve(&s->member, words));
  }
  *mask = n_slots - 1;
  return TS_OK;
}

/* FOUND: where what is found goes, in the results of kernels. */
static ts_err describe(ts_ebc_batch *fl, int32_t f, int64_t *found) {
  ts_bag_store *s = fl->bags[f].store;
  ts_distinct *d = &fl->distinct[fl->ebc->variable[f]];
  const ts_pack_feature *raw = &fl->raw[f];
  const bool sequence = is_sequence(fl->ebc, f);
  const int32_t t = fl->ebc->feature_table[f];
  const int64_t n_out = sequence ? raw->bags.n_ids : raw->n_bags;
  uint64_t mask;
  if (n_out > INT32_MAX / 2)
    return ts_fail(TS_ERR_DATA, "a batch has %lld ids of one feature",
                   (long long)n_out);
  TS_DO(
      reserve(fl, f, n_out, raw->bags.n_ids, raw->bags.weights != NULL, &mask));
  *d = (ts_distinct){.from = raw->bags,
                     .from_offsets = sequence ? NULL : raw->offsets,
                     .n_out = (int32_t)n_out,
                     .sequence = sequence,
                     .ids = s->ids.ptr,
                     .start = s->start.ptr,
                     .weights = s->weights.ptr,
                     .lengths = s->lengths.ptr,
                     .inverse = s->inverse.ptr,
                     .slot = s->slot.ptr,
                     .mask = mask,
                     .member_start = s->member_start.ptr,
                     .member = s->member.ptr,
                     .row0 = d->row0,
                     .hashed = ts_table_is_dynamic(&fl->ebc->config->tables[t]),
                     .n_parts = s->n_parts,
                     .found = found};
  return TS_OK;
}

/* Rows are seen as they arrive, each once. */
static void give_once(ts_bags *b, const ts_distinct *d) {
  b->spread = (ts_spread){.index = d->inverse,
                          .member_start = d->member_start,
                          .member = d->member,
                          .n_ids = d->n_out,
                          .n_rows = b->n};
  b->n_out = b->n;
  b->inverse = b->member_start = b->member = NULL;
}

/* The bags of variable feature F as they were found: N, ids, parts. */
static void set_distinct(ts_ebc_batch *fl, int32_t f, const int64_t *known) {
  ts_bag_store *s = fl->bags[f].store;
  ts_ebc_stat *stat = &fl->ebc->stat;
  const ts_distinct *d = &fl->distinct[fl->ebc->variable[f]];
  const bool discrete = ts_ebc_batch_is_discrete(fl);
  for (int32_t k = 0; s->part && k <= s->n_parts; k++)
    s->part[k] = (int32_t)known[2 + k];
  fl->bags[f] =
      (ts_bags){.ids = {.ids = s->part ? d->start : d->ids,
                        .lengths = d->sequence ? NULL : d->lengths,
                        .weights = d->from.weights ? d->weights : NULL,
                        .n_ids = known[1]},
                .n = (int32_t)known[0],
                .n_out = d->n_out,
                .inverse = d->inverse,
                .offsets = !discrete     ? NULL
                           : d->sequence ? fl->raw[f].offsets
                                         : d->start,
                .member_start = d->member_start,
                .member = d->member,
                .part = s->part,
                .store = s};
  if (fl->ebc->once[f]) give_once(&fl->bags[f], d);
  stat->n_bags_in += d->n_out;
  stat->n_bags_sent += fl->bags[f].n;
  stat->n_ids_in += d->from.n_ids;
  stat->n_ids_sent += fl->bags[f].ids.n_ids;
}

static int64_t n_found(const ts_ebc_batch *fl, int32_t f) {
  return 3 + fl->bags[f].store->n_parts;
}

static ts_err find_distinct(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  const ts_distinct_args a = {fl->distinct, ebc->n_variable};
  int64_t at = 1;
  for (int32_t f = 0; f < ebc->n_features; f++) {
    if (ebc->variable[f] < 0) continue;
    TS_DO(describe(fl, f, (int64_t *)fl->found.ptr + at));
    at += n_found(fl, f);
  }
  TS_DO(ebc->kernels->bags_distinct(&a));
  return ts_send_find(fl, 0, at);
}

int64_t ts_bags_found(const ts_ebc_batch *fl) {
  int64_t n = 0;
  for (int32_t f = 0; f < fl->ebc->n_features; f++)
    if (fl->ebc->variable[f] >= 0) n += n_found(fl, f);
  return n;
}

ts_err ts_bags_make(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  int64_t at = 1;
  if (ebc->n_variable) TS_DO(find_distinct(fl));
  for (int32_t f = 0; f < ebc->n_features; f++) {
    if (ebc->variable[f] >= 0) {
      set_distinct(fl, f, fl->known + at);
      at += n_found(fl, f);
    } else {
      fl->bags[f] = (ts_bags){.ids = fl->raw[f].bags,
                              .n = fl->own.n,
                              .n_out = fl->own.n,
                              .offsets = fl->raw[f].offsets};
    }
  }
  return TS_OK;
}

ts_err ts_bags_expect(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  for (int32_t f = 0; f < ebc->n_features; f++) {
    ts_bags *b = &fl->bags[f];
    ts_bag_store *s = b->store;
    const int64_t n_ids = ts_expect_ids(ebc, f);
    const int64_t rows = ebc->config->tables[ebc->feature_table[f]].rows;
    int64_t n = is_sequence(ebc, f) ? n_ids : ebc->batch_max;
    uint64_t mask;
    b->ids.n_ids = n_ids;
    b->n = b->n_out = (int32_t)n;
    if (!s) continue;
    TS_DO(reserve(fl, f, n, n_ids,
                  ebc->config->tables[ebc->feature_table[f]].weighted, &mask));
    if (ebc->once[f] && n > rows) b->n = b->n_out = (int32_t)(n = rows);
    for (int r = 0; r < ebc->n_ranks; r++)
      fl->variable[(int64_t)r * ebc->n_variable + ebc->variable[f]] = b->n;
    b->part = s->part;
    const ts_table_plan *p = plan_of(fl, f);
    for (int32_t k = 0; k < s->n_parts; k++) /* spread over the row shards */
      s->part[k + 1] =
          s->part[k] + (int32_t)ts_expect_part(ebc, f, p->shards[k].n_rows);
  }
  return TS_OK;
}
