/* input_unpack.c - what input dist brought, as the bags of each TBE group:
 * feature-major, and within a feature by rank, which is the order of the
 * global batch.  So sums over a row's gradients have the same order on any
 * number of ranks. */
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "shard/message.h"

/* Where the section of one route and source rank lies. */
typedef struct ts_section {
  const char *lengths, *rows;
  const float *weights;
  const uint16_t *positions;
  int64_t n_ids, n_bags;
  int form;
} ts_section;

/* Bags of route R that rank FROM has sent. */
static int64_t bags_from(const ts_flight *fl, const ts_route *r, int from,
                         int64_t n_ids) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t v = ebc->variable[r->feature];
  if (!fl->batch[from]) return 0;
  if (r->sequence && r->split) return n_ids;
  return v < 0 ? fl->batch[from]
               : fl->variable[(int64_t)from * ebc->n_variable + v];
}

/* SECTIONS: (routes to this rank, W), route-major. */
static ts_err find_sections(const ts_flight *fl, ts_section *sections) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t first = ebc->route_start[ebc->rank];
  const int32_t n = ebc->route_start[ebc->rank + 1] - first;
  const ts_exchange *x = &fl->exchange;
  for (int r = 0; r < ebc->n_ranks; r++) {
    const char *message = (const char *)x->recv.ptr + x->recv_at[r];
    const char *end = message + x->recv_bytes[r];
    const char *at = message + ts_head_bytes(ebc, n);
    for (int32_t i = 0; i < n; i++) {
      ts_section *s = &sections[(int64_t)i * ebc->n_ranks + r];
      const ts_route *route = &ebc->routes[first + i];
      int64_t word = 0;
      *s = (ts_section){0};
      if (!fl->batch[r]) continue;
      memcpy(&word, message + ts_head_bytes(ebc, i), 8);
      s->n_ids = word >> TS_FORM_BITS;
      s->form = (int)(word & 3);
      s->n_bags = bags_from(fl, route, r, s->n_ids);
      s->lengths = at;
      s->rows = at + ts_form_bytes(s->form, s->n_bags);
      at = s->rows + ts_pad4(s->n_ids * ts_id_bytes(route->n_rows));
      s->weights = (const float *)(const void *)at;
      if (route->weighted) at += 4 * s->n_ids;
      s->positions = (const uint16_t *)(const void *)at;
      if (route->positions) at += ts_pad4(2 * s->n_ids);
      if (s->n_ids < 0 || at > end || ts_fault("message"))
        return ts_fail(TS_ERR_COMM, "rank %d sent a message that ends early",
                       r);
    }
  }
  return TS_OK;
}

ts_err ts_lot_reserve_input(ts_lot_flight *lf, int32_t g, int64_t n_bags,
                            int64_t n_ids) {
  ts_err err = TS_OK;
  const ts_lot_group *group = &lf->lot->groups[g];
  TS_TRY(ts_buffer_reserve(&lf->starts[g], (size_t)(group->n_slots + 1) * 8));
  TS_TRY(ts_buffer_reserve(&lf->offsets[g], (size_t)(n_bags + 1) * 8));
  TS_TRY(ts_buffer_reserve(&lf->at[g], (size_t)(n_bags + 1) * 8));
  TS_TRY(ts_buffer_reserve(&lf->rows[g], (size_t)n_ids * 4 + 4));
  const bool has_weights = group->weighted || group->positions;
  if (has_weights)
    TS_TRY(ts_buffer_reserve(&lf->weights[g], (size_t)n_ids * 4 + 4));
  if (group->positions) {
    TS_TRY(ts_buffer_reserve(&lf->positions[g], (size_t)n_ids * 2 + 2));
    TS_TRY(ts_buffer_reserve(&lf->weight_grads[g], (size_t)n_ids * 4 + 4));
  }
done:
  return err;
}

/* Makes room for group G of lot LF and sets its input. */
static ts_err reserve(ts_lot_flight *lf, int32_t g, int64_t n_bags,
                      int64_t n_ids) {
  ts_err err = TS_OK;
  const ts_lot_group *group = &lf->lot->groups[g];
  const bool has_weights = group->weighted || group->positions;
  TS_TRY(ts_lot_reserve_input(lf, g, n_bags, n_ids));
  lf->inputs[g] =
      (ts_tbe_input){.bag_start = lf->starts[g].ptr,
                     .offsets = lf->offsets[g].ptr,
                     .at = lf->at[g].ptr,
                     .rows = lf->rows[g].ptr,
                     .weights = has_weights ? lf->weights[g].ptr : NULL,
                     .n_ids = n_ids};
  if (ts_tbe_is_cached(group->tbe)) lf->inputs[g].hold = &lf->holds[g];
done:
  return err;
}

