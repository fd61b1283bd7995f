/* fully_sharded_groups.c - which layers make a group, what of it this rank
 * keeps, and what is gathered early with it. */
#include <fnmatch.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "dense/fully_sharded.h"

/* Layers in forward order: consecutive parameters of one p->group. */
typedef struct ts_layer {
  const char *name;
  int32_t first, end; /* parameters */
  int32_t entry;      /* of dense.groups, -1 none */
  int32_t group;
} ts_layer;

typedef struct ts_layers {
  ts_layer *item;
  int32_t n;
} ts_layers;

static ts_err find_layers(ts_layers *l, const ts_params *ps) {
  ts_err err = ts_mem_many(l->item, ps->n, DENSE);
  if (err != TS_OK) return err;
  for (int32_t i = 0; i < ps->n; i++) {
    const ts_param *p = ps->item[i];
    ts_layer *last = l->n ? &l->item[l->n - 1] : NULL;
    if (p->late) continue;
    if (last && last->end == i && !strcmp(last->name, p->group))
      last->end++;
    else
      l->item[l->n++] = (ts_layer){p->group, i, i + 1, -1, -1};
  }
  return TS_OK;
}

static ts_err no_layer(const ts_layers *l, const char *key, const char *name) {
  ts_err err = TS_OK;
  ts_str known = {0};
  for (int32_t i = 0; i < l->n; i++)
    TS_TRY(ts_str_append(&known, "%s%s", i ? ", " : "", l->item[i].name));
  TS_THROW(TS_ERR_DECK, "%s: no layer \"%s\"; there are: %s", key, name,
           known.text ? known.text : "none");
done:
  ts_str_reset(&known);
  return err;
}

/* Finds the entry of dense.groups that each layer is in. */
static ts_err match_entries(ts_layers *l, const ts_config *c) {
  for (int32_t e = 0; e < c->dense.n_groups; e++) {
    const ts_strings *names = &c->dense.groups[e].layers;
    for (int32_t k = 0; k < names->n; k++) {
      int n = 0;
      for (int32_t i = 0; i < l->n; i++) {
        ts_layer *layer = &l->item[i];
        if (fnmatch(names->item[k], layer->name, 0) != 0) continue;
        if (layer->entry >= 0 && layer->entry != e)
          return ts_fail(TS_ERR_DECK, "dense.groups: %s is in two groups",
                         layer->name);
        layer->entry = e;
        n++;
      }
      if (!n) return no_layer(l, "dense.groups", names->item[k]);
    }
  }
  return TS_OK;
}

static ts_err number_groups(ts_layers *l, int32_t *n_groups) {
  *n_groups = 0;
  for (int32_t i = 0; i < l->n; i++) {
    ts_layer *layer = &l->item[i];
    const ts_layer *before = i ? &l->item[i - 1] : NULL;
    if (before && layer->entry >= 0 && layer->entry == before->entry) {
      layer->group = before->group;
      continue;
    }
    for (int32_t k = 0; layer->entry >= 0 && k < i; k++)
      if (l->item[k].entry == layer->entry)
        return ts_fail(TS_ERR_DECK,
                       "dense.groups: %s and %s are not neighbours: a group is "
                       "gathered as a whole",
                       l->item[k].name, layer->name);
    layer->group = (*n_groups)++;
  }
  return TS_OK;
}

/* ---- shards -------------------------------------------------------------- */

static void place(ts_fully_sharded *d, ts_fully_sharded_group *g, ts_param *p) {
  ts_fully_sharded_part *part = &g->parts[g->n_parts++];
  *part = (ts_fully_sharded_part){.param = p,
                                  .width = p->cols ? p->cols : 1,
                                  .shard_at = g->shard_n,
                                  .flat_at = g->flat_n,
                                  .whole_at = g->whole_n,
                                  .half = p->half && g != &d->late &&
                                          d->n_ranks > 1};
  part->chunk =
      g == &d->late ? p->rows : (p->rows + d->n_ranks - 1) / d->n_ranks;
  part->row0 = g == &d->late ? 0 : part->chunk * d->rank;
  if (part->row0 > p->rows) part->row0 = p->rows;
  part->n_rows = p->rows - part->row0;
  if (part->n_rows > part->chunk) part->n_rows = part->chunk;
  const int64_t n = part->chunk * part->width;
  g->shard_n += n;
  g->flat_n += part->half ? (n + 7) / 8 * 4 : n; /* 16 bytes */
  g->half |= part->half;
  g->whole_n += ts_param_room(p->n);
}

static ts_err place_all(ts_fully_sharded *d, const ts_layers *l) {
  for (int32_t i = 0; i < l->n; i++) {
    const ts_layer *layer = &l->item[i];
    ts_fully_sharded_group *g = &d->groups[layer->group];
    const int32_t n = g->n_parts, more = layer->end - layer->first;
    if (!n) *g = (ts_fully_sharded_group){.name = layer->name, .slot = -1};
    TS_DO(ts_mem_resize(&g->parts, (size_t)n * sizeof *g->parts,
                        (size_t)(n + more) * sizeof *g->parts, TS_TAG_DENSE));
    for (int32_t k = layer->first; k < layer->end; k++) {
      d->group_of[d->params->item[k]->index] = layer->group;
      place(d, g, d->params->item[k]);
    }
    g->n_layers++;
  }
  TS_DO(ts_mem_many(d->late.parts, d->params->n, DENSE));
  d->late.name = "late";
  for (int32_t k = 0; k < d->params->n; k++)
    if (d->params->item[k]->late) {
      d->group_of[d->params->item[k]->index] = -1;
      place(d, &d->late, d->params->item[k]);
      d->late.parts[d->late.n_parts - 1].w = d->params->item[k]->w;
    }
  return TS_OK;
}

