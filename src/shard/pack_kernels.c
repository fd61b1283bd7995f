/* pack_kernels.c - the host's kernels of input dist's sending side: ids are
 * checked, counted by the shards that they go to, and written once into the
 * messages. */
#include <string.h>

#include "runtime/backends.h"
#include "shard/message.h"
#include "sparse/index.h"

static ts_err bags_check(const ts_bags_args *a) {
  int64_t before = 0;
  *a->bad = TS_NO_BAD_ID;
  for (int32_t f = 0; f < a->n_features; f++) {
    const ts_jagged *j = &a->features[f].bags;
    const int64_t rows = a->features[f].rows;
    for (int64_t k = 0; k < j->n_ids; k++)
      if (!ts_id_is_row(j->ids[k], rows)) {
        *a->bad = before + k;
        return TS_OK;
      }
    before += j->n_ids;
  }
  return TS_OK;
}

static ts_err bags_offsets(const ts_bags_args *a) {
  for (int32_t f = 0; f < a->n_features; f++) {
    const ts_pack_feature *p = &a->features[f];
    int64_t total = 0;
    for (int32_t b = 0; p->lengths && b < p->n_bags; b++)
      p->lengths[b] = (int32_t)(p->offsets[b + 1] - p->offsets[b]);
    if (!p->offsets || p->lengths) continue;
    for (int32_t b = 0; b < p->n_bags; b++) {
      p->offsets[b] = total;
      total += ts_jagged_length(&p->bags, b);
    }
    p->offsets[p->n_bags] = total;
  }
  return TS_OK;
}

/* ---- bags that stay whole ------------------------------------------------ */

static int64_t word_of(const ts_pack_section *s) {
  int64_t longest = 0;
  int form = TS_FORM_ONE;
  if (!ts_jagged_is_one(&s->bags)) {
    for (int32_t b = 0; b < s->n_bags; b++)
      if (ts_jagged_length(&s->bags, b) > longest)
        longest = ts_jagged_length(&s->bags, b);
    form = longest < 256 ? TS_FORM_BYTES : TS_FORM_INTS;
  }
  return s->bags.n_ids << TS_FORM_BITS | form;
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
  if (l->id_bytes == 8 && n) memcpy(l->rows, j->ids, (size_t)n * 8);
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

/* Zeroes those last words of a section that may be padding. */
static void clear_ends(const ts_layout *l, int64_t n_ids) {
  char *end_of_rows = l->rows + ts_pad4(n_ids * l->id_bytes);
  if (l->rows > l->lengths) memset(l->rows - 4, 0, 4);
  if (end_of_rows > l->rows) memset(end_of_rows - 4, 0, 4);
  if (l->positions && n_ids) memset(l->end - 4, 0, 4);
}

static void write_section(const ts_pack_section *s) {
  const ts_jagged *j = &s->bags;
  clear_ends(&s->to, j->n_ids);
  write_lengths(&s->to, j, s->n_bags);
  write_rows(&s->to, j, s->row0);
  if (s->to.weights && j->n_ids)
    memcpy(s->to.weights, j->weights, (size_t)j->n_ids * 4);
}

/* ---- bags spread over row shards ----------------------------------------- */

/* One pass over the ids counts what goes to each shard, a second one writes
 * each id straight into its place in the message to its shard's rank: the
 * work does not grow with the number of shards. */

static inline int32_t part_of(const ts_pack_split *x, int64_t id) {
  int32_t low = 0, high = x->n_parts - 1;
  if (x->hashed) return ts_index_shard(id, x->n_parts);
  if (x->block) return (int32_t)(id / x->block);
  while (low < high) {
    const int32_t mid = (low + high + 1) / 2;
    if (x->row0[mid] <= id)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

static void open_parts(ts_pack_part *parts, const ts_pack_split *x) {
  for (int32_t p = 0; p < x->n_all; p++) {
    parts[p].last = -1;
    parts[p].n = parts[p].in_bag = parts[p].longest = 0;
  }
}

static void measure_split(ts_pack_part *parts, const ts_pack_split *x,
                          int64_t *words) {
  int64_t k = 0;
  open_parts(parts, x);
  for (int32_t b = 0; b < x->n_bags; b++) {
    const int64_t end = k + ts_jagged_length(&x->bags, b);
    for (; k < end; k++) {
      ts_pack_part *p = &parts[part_of(x, x->bags.ids[k])];
      p->in_bag = p->last == b ? p->in_bag + 1 : 1;
      p->last = b;
      p->n++;
      if (p->in_bag > p->longest) p->longest = p->in_bag;
    }
  }
  for (int32_t p = 0; p < x->n_all; p++)
    words[parts[p].route] =
        parts[p].n << TS_FORM_BITS |
        (parts[p].longest < 256 ? TS_FORM_BYTES : TS_FORM_INTS);
}

/* Lengths start as zeros and are counted up. */
static void clear_parts(ts_pack_part *parts, const ts_pack_split *x) {
  for (int32_t p = 0; p < x->n_all; p++) {
    const ts_layout *to = &parts[p].to;
    clear_ends(to, parts[p].n_ids);
    if (x->n_bags)
      memset(to->lengths, 0, (size_t)ts_form_bytes(to->form, x->n_bags));
  }
}

static void write_split(ts_pack_part *parts, const ts_pack_split *x) {
  const ts_jagged *j = &x->bags;
  int64_t k = 0;
  open_parts(parts, x);
  clear_parts(parts, x);
  for (int32_t b = 0; b < x->n_bags; b++) {
    const int64_t first = k, end = k + ts_jagged_length(j, b);
    for (; k < end; k++) {
      ts_pack_part *p = &parts[part_of(x, j->ids[k])];
      const ts_layout *to = &p->to;
      ts_put_row(to->rows, p->n, to->id_bytes, j->ids[k] - p->row0);
      if (to->weights) to->weights[p->n] = j->weights[k];
      if (to->positions) to->positions[p->n] = ts_position(k - first);
      if (to->form == TS_FORM_BYTES)
        ((uint8_t *)to->lengths)[b]++;
      else
        ((int32_t *)(void *)to->lengths)[b]++;
      p->n++;
    }
  }
}

/* ---- entries ------------------------------------------------------------- */

ts_err ts_pack_measure(const ts_pack_args *a) {
  if (*a->bad != TS_NO_BAD_ID) return TS_OK;
  for (int32_t i = 0; i < a->n_sections; i++)
    a->words[a->sections[i].route] = word_of(&a->sections[i]);
  for (int32_t k = 0; k < a->n_splits; k++)
    measure_split(a->parts + a->splits[k].first, &a->splits[k], a->words);
  return TS_OK;
}

static ts_err pack_write(const ts_pack_args *a) {
  if (*a->bad != TS_NO_BAD_ID) return TS_OK;
  for (int32_t i = 0; i < a->n_sections; i++) write_section(&a->sections[i]);
  for (int32_t k = 0; k < a->n_splits; k++)
    write_split(a->parts + a->splits[k].first, &a->splits[k]);
  return TS_OK;
}

void ts_pack_kernels_host(ts_kernels *k) {
  k->bags_check = bags_check;
  k->bags_offsets = bags_offsets;
  k->bags_distinct = ts_bags_distinct;
  k->pack_measure = ts_pack_measure;
  k->pack_write = pack_write;
}
