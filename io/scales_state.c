/* scales_state.c - what was learnt of numbers as the text that a checkpoint
 * keeps, before its vocabularies: "D MEAN DEVIATION" for each dense column
 * where some are standardised, then "S N NUMBERS NAME" of a column's limits or
 * quantiles, "B N NUMBERS NAME" of a bucketised feature's. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/scales_impl.h"

static char letter_of(const ts_scale *x) {
  return x->kind == TS_SCALE_BUCKETS ? 'B' : 'S';
}

ts_err ts_scales_save(const ts_scales *s, ts_str *text) {
  for (int32_t d = 0; s && s->standardise && d < s->n_dense; d++)
    TS_DO(ts_str_append(text, "D %.17g %.17g\n", s->of[d].mean,
                        s->of[d].deviation));
  for (int32_t i = 0; i < ts_scales_count(s); i++) {
    const ts_scale *x = &s->of[i];
    if (!ts_scale_has_edges(x)) continue;
    TS_DO(ts_str_append(text, "%c %d", letter_of(x), x->n_edges));
    for (int32_t k = 0; k < x->n_edges; k++)
      TS_DO(ts_str_append(text, " %.17g", x->edges[k]));
    TS_DO(ts_str_append(text, " %s\n", x->name));
  }
  return TS_OK;
}

static const char *next_line(const char *p) {
  p += strcspn(p, "\n");
  return p + (*p == '\n');
}

/* "D MEAN DEVIATION"; sscanf would look for the end of the whole text first. */
static bool take_scale(const char *p, ts_scale *x) {
  char *middle, *end;
  if (strncmp(p, "D ", 2) != 0) return false;
  x->mean = strtod(p + 2, &middle);
  x->deviation = strtod(middle, &end);
  return middle != p + 2 && end != middle;
}

/* As many numbers as X can have, rising; where they make bins, no two alike. */
static bool fits(const ts_scale *x, const double *edges, long n) {
  if (x->kind == TS_SCALE_MIN_MAX && n != 0 && n != 2) return false;
  if (x->kind == TS_SCALE_PIECEWISE && n > x->bins + 1) return false;
  for (long k = 0; k < n; k++) {
    if (!isfinite(edges[k]) || (k && edges[k] < edges[k - 1])) return false;
    if (k && x->kind > TS_SCALE_CLIP && edges[k] == edges[k - 1]) return false;
  }
  return true;
}

static ts_err damaged(const char *name) {
  return ts_fail(TS_ERR_CKPT,
                 "the checkpoint's scale of column \"%.80s\" is damaged, or of "
                 "a deck with another transform or other bins",
                 name);
}

/* X's numbers of the line at P; *TAKEN stays where it is another's. */
static ts_err take_edges(ts_scale *x, const char *p, bool *taken) {
  ts_err err = TS_OK;
  double *edges = NULL;
  char *at;
  const size_t n_bytes = strlen(x->name), line = strcspn(p, "\n");
  const long n = *p == letter_of(x) ? strtol(p + 1, &at, 10) : -1;
  if (n < 0 || (size_t)n > line || line < n_bytes + 1) return TS_OK;
  if (memcmp(p + line - n_bytes, x->name, n_bytes) != 0) return TS_OK;
  TS_TRY(ts_mem_many(edges, n, INPUT));
  for (long k = 0; k < n; k++) {
    char *end;
    edges[k] = strtod(at, &end);
    if (end == at || end > p + line) goto done;
    at = end;
  }
  if (*at != ' ' || at + 1 != p + line - n_bytes) goto done;
  *taken = true;
  if (!fits(x, edges, n)) TS_TRY(damaged(x->name));
  TS_TRY(ts_scale_set(x, edges, n));
done:
  ts_mem_free(edges);
  return err;
}

ts_err ts_scales_load(ts_scales *s, const char *p) {
  for (int32_t d = 0; s && s->standardise && d < s->n_dense; d++) {
    if (!take_scale(p, &s->of[d]))
      return ts_fail(TS_ERR_CKPT,
                     "the checkpoint has no scale for numeric column "
                     "%d",
                     d + 1);
    p = next_line(p);
  }
  while (*p == 'D') p = next_line(p);
  for (int32_t i = 0; i < ts_scales_count(s); i++) {
    ts_scale *x = &s->of[i];
    bool taken = !ts_scale_has_edges(x);
    for (const char *q = p; !taken && (*q == 'S' || *q == 'B');
         q = next_line(q))
      TS_DO(take_edges(x, q, &taken));
    if (!taken)
      return ts_fail(TS_ERR_CKPT,
                     "the checkpoint has no scale for column \"%.80s\"",
                     x->name);
  }
  return TS_OK;
}
