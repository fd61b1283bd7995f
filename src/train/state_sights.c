/* state_sights.c - in how many steps ids without a row were met, of dynamic
 * tables that do not admit all: to a checkpoint and back. */
#include "train/state_ids.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "sparse/admit.h"
#include "sparse/index.h"

enum { LINE_WORDS = TS_ADMIT_LINE / 8 }; /* items have no bytes */

static ts_admit *admit_of(const ts_ids *d) {
  return d->tbe ? ts_tbe_ids_of(d->tbe, d->number).admit : NULL;
}

static void lines_path(char path[1024], const ts_table_config *c) {
  snprintf(path, 1024, "meta/sights/%.900s", c->name);
}

ts_err ts_sights_add(ts_ckpt *ckpt, ts_ids *d, const ts_table_config *c) {
  char path[1024];
  ts_ckpt_item *item;
  if (!ts_table_admits(c)) return TS_OK;
  snprintf(path, sizeof path, "dynamic/%.900s/sights", c->name);
  d->sights = ckpt->n_items;
  TS_DO(ts_ckpt_add_item(ckpt, path, TS_I64, TS_INDEX_PARTS,
                         ts_table_sketch_lines(c) * LINE_WORDS, &item));
  item->optional = true;
  return TS_OK;
}

int64_t ts_sights_bytes(const ts_ids *d) {
  const ts_admit *a = admit_of(d);
  if (!a) return 0;
  const ts_admit_spec *spec = ts_admit_spec_of(a);
  return spec->n_parts * spec->lines * TS_ADMIT_LINE;
}

/* As they are after the last step: batches under way may have been counted. */
ts_err ts_sights_write(ts_ckpt *ckpt, const ts_ids *d, uint32_t first,
                       bool copy) {
  ts_admit *a = admit_of(d);
  void *own;
  if (!a) return TS_OK;
  const ts_admit_spec *spec = ts_admit_spec_of(a);
  ts_ckpt_item *item = &ckpt->items[d->sights];
  ts_admit_back(a, first);
  if (!copy)
    return ts_ckpt_add_piece(item, true, false, spec->first_part, spec->n_parts,
                             ts_admit_counts(a));
  TS_DO(ts_ckpt_own(ckpt, (size_t)ts_sights_bytes(d), &own));
  memcpy(own, ts_admit_counts(a), (size_t)ts_sights_bytes(d));
  return ts_ckpt_add_piece(item, true, false, spec->first_part, spec->n_parts,
                           own);
}

ts_err ts_sights_say(ts_ckpt *ckpt, const ts_table_config *c) {
  char path[1024];
  const int64_t lines = ts_table_sketch_lines(c);
  if (!ts_table_admits(c)) return TS_OK;
  lines_path(path, c);
  return ts_ckpt_add_value(ckpt, path, TS_I64, 1, &lines);
}

/* LINES of the value of PATH's file; 0: it has none. */
static ts_err lines_of(int64_t *lines, const ts_ckpt *ckpt,
                       const ts_table_config *c, const char *path) {
  char name[1024];
  lines_path(name, c);
  const ts_ckpt_value *v = ts_ckpt_value_of(ckpt, name);
  const int64_t most = INT64_MAX / (TS_INDEX_PARTS * TS_ADMIT_LINE);
  *lines = 0;
  if (!v) return TS_OK;
  if (v->dtype == TS_I64 && v->n == 1) *lines = *(const int64_t *)v->ptr;
  if (*lines > 0 && *lines <= most) return TS_OK;
  return ts_fail(TS_ERR_CKPT, "%s: the sights of table %s are damaged", path,
                 c->name);
}

ts_err ts_sights_read(ts_ckpt *ckpt, ts_ids *d, const ts_table_config *c,
                      const char *path, bool training) {
  int64_t lines;
  ts_admit *a = training ? admit_of(d) : NULL;
  if (!ts_table_admits(c)) return TS_OK;
  TS_DO(lines_of(&lines, ckpt, c, path));
  ts_ckpt_item *item = &ckpt->items[d->sights];
  item->n_read = 0;
  if (lines) item->cols = lines * LINE_WORDS;
  d->sights_known = lines == ts_table_sketch_lines(c);
  d->sights_differ = lines && !d->sights_known;
  if (!d->sights_known || !a) return TS_OK;
  const ts_admit_spec *spec = ts_admit_spec_of(a);
  return ts_ckpt_add_piece(item, false, true, spec->first_part, spec->n_parts,
                           ts_admit_counts(a));
}

void ts_sights_note(const ts_ids *d, const ts_table_config *c) {
  if (d->sights_differ)
    ts_note("table %s: the checkpoint's counts of ids without a row are of "
            "another size (admit.sketch_mib, or the capacity): they begin anew",
            c->name);
}

void ts_sights_take(const ts_ids *d, const ts_ckpt *ckpt, bool anew) {
  ts_admit *a = admit_of(d);
  if (a && (anew || !d->sights_known || ckpt->items[d->sights].absent))
    ts_admit_clear(a);
}
