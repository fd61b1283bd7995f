/* zoo.c - the graphs that come with the program. */
#include "model/zoo.h"

#include <stddef.h>
#include <string.h>

#include "base/kinds.h"
#include "src/model/zoo_decks.h" /* made of input/models by local.mk */

#define ENTRY(name) {#name, zoo_##name},
static const struct { const char *name, *deck; } table[] = {TS_ZOO(ENTRY)};

const char *ts_zoo_name(int k) {
  return k < (int)(sizeof table / sizeof *table) ? table[k].name : NULL;
}

const char *ts_zoo_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, name)) return table[i].deck;
  return NULL;
}
