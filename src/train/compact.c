/* compact.c - `tessera compact`. */
#include "train/compact.h"

#include <stdio.h>

#include "base/log.h"
#include "io/deck.h"
#include "runtime/trace.h"
#include "runtime/watchdog.h"
#include "train/forward.h"

/* The one that NUMBER others are newer than, as rank 0 sees it. */
static ts_err find(ts_trainer *t, int number, char path[4400]) {
  ts_err err = TS_OK;
  ts_str found = {0};
  *path = 0;
  if (t->rank == 0)
    err = ts_ckpt_newest_seen(&found, t->config->checkpoint.dir, NULL, number);
  if (found.text) snprintf(path, 4400, "%s", found.text);
  ts_str_reset(&found);
  TS_DO(ts_settle(t, err));
  return ts_comm_bcast(t->control, path, 4400, 0);
}

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

static ts_err none_left(const ts_trainer *t, ts_err before,
                        const ts_err_record *fault) {
  if (before == TS_OK)
    return ts_fail(TS_ERR_CKPT, "%s holds no checkpoint",
                   t->config->checkpoint.dir);
  ts_err_put(fault);
  return before;
}

static ts_err compact_newest(ts_trainer *t) {
  char path[4400], tried[4400] = "";
  ts_err err = TS_OK;
  bool broken, again;
  for (ts_ckpt_search s = {0};; s.number++) {
    ts_err_record fault;
    const ts_err before = err;
    ts_err_take(&fault);
    TS_DO(find(t, s.number, path));
    if (!*path) return none_left(t, before, &fault);
    if (before != TS_OK) ts_ckpt_say_back(tried, fault.text, path);
    if (ts_ckpt_is_full(path)) {
      ts_info("nothing to compact: %s is a full checkpoint", path);
      return TS_OK;
    }
    snprintf(tried, sizeof tried, "%s", path);
    err = compact_file(t, path, &broken);
    if (err != TS_ERR_CKPT || !broken) return err;
    TS_DO(ts_ckpt_begin_again(&s, tried, &again, t->control));
    if (again) err = TS_OK;
  }
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
