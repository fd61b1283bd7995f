/* tier.c - the table of tiers. */
#include "sparse/tier.h"

#include <string.h>

extern const ts_tier_ops ts_tier_resident, ts_tier_cached, ts_tier_host;

const ts_tier_ops *ts_tier_find(const char *kind) {
  static const ts_tier_ops *const all[] = {&ts_tier_resident, &ts_tier_cached,
                                           &ts_tier_host};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i]->kind, kind)) return all[i];
  return NULL;
}

static const ts_tier_ops *other;

const ts_tier_ops *ts_tier_default(void) {
  return other ? other : &ts_tier_resident;
}

void ts_tier_set_default(const ts_tier_ops *ops) {
  other = ops;
}
