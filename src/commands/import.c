/* import.c - `tessera import DECK --from PATH`: weights of another program as a
 * run's first checkpoint, by what init_from reads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "commands/commands.h"
#include "io/deck.h"
#include "runtime/watchdog.h"
#include "train/run.h"

/* The deck A names, with --from for its init_from. */
static ts_err read_deck(ts_config **c, const ts_args *a) {
  ts_err err = TS_OK;
  ts_str from = {0};
  const char **sets = NULL;
  /* The deck's paths are from where it is, the command's from here. */
  char *path = realpath(a->from, NULL);
  if (!path) TS_THROW(TS_ERR_USAGE, "--from %s: %s", a->from, strerror(errno));
  TS_TRY(ts_str_append(&from, "checkpoint.init_from=\"%s\"", path));
  TS_TRY(ts_mem_many(sets, a->n_sets + 1, MISC));
  for (int i = 0; i < a->n_sets; i++) sets[i] = a->sets[i];
  sets[a->n_sets] = from.text;
  TS_TRY(ts_deck_read_all(c, a->target, sets, a->n_sets + 1));
done:
  free(path);
  ts_mem_free(sets);
  ts_str_reset(&from);
  return err;
}

ts_err ts_cmd_import(const ts_args *a) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  const ts_run_options o = {.import = true, .began = a->began};
  if (!a->target || !a->from || !*a->from || strpbrk(a->from, "\"\\"))
    return ts_fail(TS_ERR_USAGE, "usage: tessera import DECK --from PATH");
  TS_TRY(ts_watch_start());
  TS_TRY(read_deck(&c, a));
  TS_TRY(ts_run_train(c, &o));
done:
  ts_watch_stop();
  ts_deck_destroy(c);
  return err;
}