/* This rank's rows begin as drawn: nobody has the whole. */
static ts_err make_shards(ts_fully_sharded *d) {
  ts_err err = TS_OK;
  int64_t n = 0;
  ts_staging s = {0};
  for (int32_t i = 0; i < d->n_groups; i++) n += d->groups[i].shard_n;
  TS_TRY(
      ts_fully_sharded_take(d, &d->shards, n, sizeof *d->shards, TS_TAG_DENSE));
  TS_TRY(ts_staging_create(&s, d->base.spec.device));
  n = 0;
  for (int32_t i = 0; i < d->n_groups; i++) {
    ts_fully_sharded_group *g = &d->groups[i];
    g->shard = d->shards + n;
    n += g->shard_n;
    for (int32_t k = 0; k < g->n_parts; k++) {
      ts_fully_sharded_part *part = &g->parts[k];
      part->w = g->shard + part->shard_at;
      TS_TRY(ts_param_init_put(part->param, &s, part->w,
                               part->row0 * part->width,
                               part->n_rows * part->width));
    }
  }
done:
  ts_staging_reset(&s);
  return err;
}

/* Memory for what a block of ranks, or each rank, keeps from forward to
 * backward. */
static ts_err make_kept(ts_fully_sharded *d) {
  if (!d->base.spec.training || (d->block == d->n_ranks && !d->keeps_whole))
    return TS_OK;
  for (int32_t i = 0; i < d->n_groups; i++) {
    ts_fully_sharded_group *g = &d->groups[i];
    const int64_t n =
        d->keeps_whole ? g->whole_n : g->flat_n * (d->n_ranks / d->block);
    TS_DO(ts_fully_sharded_take(d, &g->kept, n, sizeof *g->kept, TS_TAG_DENSE));
  }
  return TS_OK;
}

/* ---- lists --------------------------------------------------------------- */

static ts_err group_named(int32_t *group, const ts_layers *l, const char *key,
                          const char *name) {
  for (int32_t i = 0; i < l->n; i++)
    if (!strcmp(l->item[i].name, name)) {
      *group = l->item[i].group;
      return TS_OK;
    }
  return no_layer(l, key, name);
}

/* Where a layer has two entries the last one counts, so an empty entry restores
 * the default. */
static ts_err take_list(ts_fully_sharded *d, const ts_layers *l,
                        const char *key, ts_pass pass,
                        const ts_prefetch_config *entry) {
  int32_t at = -1;
  TS_DO(group_named(&at, l, key, entry->layer));
  ts_fully_sharded_group *g = &d->groups[at];
  ts_mem_free(g->list[pass]);
  g->list[pass] = NULL;
  g->n_list[pass] = 0;
  TS_DO(ts_mem_many(g->list[pass], entry->prefetch.n, DENSE));
  for (int32_t k = 0; k < entry->prefetch.n; k++)
    TS_DO(group_named(&g->list[pass][g->n_list[pass]++], l, key,
                      entry->prefetch.item[k]));
  return TS_OK;
}

static ts_err take_lists(ts_fully_sharded *d, const ts_layers *l) {
  const ts_config *c = d->config;
  for (int32_t i = 0; i < c->dense.n_forward_prefetch; i++)
    TS_DO(take_list(d, l, "dense.forward_prefetch", TS_FORWARD,
                    &c->dense.forward_prefetch[i]));
  for (int32_t i = 0; i < c->dense.n_backward_prefetch; i++)
    TS_DO(take_list(d, l, "dense.backward_prefetch", TS_BACKWARD,
                    &c->dense.backward_prefetch[i]));
  return TS_OK;
}

ts_err ts_fully_sharded_groups_create(ts_fully_sharded *d) {
  ts_err err = TS_OK;
  ts_layers l = {0};
  TS_TRY(find_layers(&l, d->params));
  TS_TRY(match_entries(&l, d->config));
  TS_TRY(number_groups(&l, &d->n_groups));
  TS_TRY(ts_mem_many(d->groups, d->n_groups, DENSE));
  TS_TRY(ts_mem_many(d->group_of, d->params->n, DENSE));
  TS_TRY(place_all(d, &l));
  TS_TRY(take_lists(d, &l));
  TS_TRY(make_shards(d));
  TS_TRY(make_kept(d));
done:
  ts_mem_free(l.item);
  return err;
}

void ts_fully_sharded_groups_destroy(ts_fully_sharded *d) {
  for (int32_t i = 0; d->groups && i < d->n_groups; i++) {
    ts_fully_sharded_group *g = &d->groups[i];
    for (int32_t k = 0; k < g->n_parts; k++)
      if (d->shards) g->parts[k].param->w = NULL;
    ts_mem_free(g->parts);
    ts_mem_free(g->list[TS_FORWARD]);
    ts_mem_free(g->list[TS_BACKWARD]);
  }
  ts_mem_free(d->late.parts);
  ts_mem_free(d->groups);
  ts_mem_free(d->group_of);
}