/* How far a group's arrays are filled. */
typedef struct ts_fill {
  int64_t *offsets, *at; /* of the next bag */
  int32_t *rows;         /* all */
  float *weights;
  uint16_t *positions;
  int64_t n_bags, n_ids;
} ts_fill;

static ts_fill fill_of(const ts_lot_flight *lf, int32_t g) {
  return (ts_fill){.offsets = lf->offsets[g].ptr,
                   .at = lf->at[g].ptr,
                   .rows = lf->rows[g].ptr,
                   .weights = lf->weights[g].ptr,
                   .positions = lf->positions[g].ptr};
}

static void add_rows(ts_fill *f, const ts_section *s, const ts_route *route) {
  const int id_bytes = ts_id_bytes(route->n_rows);
  int32_t *to = f->rows + f->n_ids;
  if (!s->n_ids) return;
  if (id_bytes == 4) memcpy(to, s->rows, (size_t)s->n_ids * 4);
  for (int64_t k = 0; id_bytes == 2 && k < s->n_ids; k++)
    to[k] = ((const uint16_t *)(const void *)s->rows)[k];
  for (int64_t k = 0; id_bytes == 1 && k < s->n_ids; k++)
    to[k] = ((const uint8_t *)s->rows)[k];
  if (route->weighted)
    memcpy(f->weights + f->n_ids, s->weights, (size_t)s->n_ids * 4);
  if (route->positions)
    memcpy(f->positions + f->n_ids, s->positions, (size_t)s->n_ids * 2);
}

/* Where bags are whole an id's position can be seen. */
static void number_ids(ts_fill *f) {
  for (int64_t b = 0; b < f->n_bags; b++)
    for (int64_t i = f->offsets[b]; i < f->offsets[b + 1]; i++)
      f->positions[i] = ts_position(i - f->offsets[b]);
}

/* Appends the offsets of one section's bags. */
static void add_offsets(ts_fill *f, const ts_section *s) {
  const uint8_t *bytes = (const uint8_t *)s->lengths;
  const int32_t *ints = (const int32_t *)(const void *)s->lengths;
  int64_t total = f->n_ids;
  for (int64_t b = 0; b < s->n_bags; b++) {
    f->offsets[f->n_bags + b] = total;
    total += s->form == TS_FORM_ONE     ? 1
             : s->form == TS_FORM_BYTES ? bytes[b]
                                        : ints[b];
  }
  f->n_ids = total;
}

/* Where the N next bags write: piece P's part that belongs to RANK. */
static void add_places(ts_fill *f, const ts_lot_flight *lf, int32_t p, int rank,
                       int64_t n) {
  const ts_lot *lot = lf->lot;
  const ts_piece *piece = &lot->pieces[p];
  const int64_t start = lf->write_at[(int64_t)p * lot->ebc->n_ranks + rank];
  const int64_t step =
      piece->col < 0 ? piece->n_cols : lot->block_width[piece->block];
  for (int64_t b = 0; b < n; b++) f->at[f->n_bags + b] = start + b * step;
  f->n_bags += n;
}

static ts_err unpack_group(ts_flight *fl, int32_t l, int32_t g,
                           const ts_section *sections) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = fl->ebc;
  ts_lot_flight *lf = &fl->lots[l];
  const ts_lot_group *group = &lf->lot->groups[g];
  int64_t n_ids = 0, n_bags = 0;
  for (int32_t s = 0; s < group->n_slots; s++)
    for (int r = 0; r < ebc->n_ranks; r++) {
      const ts_section *from =
          &sections[(int64_t)group->route[s] * ebc->n_ranks + r];
      n_ids += from->n_ids;
      n_bags += from->n_bags;
    }
  TS_TRY(reserve(lf, g, n_bags, n_ids));
  int64_t *starts = lf->starts[g].ptr;
  ts_fill fill = fill_of(lf, g);
  for (int32_t s = 0; s < group->n_slots; s++) {
    const int32_t i = group->route[s];
    const ts_route *route = &ebc->routes[ebc->route_start[ebc->rank] + i];
    starts[s] = fill.n_bags;
    for (int r = 0; r < ebc->n_ranks; r++) {
      const ts_section *from = &sections[(int64_t)i * ebc->n_ranks + r];
      const int64_t before = fill.n_ids;
      add_rows(&fill, from, route);
      add_offsets(&fill, from);
      add_places(&fill, lf, group->piece[s], r, from->n_bags);
      if (fill.n_ids - before != from->n_ids)
        TS_THROW(TS_ERR_COMM, "input dist: lengths of %lld ids for %lld",
                 (long long)(fill.n_ids - before), (long long)from->n_ids);
    }
  }
  starts[group->n_slots] = fill.n_bags;
  fill.offsets[fill.n_bags] = fill.n_ids;
  if (group->positions && !lf->lot->ops->split_rows) number_ids(&fill);
