/* kernels_entries.c - the host's kernels around the row update: plain C, they
 * wait for memory. */
#include <omp.h>
#include <string.h>

#include "base/few_bits.h"
#include "base/mem.h"
#include "runtime/backends.h"
#include "sparse/entries.h"
#include "sparse/row_optim.h"

/* Each bag's share where bags are means. */
static void fill_scales(const ts_entries_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t bag = 0; bag < a->bag_start[a->n_features]; bag++) {
    const int64_t n = a->offsets[bag + 1] - a->offsets[bag];
    a->bag_scale[bag] = n > 0 ? 1.0f / (float)n : 1.0f;
  }
}

static void fill_feature(const ts_entries_args *a, int32_t f) {
  uint32_t *keys = a->keys, *order = a->order, *bag_of = a->bag_of;
  const int64_t base = a->row_base[f];
#pragma omp for schedule(static) nowait
  for (int64_t bag = a->bag_start[f]; bag < a->bag_start[f + 1]; bag++)
    for (int64_t i = a->offsets[bag]; i < a->offsets[bag + 1]; i++) {
      keys[i] = (uint32_t)(base + a->rows[i]);
      order[i] = bag_of ? (uint32_t)i : (uint32_t)bag;
      if (bag_of) bag_of[i] = (uint32_t)bag;
    }
}

static ts_err entries(const ts_entries_args *a) {
  if (a->bag_scale) fill_scales(a);
#pragma omp parallel
  for (int32_t f = 0; f < a->n_features; f++) fill_feature(a, f);
  return TS_OK;
}

static ts_err append(const ts_append_args *a) {
  const int64_t first = a->first, n = a->n, offset = a->offset, dim = a->dim;
  uint32_t *keys = a->keys + first, *order = a->order + first;
  int64_t *at = a->at + first;
  for (int64_t k = 0; k < n; k++) {
    keys[k] = a->from[k];
    order[k] = (uint32_t)(first + k);
    at[k] = offset + k * dim;
  }
  return TS_OK;
}

static int64_t first_at(const uint32_t *keys, int64_t n, int64_t row) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    if (keys[mid] < row)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static ts_err find(const ts_find_args *a) {
  for (int32_t k = 0; k < a->m; k++)
    a->at[k] = first_at(a->keys, a->n, a->row[k]);
  return TS_OK;
}

static ts_err add(float *to, const float *from, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] += from[i];
  return TS_OK;
}

static ts_err add_rows(const ts_add_rows_args *a) {
  const int64_t dim = a->dim;
  for (int64_t i = 0; i < a->n; i++) {
    float *to = a->to + a->keys[i] * dim;
    for (int64_t c = 0; c < dim; c++) to[c] += a->sums[i * dim + c];
  }
  return TS_OK;
}

/* A row and its mean; dtype's to ROW, as f32. */
static void average_row(const ts_average_rows_args *a, int64_t i, float *row) {
  const int64_t key = a->keys ? a->keys[i] : i, dim = a->dim;
  const int64_t at = a->place ? a->place[i] : key;
  const int64_t bytes = ts_row_bytes(a->dtype, dim);
  ts_rows_to_f32(row, (const char *)a->weight + at * bytes, a->dtype, 1,
                 a->dim);
  ts_row_take_mean(row, a->ema + at * dim, a->ema_pass[key], dim, a->decay,
                   a->pass);
  ts_rows_from_f32((char *)a->out + i * bytes, row, a->dtype, 1, a->dim);
  if (a->index) a->index[i] = (uint32_t)i;
}

static ts_err average_rows(const ts_average_rows_args *a) {
  ts_err err = TS_OK;
  const int n_threads = omp_get_max_threads();
  float *rows = NULL; /* of each thread, on lines of its own */
  const int64_t wide = ((int64_t)a->dim + 15) / 16 * 16;
  TS_TRY(ts_mem_many(rows, n_threads * wide, SPARSE));
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->n; i++)
    average_row(a, i, rows + omp_get_thread_num() * wide);
done:
  ts_mem_free(rows);
  return err;
}

/* Keys ascend, so threads share no more than the words where their parts meet:
 * those alone are set for several at once. */
static void mark_part(const ts_mark_rows_args *a, int64_t from, int64_t to) {
  const uint32_t first = a->keys[from] / 32, last = a->keys[to - 1] / 32;
  for (int64_t i = from; i < to;) {
    const uint32_t word = a->keys[i] / 32;
    uint32_t bits = 0;
    for (; i < to && a->keys[i] / 32 == word; i++)
      bits |= UINT32_C(1) << a->keys[i] % 32;
    if (word == first || word == last)
      __atomic_fetch_or(&a->bits[word], bits, __ATOMIC_RELAXED);
    else
      a->bits[word] |= bits;
  }
}

static ts_err mark_rows(const ts_mark_rows_args *a) {
#pragma omp parallel if (a->n > 4096)
  {
    const int64_t n = omp_get_num_threads(), k = omp_get_thread_num();
    const int64_t from = a->n * k / n, to = a->n * (k + 1) / n;
    if (from < to) mark_part(a, from, to);
  }
  return TS_OK;
}

void ts_take_rows(const ts_take_rows_args *a) {
  const size_t row = (size_t)a->row_bytes;
#pragma omp parallel for schedule(static) if (a->n > 1024)
  for (int64_t i = 0; i < a->n; i++)
    memcpy((char *)a->out + (size_t)i * row,
           (const char *)a->from + a->rows[i] * row, row);
}

static ts_err take_rows(const ts_take_rows_args *a) {
  ts_take_rows(a);
  return TS_OK;
}

void ts_entry_kernels_host(ts_kernels *k) {
  k->entries = entries;
  k->append = append;
  k->find = find;
  k->add = add;
  k->add_rows = add_rows;
  k->mark_rows = mark_rows;
  k->take_rows = take_rows;
  k->average_rows = average_rows;
}
