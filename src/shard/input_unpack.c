/* input_unpack.c - what input dist brought, as the bags of each TBE group:
 * feature-major, and within a feature by rank, which is the order of the
 * global batch.  So sums over a row's gradients have the same order on any
 * number of ranks. */
#include <string.h>

#include "base/mem.h"
#include "shard/sharding.h"

/* Where the sections of one source rank lie. */
typedef struct ts_section {
  const char *lengths;
  const int32_t *rows;
  const float *weights;
  int64_t n_ids;
  int form;
} ts_section;

/* SECTIONS: (routes to this rank, W), route-major. */
static void find_sections(const ts_flight *fl, ts_section *sections) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t first = ebc->route_start[ebc->rank];
  const int32_t n = ebc->route_start[ebc->rank + 1] - first;
  const char *message = fl->exchange.recv.ptr;
  for (int r = 0; r < ebc->n_ranks; r++) {
    const int32_t batch = fl->batch[r];
    const char *table = message + sizeof(ts_status);
    const char *at = table + 8 * n;
    for (int32_t i = 0; i < n; i++) {
      ts_section *s = &sections[(int64_t)i * ebc->n_ranks + r];
      int64_t word = 0;
      if (batch) memcpy(&word, table + 8 * i, 8);
      s->n_ids = word >> TS_FORM_BITS;
      s->form = (int)(word & 3);
      s->lengths = at;
      at += ts_form_bytes(s->form, batch);
      s->rows = (const int32_t *)at;
      at += 4 * s->n_ids;
      s->weights = (const float *)at;
      if (ebc->routes[first + i].weighted) at += 4 * s->n_ids;
    }
    message += fl->recv_bytes[r];
  }
}

/* Appends the bags of one section; returns the running number of ids. */
static int64_t add_offsets(int64_t *offsets, int64_t total, const ts_section *s,
                           int32_t batch) {
  const uint8_t *bytes = (const uint8_t *)s->lengths;
  const int32_t *ints = (const int32_t *)s->lengths;
  for (int32_t b = 0; b < batch; b++) {
    offsets[b] = total;
    total += s->form == TS_FORM_ONE     ? 1
             : s->form == TS_FORM_BYTES ? bytes[b]
                                        : ints[b];
  }
  return total;
}

/* Makes room for group G of lot LF: n bags and n_ids ids. */
static ts_err reserve(ts_lot_flight *lf, int32_t g, int64_t n_bags,
                      int64_t n_ids) {
  ts_err err = TS_OK;
  const bool weighted = lf->lot->groups[g].weighted;
  TS_TRY(ts_buffer_reserve(&lf->offsets[g], (size_t)(n_bags + 1) * 8));
  TS_TRY(ts_buffer_reserve(&lf->rows[g], (size_t)n_ids * 4 + 4));
  if (weighted)
    TS_TRY(ts_buffer_reserve(&lf->weights[g], (size_t)n_ids * 4 + 4));
  lf->inputs[g].offsets = lf->offsets[g].ptr;
  lf->inputs[g].rows = lf->rows[g].ptr;
  lf->inputs[g].weights = weighted ? lf->weights[g].ptr : NULL;
  lf->inputs[g].n_ids = n_ids;
done:
  return err;
}

static ts_err unpack_group(ts_flight *fl, int32_t l, int32_t g,
                           const ts_section *sections) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = fl->ebc;
  ts_lot_flight *lf = &fl->lots[l];
  const ts_lot_group *group = &lf->lot->groups[g];
  int64_t n_ids = 0, total = 0;
  for (int32_t s = 0; s < group->n_features; s++) {
    const int32_t i = group->route[s];
    for (int r = 0; r < ebc->n_ranks; r++)
      n_ids += sections[(int64_t)i * ebc->n_ranks + r].n_ids;
  }
  TS_TRY(reserve(lf, g, (int64_t)group->n_features * fl->n_global, n_ids));
  lf->inputs[g].batch = fl->n_global;
  int64_t *offsets = lf->offsets[g].ptr;
  for (int32_t s = 0; s < group->n_features; s++) {
    const int32_t i = group->route[s];
    for (int r = 0; r < ebc->n_ranks; r++) {
      const ts_section *from = &sections[(int64_t)i * ebc->n_ranks + r];
      if (!fl->batch[r]) continue;
      const size_t bytes = (size_t)from->n_ids * 4;
      memcpy((int32_t *)lf->rows[g].ptr + total, from->rows, bytes);
      if (group->weighted)
        memcpy((float *)lf->weights[g].ptr + total, from->weights, bytes);
      const int64_t before = total;
      total = add_offsets(offsets, total, from, fl->batch[r]);
      if (total - before != from->n_ids)
        TS_THROW(TS_ERR_COMM, "input dist: lengths of %lld ids for %lld",
                 (long long)(total - before), (long long)from->n_ids);
      offsets += fl->batch[r];
    }
  }
  *offsets = total;
done:
  return err;
}

/* A group whose ids stay on their rank: straight from the batch. */
static ts_err localize_group(ts_flight *fl, int32_t l, int32_t g) {
  ts_err err = TS_OK;
  ts_lot_flight *lf = &fl->lots[l];
  const ts_lot_group *group = &lf->lot->groups[g];
  int64_t n_ids = 0, total = 0;
  const bool some = fl->n > 0;
  for (int32_t s = 0; some && s < group->n_features; s++)
    n_ids += fl->kjt->features[lf->lot->features[group->lot_feature[s]].feature]
                 .n_ids;
  TS_TRY(reserve(lf, g, (int64_t)group->n_features * fl->n, n_ids));
  lf->inputs[g].batch = fl->n;
  int64_t *offsets = lf->offsets[g].ptr;
  int32_t *rows = lf->rows[g].ptr;
  for (int32_t s = 0; some && s < group->n_features; s++) {
    const ts_lot_feature *f = &lf->lot->features[group->lot_feature[s]];
    const ts_jagged *j = &fl->kjt->features[f->feature];
    if (group->weighted)
      memcpy((float *)lf->weights[g].ptr + total, j->weights,
             (size_t)j->n_ids * 4);
    for (int64_t k = 0; k < j->n_ids; k++) rows[total + k] = (int32_t)j->ids[k];
    for (int32_t b = 0; b < fl->n; b++) {
      *offsets++ = total;
      total += j->lengths ? j->lengths[b] : 1;
    }
  }
  *offsets = total;
done:
  return err;
}

ts_err ts_input_unpack(void *arg, ts_lane *lane) {
  (void)lane;
  ts_err err = TS_OK;
  ts_flight *fl = *(ts_flight **)arg;
  const ts_ebc *ebc = fl->ebc;
  const int32_t n =
      ebc->route_start[ebc->rank + 1] - ebc->route_start[ebc->rank];
  ts_section *sections = NULL;
  TS_TRY(ts_mem_array(&sections, (int64_t)n * ebc->n_ranks, sizeof *sections,
                      TS_TAG_SPARSE));
  find_sections(fl, sections);
  for (int32_t l = 0; l < ebc->n_lots; l++)
    for (int32_t g = 0; g < ebc->lots[l].n_groups; g++)
      TS_TRY(ebc->lots[l].ops->remote ? unpack_group(fl, l, g, sections)
                                      : localize_group(fl, l, g));
done:
  ts_mem_free(sections);
  return err;
}