done:
  return err;
}

/* A group whose ids stay on their rank: straight from the batch. */
static ts_err localize_group(ts_flight *fl, int32_t l, int32_t g) {
  ts_err err = TS_OK;
  ts_lot_flight *lf = &fl->lots[l];
  const ts_lot_group *group = &lf->lot->groups[g];
  const int me = fl->ebc->rank;
  int64_t n_ids = 0, n_bags = 0;
  for (int32_t s = 0; fl->n > 0 && s < group->n_slots; s++) {
    const ts_bags *b = &fl->bags[lf->lot->pieces[group->piece[s]].feature];
    n_ids += b->ids.n_ids;
    n_bags += b->n;
  }
  TS_TRY(reserve(lf, g, n_bags, n_ids));
  int64_t *starts = lf->starts[g].ptr;
  ts_fill fill = fill_of(lf, g);
  for (int32_t s = 0; s < group->n_slots; s++) {
    const ts_bags *b = &fl->bags[lf->lot->pieces[group->piece[s]].feature];
    const int64_t n = fl->n > 0 ? b->ids.n_ids : 0;
    const int32_t bags = fl->n > 0 ? b->n : 0;
    starts[s] = fill.n_bags;
    for (int64_t k = 0; k < n; k++)
      fill.rows[fill.n_ids + k] = (int32_t)b->ids.ids[k];
    if (group->weighted && n)
      memcpy(fill.weights + fill.n_ids, b->ids.weights, (size_t)n * 4);
    for (int32_t i = 0; i < bags; i++) {
      fill.offsets[fill.n_bags + i] = fill.n_ids;
      fill.n_ids += ts_jagged_length(&b->ids, i);
    }
    add_places(&fill, lf, group->piece[s], me, bags);
  }
  starts[group->n_slots] = fill.n_bags;
  fill.offsets[fill.n_bags] = fill.n_ids;
  if (group->positions) number_ids(&fill);
done:
  return err;
}

/* Bags per shard of sequences that are cut by rows: as many as ids came. */
static void count_split(ts_flight *fl, ts_lot_flight *lf,
                        const ts_section *sections) {
  const ts_lot *lot = lf->lot;
  const int n_ranks = fl->ebc->n_ranks;
  if (!lot->sequence || !lot->ops->split_rows) return;
  for (int32_t g = 0; g < lot->n_groups; g++)
    for (int32_t s = 0; s < lot->groups[g].n_slots; s++)
      for (int r = 0; r < n_ranks; r++)
        lf->count[(int64_t)r * lot->n_pieces + lot->groups[g].piece[s]] =
            (int32_t)sections[(int64_t)lot->groups[g].route[s] * n_ranks + r]
                .n_bags;
}

ts_err ts_input_create(ts_flight *fl) {
  const ts_ebc *ebc = fl->ebc;
  const int64_t n =
      ebc->route_start[ebc->rank + 1] - ebc->route_start[ebc->rank];
  return ts_mem_array(&fl->sections, n * ebc->n_ranks, sizeof *fl->sections,
                      TS_TAG_SPARSE);
}

ts_err ts_input_unpack(void *arg, ts_lane *lane) {
  (void)lane;
  ts_err err = TS_OK;
  ts_flight *fl = *(ts_flight **)arg;
  const ts_ebc *ebc = fl->ebc;
  ts_section *sections = fl->sections;
  TS_TRY(find_sections(fl, sections));
  for (int32_t l = 0; l < ebc->n_lots; l++) {
    const bool remote = ebc->lots[l].ops->remote;
    if (remote) count_split(fl, &fl->lots[l], sections);
    TS_TRY(ts_lot_measure(&fl->lots[l]));
    for (int32_t g = 0; g < ebc->lots[l].n_groups; g++)
      TS_TRY(remote ? unpack_group(fl, l, g, sections)
                    : localize_group(fl, l, g));
  }
done:
  return err;
}
