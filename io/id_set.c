/* id_set.c - a set of ids: open addressing, half of it free at least. */
#include "io/id_set.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

void ts_id_set_reset(ts_id_set *s) {
  ts_mem_free_all(s->id, s->stamp);
  *s = (ts_id_set){0};
}

ts_err ts_id_set_begin(ts_id_set *s, int64_t n) {
  if (!s->id || (uint64_t)n > s->mask / 2) {
    uint64_t room = 64;
    while (room / 2 <= (uint64_t)n) room *= 2;
    ts_mem_free_all(s->id, s->stamp);
    *s = (ts_id_set){.mask = room - 1};
    TS_DO(ts_mem_many(s->id, (int64_t)room, INPUT));
    TS_DO(ts_mem_many(s->stamp, (int64_t)room, INPUT));
  }
  if (!++s->now) {
    memset(s->stamp, 0, (size_t)(s->mask + 1) * sizeof *s->stamp);
    s->now = 1;
  }
  return TS_OK;
}

/* Where ID is, or would be. */
static uint64_t place(const ts_id_set *s, int64_t id) {
  uint64_t at = ts_mix64((uint64_t)id) & s->mask;
  while (s->stamp[at] == s->now && s->id[at] != id) at = (at + 1) & s->mask;
  return at;
}

void ts_id_set_add(ts_id_set *s, int64_t id) {
  const uint64_t at = place(s, id);
  s->id[at] = id;
  s->stamp[at] = s->now;
}

bool ts_id_set_has(const ts_id_set *s, int64_t id) {
  return s->stamp[place(s, id)] == s->now;
}
