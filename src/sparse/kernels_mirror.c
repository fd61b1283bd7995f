/* kernels_mirror.c - the host's kernels of a copy of indexes, as it would be on
 * a device: plain C, the reference of cuda/sparse/mirror.cu. */
#include "sparse/index_impl.h"
#include "sparse/mirror.h"

#include <string.h>

#include "kernel_table.h"
#include "runtime/backends.h"

/* The row of ID without the shard's first, or -1. */
static int64_t find_row(const ts_index_find_args *a, const ts_mirror_table *t,
                        int64_t id) {
  const uint64_t key = ts_index_key(id);
  for (int64_t b = ts_index_home(key, t->n_buckets);;
       b = b + 1 < t->n_buckets ? b + 1 : 0) {
    const bucket *at = &t->buckets[b];
    for (int s = 0; s < SLOTS; s++)
      if (at->print[s] == ts_index_print(key) &&
          a->ids[t->base + TS_INDEX_FIRST_ROW + at->row[s]] == id)
        return at->row[s];
    if (!at->past) return -1;
  }
}

static int64_t id_at(const ts_mirror_part *p, int64_t k) {
  int64_t id;
  memcpy(&id, (const char *)p->ids + 8 * k, 8);
  return id;
}

static ts_err index_find(const ts_index_find_args *a) {
  uint32_t n_missed = 0;
  for (int32_t i = 0; i < a->n_parts; i++) {
    const ts_mirror_part *p = &a->parts[i];
    const ts_mirror_table *t = &a->tables[p->table];
    for (int64_t k = 0; k < p->n; k++) {
      const int64_t id = id_at(p, k), found = find_row(a, t, id);
      int32_t row = found < 0 ? 0 : (int32_t)found + TS_INDEX_FIRST_ROW;
      if (a->missed && !row) {
        a->missed_ids[n_missed] = id;
        a->missed[n_missed++] = (uint32_t)(p->first + k);
      }
      if (a->ahead && a->born[t->base + row] >= a->ahead) row = 0;
      a->rows[p->first + k] = row;
    }
  }
  if (a->n_missed) *a->n_missed = n_missed;
  return TS_OK;
}

static ts_err put_rows(const ts_put_rows_args *a) {
  const size_t row = (size_t)a->row_bytes;
  for (int64_t i = 0; i < a->n; i++) {
    if (!ts_puts_row(a, a->rows[i])) continue;
    char *to = (char *)a->to + (size_t)(a->rows[i] - a->low) * row;
    if (a->from)
      memcpy(to, (const char *)a->from + (size_t)i * row, row);
    else
      memset(to, 0, row);
  }
  return TS_OK;
}

static ts_err meet_rows(const ts_meet_rows_args *a) {
  for (int64_t k = 0; k < a->n; k++) {
    if (k && a->keys[k] == a->keys[k - 1]) continue;
    a->seen[a->keys[k]]++;
    a->last[a->keys[k]] = a->pass;
  }
  return TS_OK;
}

void ts_mirror_kernels_host(ts_kernels *k) {
  k->index_find = index_find;
  k->put_rows = put_rows;
  k->meet_rows = meet_rows;
}
