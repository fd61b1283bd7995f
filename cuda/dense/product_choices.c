/* product_choices.c - a list of algorithms, and its text: a line with the
 * maker, then one for each product, "KEY|none" or "KEY|" and its words. */
#include "cuda/dense/product_choices.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

static ts_choice *list; /* (count), by key */
static int64_t count;
static uint64_t version = 1;

/* The place of KEY in the list, or where it would be. */
static int64_t place_of(const char *key) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (strcmp(list[middle].key, key) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool is_at(int64_t i, const char *key) {
  return i < count && !strcmp(list[i].key, key);
}

const ts_choice *ts_choice_find(const char *key) {
  const int64_t i = place_of(key);
  if (!is_at(i, key)) return NULL;
  list[i].used = true;
  return &list[i];
}

/* More are not kept: layers by token have another size in each batch, and the
 * library proposes the same for one whenever it is asked. */
enum { CHOICES_MOST = 4096 };

static ts_err add(const ts_choice *c, bool used) {
  const int64_t i = place_of(c->key);
  if (!is_at(i, c->key) && count >= CHOICES_MOST) return TS_OK;
  if (!is_at(i, c->key)) {
    const size_t size = sizeof *list, n = (size_t)count;
    TS_DO(ts_mem_resize(&list, n * size, (n + 1) * size, TS_TAG_MISC));
    memmove(list + i + 1, list + i, (n - (size_t)i) * size);
    count++;
  }
  list[i] = *c;
  list[i].used = used;
  return TS_OK;
}

ts_err ts_choice_add(const ts_choice *c) {
  return add(c, true);
}

uint64_t ts_choices_version(void) {
  return version;
}

void ts_choices_reset(void) {
  ts_mem_free(list);
  list = NULL;
  count = 0;
}

/* How many choices of EPILOGUE (-1: of any) have been used.  NONE: only those
 * for which the library has no algorithm; else only the others. */
static int64_t count_used(int epilogue, bool none) {
  int64_t n = 0;
  for (int64_t i = 0; i < count; i++) {
    const char *at = strstr(list[i].key, "epilogue ");
    const int own = at ? atoi(at + strlen("epilogue ")) : -1;
    n += list[i].used && list[i].none == none &&
         (epilogue < 0 || own == epilogue);
  }
  return n;
}

ts_err ts_choices_unfused(ts_str *text, const ts_choice_kind *kinds) {
  const int64_t n = count_used(-1, true), others = count_used(-1, false);
  const char *sep = ": ";
  if (!n) return TS_OK;
  TS_DO(ts_str_append(text,
                      "%" PRId64 " of %" PRId64 " go without what they "
                      "should be fused with, for which there is no algorithm",
                      n, others));
  for (; kinds->name; kinds++) {
    const int64_t of_kind = count_used(kinds->epilogue, true);
    if (!of_kind) continue;
    TS_DO(ts_str_append(text, "%s%s (%" PRId64 ")", sep, kinds->name, of_kind));
    sep = ", ";
  }
  return TS_OK;
}

/* ---- text ---------------------------------------------------------------- */

ts_err ts_choices_print(ts_str *text, const char *maker) {
  if (count) TS_DO(ts_str_append(text, "%s\n", maker));
  for (int64_t i = 0; i < count; i++) {
    const ts_choice *c = &list[i];
    TS_DO(ts_str_append(text, "%s|%s", c->key, c->none ? "none" : ""));
    for (int k = 0; !c->none && k < TS_CHOICE_WORDS; k++)
      TS_DO(ts_str_append(text, "%016" PRIx64, c->algo[k]));
    TS_DO(ts_str_append(text, "\n"));
  }
  return TS_OK;
}

/* The line at *TEXT, which moves to the next one; false: it is damaged. */
static bool read_line(ts_choice *c, const char **text) {
  const size_t n = strcspn(*text, "|\n");
  const char *at = *text + n + 1;
  *c = (ts_choice){.none = !strncmp(at, "none\n", 5)};
  if ((*text)[n] != '|' || n >= sizeof c->key) return false;
  memcpy(c->key, *text, n);
  *text = at + 5;
  if (c->none) return true;
  if (strcspn(at, "\n") != 16 * TS_CHOICE_WORDS) return false;
  for (int k = 0; k < TS_CHOICE_WORDS; k++, at += 16)
    if (strspn(at, "0123456789abcdef") < 16 ||
        sscanf(at, "%16" SCNx64, &c->algo[k]) != 1)
      return false;
  *text = at + 1;
  return *at == '\n';
}

ts_err ts_choices_take(const char *text, const char *maker) {
  ts_choice c;
  const size_t n = strlen(maker);
  const char *from = text + strcspn(text, "\n") + 1;
  version++;
  if (strncmp(text, maker, n) != 0 || text[n] != '\n') {
    ts_note("matrix products: the checkpoint's algorithms are those of %.*s, "
            "not of %s: they are chosen anew",
            (int)strcspn(text, "\n"), text, maker);
    return TS_OK;
  }
  for (const char *at = from; *at;)
    if (!read_line(&c, &at)) {
      ts_note("matrix products: the checkpoint's list of algorithms is "
              "damaged: they are chosen anew");
      return TS_OK;
    }
  while (*from) {
    (void)read_line(&c, &from);
    TS_DO(add(&c, false));
  }
  return TS_OK;
}
