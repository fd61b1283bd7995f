/* compact.c - `tessera compact`. */
#include "train/compact.h"

#include "base/log.h"
#include "io/deck.h"
#include "runtime/trace.h"
#include "runtime/watchdog.h"
#include "train/forward.h"

static ts_err compact_file(ts_trainer *t, const char *path, bool *broken) {
  int64_t n;
  const double t0 = ts_now();
  TS_DO(ts_ckpt_compact(path, t->config->checkpoint.keep, &n, broken,
                        t->control));
  ts_info("%s and all that it builds on are a full checkpoint now: %lld deltas "
          "in %.2f s",
          path, (long long)n, ts_now() - t0);
  return TS_OK;
}

typedef struct ts_compaction {
  ts_trainer *t;
  ts_err err; /* that is not the file's: none before it is better */
} ts_compaction;

static ts_err compact_one(void *arg, const char *path, bool mirrored) {
  ts_compaction *x = arg;
  bool broken = false;
  (void)mirrored;
  if (ts_ckpt_is_full(path)) {
    ts_info("nothing to compact: %s is a full checkpoint", path);
    return TS_OK;
  }
  const ts_err err = compact_file(x->t, path, &broken);
  if (broken) return err;
  x->err = err;
  return TS_OK;
}

static ts_err compact_newest(ts_trainer *t) {
  ts_str path = {0};
  ts_compaction x = {.t = t};
  const char *dir = t->config->checkpoint.dir;
  ts_err err =
      ts_ckpt_use_newest(&path, dir, NULL, compact_one, &x, t->control);
  if (err == TS_OK) err = x.err;
  if (err == TS_OK && !path.text)
    err = ts_fail(TS_ERR_CKPT, "%s holds no checkpoint", dir);
  ts_str_reset(&path);
  return err;
}

ts_err ts_run_compact(const char *deck, const char *const *sets, int n_sets,
                      const char *checkpoint) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_trainer *t = NULL;
  ts_str best = {0};
  const char *path;
  bool broken;
  TS_TRY(ts_watch_start());
  TS_TRY(ts_deck_read_all(&c, deck, sets, n_sets));
  TS_TRY(ts_trainer_start_on(&t, c, false, TS_BACKEND_HOST));
  TS_TRY(ts_settle(t, ts_forward_checkpoint(&path, &best, c, checkpoint)));
  TS_TRY(path ? compact_file(t, path, &broken) : compact_newest(t));
done:
  ts_settle_own(err);
  ts_str_reset(&best);
  ts_trainer_destroy(t);
  ts_watch_stop();
  ts_deck_destroy(c);
  return err;
}
