/* deck_spare.c - what is written must not take the place of what is read. */
#include <glob.h>

#include "base/file.h"
#include "io/deck.h"

/* Data files may be patterns. */
static bool is_one_of(const char *out, const ts_strings *files) {
  bool found = false;
  for (int32_t i = 0; i < files->n && !found; i++) {
    glob_t g;
    if (glob(files->item[i], 0, NULL, &g) != 0) continue;
    for (size_t k = 0; k < g.gl_pathc && !found; k++)
      found = ts_file_is_same(out, g.gl_pathv[k]);
    globfree(&g);
  }
  return found;
}

/* Files that weights begin with; "": none. */
static bool is_initial(const char *out, const ts_config *c) {
  bool is = ts_file_is_same(out, c->checkpoint.init_from);
  for (int32_t i = 0; i < c->n_tables; i++)
    is |= ts_file_is_same(out, c->tables[i].init_path);
  return is;
}

ts_err ts_deck_spare(const ts_config *c, const char *option, const char *out) {
  if ((c->deck_path && ts_file_is_same(out, c->deck_path)) ||
      is_one_of(out, &c->data.train) || is_one_of(out, &c->data.valid) ||
      is_one_of(out, &c->data.eval) || is_one_of(out, &c->data.items) ||
      is_initial(out, c))
    return ts_fail(TS_ERR_USAGE, "%s %s is a file to read", option, out);
  return TS_OK;
}
