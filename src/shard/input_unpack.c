/* input_unpack.c - what input dist brought, as the bags of each TBE group:
 * feature-major, and within a feature by rank, which is the order of the
 * global batch.  So sums over a row's gradients have the same order on any
 * number of ranks.  Ids that stay on their rank come from the batch as it was
 * read, or from its copy on the device.
 *
 * Here is found out what lies where; kernels do the rest (shard/unpack.h).
 * Heads are the host's everywhere.  A device of memory of its own gets all
 * groups' lists of parts in one copy, and the sections from the other ranks'
 * devices. */
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "shard/message.h"

/* The section of ROUTE at AT, of the table's word WORD; *END is its end. */
static ts_unpack_part section_at(const ts_ebc_batch *fl, const ts_route *route,
                                 int from, int64_t word, const char *at,
                                 const char **end) {
  ts_unpack_part s = {.n_ids = word >> TS_FORM_BITS, .form = (int)(word & 3)};
  s.n_listed = s.n_ids;
  s.n_bags = ts_bags_from(fl, route, from, s.n_ids);
  s.id_bytes = ts_route_id_bytes(route);
  s.lengths = at;
  s.ids = at += ts_form_bytes(s.form, s.n_bags);
  at += ts_pad4(s.n_ids * s.id_bytes);
  if (route->weighted) s.weights = (const float *)(const void *)at;
  if (route->weighted) at += 4 * s.n_ids;
  if (route->positions) s.positions = (const uint16_t *)(const void *)at;
  if (route->positions) at += ts_pad4(2 * s.n_ids);
  *end = at;
  return s;
}

/* SECTIONS: (routes to this rank, W), route-major. */
static ts_err find_sections(const ts_ebc_batch *fl, ts_unpack_part *sections) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t first = ebc->route_start[ebc->rank];
  const int32_t n = ts_routes_here(ebc);
  const ts_exchange *x = &fl->exchange;
  for (int r = 0; r < ebc->n_ranks; r++) {
    const char *message = (const char *)x->recv.ptr + x->recv_at[r];
    const char *end = message + x->recv_bytes[r];
    const char *at = message + ts_head_bytes(ebc, n);
    if (ebc->section_comm) {
      at = (const char *)fl->arrived.ptr + fl->section_recv_at[r];
      end = at + fl->section_recv[r];
    }
    for (int32_t i = 0; i < n; i++) {
      ts_unpack_part *s = &sections[(int64_t)i * ebc->n_ranks + r];
      int64_t word = 0;
      *s = (ts_unpack_part){0};
      if (!fl->batch[r]) continue;
      memcpy(&word, message + ts_head_bytes(ebc, i), 8);
      *s = section_at(fl, &ebc->routes[first + i], r, word, at, &at);
      if (s->n_ids < 0 || at > end || ts_fault("message"))
        return ts_fail(TS_ERR_COMM, "rank %d sent a message that ends early",
                       r);
    }
  }
  return TS_OK;
}

static int64_t table_rows(const ts_sharding_batch *lf, int32_t feature) {
  const ts_ebc *ebc = lf->sharding->ebc;
  return ebc->config->tables[ebc->feature_table[feature]].rows;
}

/* The bags of slot S of group G that stay on their rank.  Where their ids have
 * not been looked at, kernels see to it that they are rows. */
static ts_unpack_part local_section(const ts_sharding_batch *lf, int32_t g,
                                    int32_t slot) {
  const ts_sharding_group *group = &lf->sharding->groups[g];
  const int32_t feature = lf->sharding->pieces[group->piece[slot]].feature;
  const ts_bags *b = &lf->ebc_batch->bags[feature];
  const bool discrete = ts_ebc_batch_is_discrete(lf->ebc_batch);
  ts_unpack_part s = {.id_bytes = 8, .n_listed = -1};
  if (lf->ebc_batch->n <= 0) return s;
  s.n_bags = b->n;
  s.n_ids = b->ids.n_ids;
  s.ids = b->ids.ids;
  if (lf->ebc_batch->ebc->counts) s.n_rows = (int32_t)table_rows(lf, feature);
  if (!discrete || ts_jagged_is_one(&b->ids)) s.n_listed = s.n_ids;
  if (group->weighted && s.n_ids) s.weights = b->ids.weights;
  if (ts_jagged_is_one(&b->ids)) return s;
  s.form = TS_FORM_OFFSETS;
  s.lengths = b->offsets ? b->offsets : b->ids.offsets;
  if (s.lengths) return s;
  s.form = TS_FORM_INTS;
  s.lengths = b->ids.lengths;
  return s;
}

