/* tier.c - the table of tiers. */
#include "sparse/tier.h"

#include <string.h>

extern const ts_tier_ops ts_tier_resident, ts_tier_cached, ts_tier_host;
extern const ts_tier_ops ts_tier_device_cached, ts_tier_device_host;

enum { KINDS = 3 };

/* On the host, and where memory is apart. */
static const ts_tier_ops *const table[2][KINDS] = {
    {&ts_tier_resident, &ts_tier_cached, &ts_tier_host},
    {&ts_tier_resident, &ts_tier_device_cached, &ts_tier_device_host}};

const ts_tier_ops *ts_tier_find(const char *kind, bool apart) {
  for (int i = 0; i < KINDS; i++)
    if (!strcmp(table[apart][i]->kind, kind)) return table[apart][i];
  return NULL;
}

static const ts_tier_ops *other;

const ts_tier_ops *ts_tier_default(void) {
  return other ? other : &ts_tier_resident;
}

void ts_tier_set_default(const ts_tier_ops *ops) {
  other = ops;
}
