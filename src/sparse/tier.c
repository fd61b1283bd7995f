/* tier.c - the table of tiers. */
#include "sparse/tier.h"

#include <string.h>

extern const ts_tier_ops ts_tier_resident, ts_tier_cached, ts_tier_host;

static const ts_tier_ops *const table[] = {&ts_tier_resident, &ts_tier_cached,
                                           &ts_tier_host};

const ts_tier_ops *ts_tier_find(const char *kind) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i]->kind, kind)) return table[i];
  return NULL;
}

static const ts_tier_ops *other;

const ts_tier_ops *ts_tier_default(void) {
  return other ? other : &ts_tier_resident;
}

void ts_tier_set_default(const ts_tier_ops *ops) {
  other = ops;
}