/* ---- lists of parts ------------------------------------------------------ */

/* The list of parts while it is being written.  n_bags, n_ids: of the group so
 * far. */
typedef struct ts_part_list {
  const ts_sharding_batch *lf;
  ts_unpack_part *next;
  bool discrete; /* parts are cut */
  bool lengths;  /* of the group so far: some have lengths to be added up */
  int64_t n_bags, n_ids;
} ts_part_list;

static int64_t length_bytes(int form) {
  return form == TS_FORM_ONE       ? 0
         : form == TS_FORM_BYTES   ? 1
         : form == TS_FORM_OFFSETS ? 8
                                   : 4;
}

/* For a device that makes a block of each part, and adds up lengths itself. */
static ts_err cut(ts_part_list *list, const ts_unpack_part *p) {
  const int64_t bytes = length_bytes(p->form);
  const bool lengths = p->form == TS_FORM_BYTES || p->form == TS_FORM_INTS;
  if (p->form == TS_FORM_ONE && p->n_listed >= 0 && p->n_listed != p->n_bags)
    return ts_unpack_fail(p->n_bags, p->n_listed);
  list->lengths |= lengths;
  for (int64_t b = 0; b == 0 || b < p->n_bags; b += TS_UNPACK_BAGS) {
    const int64_t left = p->n_bags - b;
    ts_unpack_part *to = list->next++;
    *to = *p;
    to->n_listed = left <= TS_UNPACK_BAGS && lengths ? p->n_listed : -1;
    to->n_before = (int32_t)(b / TS_UNPACK_BAGS);
    to->n_bags = left < TS_UNPACK_BAGS ? left : TS_UNPACK_BAGS;
    to->first_bag += b;
    to->at += b * p->step;
    if (bytes) to->lengths = (const char *)p->lengths + b * bytes;
    if (b) { /* they come with the first part */
      to->first_id += p->n_ids;
      to->n_ids = 0;
    }
  }
  return TS_OK;
}

/* Appends section S, the part of PIECE's bags that belongs to RANK. */
static ts_err add_section(ts_part_list *list, const ts_unpack_part *s,
                          int32_t piece, int rank) {
  const ts_sharding_batch *lf = list->lf;
  const ts_sharding *sharding = lf->sharding;
  const ts_piece *x = &sharding->pieces[piece];
  ts_unpack_part p = *s;
  if (!p.n_bags && !p.n_ids) return TS_OK;
  p.first_bag = list->n_bags;
  p.first_id = p.base = list->n_ids;
  p.at = lf->write_at[(int64_t)piece * sharding->ebc->n_ranks + rank];
  p.step = x->col < 0 ? x->n_cols : sharding->block_width[x->block];
  if (ts_table_is_dynamic(&sharding->ebc->config->tables[x->table]))
    p.id_bytes = 0; /* dynamic.c writes their rows */
  list->n_bags += p.n_bags;
  list->n_ids += p.n_ids;
  if (list->discrete) return cut(list, &p);
  *list->next++ = p;
  return TS_OK;
}

/* ---- groups -------------------------------------------------------------- */

int64_t ts_input_sizes(int64_t *size, const ts_input_shape *x) {
  const int64_t bags = x->n_bags + 1, ids = x->n_ids + 1;
  const int64_t entries = x->sorted ? 4 * ids : 0;
  const int64_t all[TS_GROUP_BUFFERS] = {8 * ((int64_t)x->n_slots + 1),
                                         8 * bags,
                                         8 * bags,
                                         4 * ids,
                                         x->weighted ? 4 * ids : 0,
                                         x->positions ? 2 * ids : 0,
                                         x->positions ? 4 * ids : 0,
                                         entries,
                                         entries,
                                         entries,
                                         x->weighted ? entries : 0,
                                         x->sorted ? 4 * bags : 0};
  int64_t bytes = 0;
  for (int i = 0; i < TS_GROUP_BUFFERS; i++) bytes += size[i] = all[i];
  return bytes;
}

ts_err ts_sharding_reserve_input(ts_sharding_batch *lf, int32_t g,
                                 int64_t n_bags, int64_t n_ids) {
  const ts_sharding_group *group = &lf->sharding->groups[g];
  const ts_input_shape shape = {group->n_slots,
                                n_bags,
                                n_ids,
                                group->weighted || group->positions,
                                group->positions,
                                lf->ebc_batch->sorts};
  int64_t size[TS_GROUP_BUFFERS];
  ts_buffer **all[TS_GROUP_BUFFERS];
  ts_input_sizes(size, &shape);
  ts_sharding_group_buffers(lf, all);
  for (int i = 0; i < TS_GROUP_BUFFERS; i++)
    if (size[i]) TS_DO(ts_buffer_reserve(&(*all[i])[g], (size_t)size[i]));
  return TS_OK;
}

