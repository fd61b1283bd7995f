/* unpack.c - the host's kernels of input dist's receiving side: each id is
 * copied once, from the message to its place in the group. */
#include "shard/unpack.h"

#include <string.h>

#include "runtime/backends.h"
#include "shard/message.h"

static void put_rows(const ts_unpack_args *a, const ts_unpack_part *p) {
  const int64_t n = p->n_ids;
  int32_t *to = a->rows + p->first_id;
  if (!n) return;
  if (p->id_bytes == 4) memcpy(to, p->ids, (size_t)n * 4);
  for (int64_t k = 0; p->id_bytes == 8 && k < n; k++) {
    const int64_t id = ((const int64_t *)p->ids)[k];
    const bool beyond = p->n_rows && (uint64_t)id >= (uint64_t)p->n_rows;
    to[k] = beyond ? 0 : (int32_t)id;
  }
  for (int64_t k = 0; p->id_bytes == 2 && k < n; k++)
    to[k] = ((const uint16_t *)p->ids)[k];
  for (int64_t k = 0; p->id_bytes == 1 && k < n; k++)
    to[k] = ((const uint8_t *)p->ids)[k];
  if (p->weights) memcpy(a->weights + p->first_id, p->weights, (size_t)n * 4);
  if (p->positions)
    memcpy(a->positions + p->first_id, p->positions, (size_t)n * 2);
}

/* Returns the number of ids in the part's bags. */
static int64_t put_offsets(const ts_unpack_args *a, const ts_unpack_part *p) {
  const uint8_t *bytes = p->lengths;
  const int32_t *ints = p->lengths;
  int64_t *to = a->offsets + p->first_bag;
  int64_t total = p->base;
  for (int64_t b = 0; b < p->n_bags; b++) {
    to[b] = total;
    total += p->form == TS_FORM_ONE     ? 1
             : p->form == TS_FORM_BYTES ? bytes[b]
                                        : ints[b];
  }
  return total - p->base;
}

/* The end of the section's last bag, where somebody asks. */
static int64_t move_offsets(const ts_unpack_args *a, const ts_unpack_part *p) {
  const int64_t *from = p->lengths;
  int64_t *to = a->offsets + p->first_bag;
  for (int64_t b = 0; b < p->n_bags; b++) to[b] = p->base + from[b];
  return p->n_listed < 0 ? 0 : from[p->n_bags];
}

static void put_places(const ts_unpack_args *a, const ts_unpack_part *p) {
  int64_t *to = a->at + p->first_bag;
  for (int64_t b = 0; b < p->n_bags; b++) to[b] = p->at + b * p->step;
}

/* Where bags are whole an id's position can be seen. */
static void number_ids(const ts_unpack_args *a) {
  for (int64_t b = 0; b < a->n_bags; b++)
    for (int64_t i = a->offsets[b]; i < a->offsets[b + 1]; i++)
      a->positions[i] = ts_position(i - a->offsets[b]);
}

/* The section's bags before part P's end, which *SUM is of the part before. */
static void put_bags(const ts_unpack_args *a, ts_unpack_part p, int64_t *sum) {
  if (p.form == TS_FORM_OFFSETS) {
    *sum = move_offsets(a, &p);
    return;
  }
  if (!p.n_before) *sum = 0;
  p.base += *sum;
  *sum += put_offsets(a, &p);
}

static ts_err unpack(const ts_unpack_args *a) {
  int64_t sum = 0;
  for (int32_t i = 0; i < a->n_parts; i++) {
    const ts_unpack_part *p = &a->parts[i];
    put_rows(a, p);
    put_bags(a, *p, &sum);
    put_places(a, p);
    if (p->n_listed >= 0 && sum != p->n_listed)
      return ts_unpack_fail(sum, p->n_listed);
  }
  a->offsets[a->n_bags] = a->n_ids;
  if (a->number) number_ids(a);
  return TS_OK;
}

ts_err ts_unpack_fail(int64_t n, int64_t n_ids) {
  return ts_fail(TS_ERR_COMM, "input dist: lengths of %lld ids for %lld",
                 (long long)n, (long long)n_ids);
}

/* ---- means --------------------------------------------------------------- */

static int64_t length_of(const ts_bag_mean *v, int64_t b) {
  const int64_t bag = v->bag ? v->bag[b] : b;
  return v->lengths   ? v->lengths[bag]
         : v->offsets ? v->offsets[bag + 1] - v->offsets[bag]
                      : 1;
}

static ts_err bag_means(const ts_bag_means_args *a) {
  for (int32_t i = 0; i < a->n_views; i++)
    for (int64_t b = 0; b < a->view[i].n; b++) {
      const int64_t length = length_of(&a->view[i], b);
      a->view[i].out[b] = length > 0 ? 1.0f / (float)length : 0.0f;
    }
  return TS_OK;
}

void ts_unpack_kernels_host(ts_kernels *k) {
  k->unpack = unpack;
  k->bag_means = bag_means;
}