/* Makes room for group G of sharding LF and sets its input. */
static ts_err reserve(ts_sharding_batch *lf, int32_t g, int64_t n_bags,
                      int64_t n_ids) {
  const ts_sharding_group *group = &lf->sharding->groups[g];
  const bool has_weights = group->weighted || group->positions;
  TS_DO(ts_sharding_reserve_input(lf, g, n_bags, n_ids));
  lf->inputs[g] =
      (ts_tbe_input){.bag_start = lf->starts[g].ptr,
                     .offsets = lf->offsets[g].ptr,
                     .at = lf->at[g].ptr,
                     .rows = lf->rows[g].ptr,
                     .weights = has_weights ? lf->weights[g].ptr : NULL,
                     .n_ids = n_ids};
  lf->sorted[g] = (ts_tbe_sorted){.keys = lf->keys[g].ptr,
                                  .order = lf->order[g].ptr,
                                  .runs = lf->runs[g].ptr,
                                  .bag_of = lf->bag_of[g].ptr,
                                  .bag_scale = lf->bag_scale[g].ptr};
  if (lf->ebc_batch->sorts) lf->inputs[g].sorted = &lf->sorted[g];
  if (ts_tbe_is_cached(group->tbe)) lf->inputs[g].hold = &lf->holds[g];
  return TS_OK;
}

/* The word in which kernels note lengths that don't add up. */
static uint64_t *bad_word(const ts_ebc_batch *fl) {
  return (uint64_t *)fl->found.ptr + fl->n_known;
}

/* Group G's list, appended to LIST, and what the kernel gets. */
static ts_err list_group(ts_sharding_batch *lf, int32_t g, ts_part_list *list) {
  const ts_sharding_group *group = &lf->sharding->groups[g];
  const int n_ranks = lf->sharding->ebc->n_ranks, me = lf->sharding->ebc->rank;
  const bool travels = lf->sharding->travels;
  const ts_unpack_part *first = list->next;
  list->n_bags = list->n_ids = 0;
  list->lengths = false;
  TS_DO(ts_buffer_reserve(&lf->starts[g], (size_t)(group->n_slots + 1) * 8));
  int64_t *starts = lf->starts[g].ptr;
  for (int32_t s = 0; s < group->n_slots; s++) {
    const int64_t at = (int64_t)group->route[s] * n_ranks;
    const ts_unpack_part local = local_section(lf, g, s);
    starts[s] = list->n_bags;
    for (int r = 0; travels && r < n_ranks; r++)
      TS_DO(add_section(list, &lf->ebc_batch->sections[at + r], group->piece[s],
                        r));
    if (!travels) TS_DO(add_section(list, &local, group->piece[s], me));
  }
  starts[group->n_slots] = list->n_bags;
  TS_DO(reserve(lf, g, list->n_bags, list->n_ids));
  lf->unpack[g] = (ts_unpack_args){
      .parts = first,
      .n_parts = (int32_t)(list->next - first),
      .number = group->positions && !(travels && lf->sharding->ops->split_rows),
      .lengths = list->lengths,
      .bad = bad_word(lf->ebc_batch),
      .n_bags = list->n_bags,
      .n_ids = list->n_ids,
      .offsets = lf->offsets[g].ptr,
      .at = lf->at[g].ptr,
      .rows = lf->rows[g].ptr,
      .weights = lf->weights[g].ptr,
      .positions = lf->positions[g].ptr};
  return TS_OK;
}

/* Bags per shard of sequences that are cut by rows: as many as ids came. */
static void count_split(ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  const int n_ranks = sharding->ebc->n_ranks;
  if (!sharding->sequence || !sharding->ops->split_rows) return;
  for (int32_t g = 0; g < sharding->n_groups; g++)
    for (int32_t s = 0; s < sharding->groups[g].n_slots; s++)
      for (int r = 0; r < n_ranks; r++)
        lf->count[(int64_t)r * sharding->n_pieces +
                  sharding->groups[g].piece[s]] =
            (int32_t)lf->ebc_batch
                ->sections[(int64_t)sharding->groups[g].route[s] * n_ranks + r]
                .n_bags;
}

ts_err ts_input_create(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  const int64_t n = ts_routes_here(ebc);
  const ts_buffer empty = {.space = TS_SPACE_DEVICE,
                           .tag = TS_TAG_COMM,
                           .owned = true,
                           .device = ebc->device};
  fl->arrived = fl->list = fl->list_copy = empty;
  fl->list.space = TS_SPACE_PINNED;
  return ts_mem_many(fl->sections, n * ebc->n_ranks, SPARSE);
}

int64_t ts_input_parts(const ts_ebc_batch *fl, int64_t n_bags) {
  const ts_ebc *ebc = fl->ebc;
  int64_t n = 0;
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++)
      n += (int64_t)ebc->shardings[l].groups[g].n_slots *
           (ebc->shardings[l].travels ? ebc->n_ranks : 1);
  return ts_device_is_discrete(ebc->device) ? n + n_bags / TS_UNPACK_BAGS : n;
}

ts_err ts_input_reserve(ts_ebc_batch *fl, int64_t n_parts) {
  const size_t list = (size_t)n_parts * sizeof *fl->sections;
  TS_DO(ts_buffer_reserve(&fl->list, list));
  return ts_device_is_discrete(fl->ebc->device)
             ? ts_buffer_reserve(&fl->list_copy, list)
             : TS_OK;
}

/* Bags of all groups of sharding LF. */
static int64_t count_bags(const ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  const int n_ranks = sharding->ebc->n_ranks;
  int64_t n = 0;
  for (int32_t g = 0; g < sharding->n_groups; g++)
    for (int32_t s = 0; s < sharding->groups[g].n_slots; s++) {
      const ts_unpack_part *from =
          lf->ebc_batch->sections +
          (int64_t)sharding->groups[g].route[s] * n_ranks;
      for (int r = 0; sharding->travels && r < n_ranks; r++)
        n += from[r].n_bags;
      if (!sharding->travels) n += local_section(lf, g, s).n_bags;
    }
  return n;
}

/* Lists of all groups. */
static ts_err list_lots(ts_ebc_batch *fl, ts_part_list *list) {
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++) {
    ts_sharding_batch *lf = &fl->shardings[l];
    list->lf = lf;
    for (int32_t g = 0; g < lf->sharding->n_groups; g++)
      TS_DO(list_group(lf, g, list));
  }
  return TS_OK;
}

/* Lists to a device of memory of its own. */
static ts_err bring(ts_ebc_batch *fl, int64_t n_parts) {
  const ts_kernels *k = fl->ebc->kernels;
  const size_t list = (size_t)n_parts * sizeof *fl->sections;
  TS_DO(k->copy(fl->list_copy.ptr, fl->list.ptr, list));
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    for (int32_t g = 0; g < fl->ebc->shardings[l].n_groups; g++) {
      ts_unpack_args *a = &fl->shardings[l].unpack[g];
      a->parts = (ts_unpack_part *)fl->list_copy.ptr +
                 (a->parts - (ts_unpack_part *)fl->list.ptr);
    }
  return fl->ebc->section_comm ? k->zero(bad_word(fl), sizeof *fl->bad) : TS_OK;
}

/* What kernels have noted, to the host. */
static ts_err notes(ts_ebc_batch *fl) {
  const ts_kernels *k = fl->ebc->kernels;
  fl->to_judge = true;
  if (fl->ebc->section_comm)
    TS_DO(k->copy(fl->bad, bad_word(fl), sizeof *fl->bad));
  return fl->checked ? k->copy(fl->bad + 1, fl->found.ptr, sizeof *fl->bad)
                     : TS_OK;
}

ts_err ts_input_unpack(void *arg, ts_lane *lane) {
  (void)lane;
  ts_ebc_batch *fl = *(ts_ebc_batch **)arg;
  const ts_ebc *ebc = fl->ebc;
  ts_part_list list = {.discrete = ts_device_is_discrete(ebc->device)};
  int64_t n_bags = 0;
  TS_DO(find_sections(fl, fl->sections));
  for (int32_t l = 0; l < ebc->n_shardings; l++) {
    if (ebc->shardings[l].travels) count_split(&fl->shardings[l]);
    TS_DO(ts_sharding_measure(&fl->shardings[l]));
    if (list.discrete) n_bags += count_bags(&fl->shardings[l]);
  }
  TS_DO(ts_input_reserve(fl, ts_input_parts(fl, n_bags)));
  list.next = fl->list.ptr;
  TS_DO(list_lots(fl, &list));
  if (list.discrete)
    TS_DO(bring(fl, list.next - (ts_unpack_part *)fl->list.ptr));
  TS_DO(ts_dynamic_place(fl));
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++)
      TS_DO(ebc->kernels->unpack(&fl->shardings[l].unpack[g]));
  return notes(fl);
}
