/* saves.c - the checkpoints of a run. */
#include "train/saves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "runtime/trace.h"
#include "train/state_tables.h"

/* ---- the buffer ---------------------------------------------------------- */

static void say_blocking(const char *why) {
  ts_note("training waits until a checkpoint is written: %s", why);
}

static ts_err prepare(ts_saves *s, const ts_run_state *state,
                      ts_source *train) {
  ts_err err = TS_OK;
  ts_ckpt c = {0};
  int64_t needed, room;
  const char *why;
  char a[32], b[32];
  if (s->t->config->run.serial_lanes) {
    say_blocking("with run.lanes = \"serial\" nothing runs beside them");
    return TS_OK;
  }
  TS_TRY(ts_trainer_describe(s->t, state, train, &c));
  TS_TRY(ts_ckpt_writer_prepare(s->writer, &c, &needed, &room, &why));
  ts_str_bytes(a, room);
  ts_str_bytes(b, needed);
  if (why)
    say_blocking(why);
  else if (room < needed)
    ts_note("checkpoints: of %s there is room for a copy of %s "
            "(checkpoint.buffer_mib, or half of the free memory); a step waits "
            "while the rest is written",
            b, a);
  else
    ts_info("checkpoints are written while training goes on, from a copy of %s",
            a);
done:
  ts_ckpt_reset(&c);
  return err;
}

ts_err ts_saves_create(ts_saves *s, ts_trainer *t, const ts_run_state *state,
                       ts_source *train) {
  const ts_config *c = t->config;
  *s = (ts_saves){.t = t, .best = -1, .written = -1, .point = {.step = -1}};
  if (!c->checkpoint.dir) return TS_OK;
  const bool beside = c->checkpoint.async && (c->checkpoint.every > 0 ||
                                              c->checkpoint.delta_every > 0);
  const ts_ckpt_writer_options o = {.dir = c->checkpoint.dir,
                                    .io = c->checkpoint.io,
                                    .mirror = ts_mirror_of(c),
                                    .keep = c->checkpoint.keep,
                                    .mirror_every = c->checkpoint.mirror_every,
                                    .beside = beside && !c->run.serial_lanes,
                                    .buffer_bytes = c->checkpoint.buffer_mib
                                                    << 20,
                                    .node_size = ts_world_node_size(t->world),
                                    .n_threads = t->n_threads};
  TS_DO(ts_ckpt_writer_create(&s->writer, &o, t->world));
  TS_DO(ts_settle(t, ts_state_track(t)));
  if (beside) TS_DO(prepare(s, state, train));
  return TS_OK;
}

void ts_saves_destroy(ts_saves *s) {
  ts_ckpt_writer_destroy(s->writer);
  s->writer = NULL;
}

/* ---- what is said -------------------------------------------------------- */

static double mb_per_s(double bytes, double seconds) {
  return seconds > 0 ? bytes / seconds / 1e6 : 0;
}

static void say_saved(const ts_save_figures *f) {
  char bytes[32], what[128] = "checkpoint";
  ts_str_bytes(bytes, f->bytes);
  if (f->base >= 0)
    snprintf(what, sizeof what, "delta on step %lld, %lld of %lld rows,",
             (long long)f->base, (long long)f->n_rows, (long long)f->of_rows);
  if (f->beside)
    ts_info("%s of step %lld: training waited %.1f ms, and went on "
            "while %s were written in %.2f s, %.0f MB/s",
            what, (long long)f->step, 1e3 * f->stall_s, bytes, f->write_s,
            mb_per_s((double)f->bytes, f->write_s));
  else
    ts_info("%s of step %lld written in %.2f s, %s, %.0f MB/s", what,
            (long long)f->step, f->stall_s, bytes,
            mb_per_s((double)f->bytes, f->write_s));
}

static void say_mirror(ts_saves *s, const ts_ckpt_saved *saved) {
  s->n_mirrored += saved->mirrored > 0;
  s->n_unmirrored += saved->mirrored < 0;
  if (saved->mirrored < 0)
    ts_warn("the checkpoint of step %lld is not in the mirror: %s",
            (long long)saved->step, saved->mirror.text);
}

/* ---- the best one -------------------------------------------------------- */

static ts_err name_best(const ts_saves *s) {
  char path[4200];
  const char *dir = s->t->config->checkpoint.dir;
  if (s->t->rank != 0) return TS_OK;
  snprintf(path, sizeof path, "%.4000s/step-%08lld.h5", dir,
           (long long)s->written);
  return ts_ckpt_also(path, dir, "best.h5");
}

/* Where the newest that was written is the best one's. */
static void look_best(ts_saves *s) {
  if (s->best < 0 || s->best != s->written) return;
  s->best = -1;
  if (name_best(s) == TS_OK) return;
  ts_warn("best.h5 is not that of step %lld: %s", (long long)s->written,
          ts_err_message());
  ts_err_clear();
}

ts_err ts_saves_best(ts_saves *s) {
  if (!s->writer) return TS_OK;
  s->best = s->t->step;
  look_best(s);
  return TS_OK;
}

/* It has ended well. */
static void take(ts_saves *s, const ts_ckpt_saved *saved) {
  ts_save_figures *f = &s->now;
  f->write_s = saved->write_s;
  f->beside = saved->beside;
  s->n++;
  s->n_beside += f->beside;
  s->stall_s += f->stall_s;
  s->most_stall_s = fmax(s->most_stall_s, f->stall_s);
  s->write_s += f->write_s;
  s->bytes += (double)f->bytes;
  say_saved(f);
  say_mirror(s, saved);
  s->line = *f;
  s->has_line = true;
  s->point = saved->point;
  if (saved->kind != TS_CKPT_FULL) return;
  s->written = saved->step;
  look_best(s);
}

ts_err ts_saves_line(ts_saves *s, ts_metrics_log *log) {
  static const char *const names[] = {"stall_ms",     "bytes",  "write_ms",
                                      "mbytes_per_s", "beside", "base",
                                      "rows"};
  const ts_save_figures *f = &s->line;
  if (!s->has_line) return TS_OK;
  s->has_line = false;
  const bool delta = f->base >= 0;
  const double v[] = {1e3 * f->stall_s,
                      (double)f->bytes,
                      1e3 * f->write_s,
                      mb_per_s((double)f->bytes, f->write_s),
                      f->beside,
                      delta ? (double)f->base : NAN,
                      delta ? (double)f->n_rows : NAN};
  return ts_metrics_log_line(log, &(ts_metrics_line){.step = f->step,
                                                     .event = "checkpoint",
                                                     .n = 7,
                                                     .names = names,
                                                     .values = v});
}

void ts_saves_report(const ts_saves *s) {
  char bytes[32];
  if (!s->n) return;
  const double n = (double)s->n;
  ts_info(" ");
  ts_info("checkpoints: %lld, %lld of them written while training went on, %s "
          "each at %.0f MB/s; training waited %.1f ms for each, %.1f at most",
          (long long)s->n, (long long)s->n_beside,
          ts_str_bytes(bytes, (int64_t)(s->bytes / n)),
          mb_per_s(s->bytes, s->write_s), 1e3 * s->stall_s / n,
          1e3 * s->most_stall_s);
  if (s->n_mirrored + s->n_unmirrored)
    ts_info("mirror: %lld checkpoints copied, %lld failed",
            (long long)s->n_mirrored, (long long)s->n_unmirrored);
}

/* ---- saving -------------------------------------------------------------- */

static ts_err finish(ts_saves *s) {
  ts_ckpt_saved saved;
  const ts_err err = ts_ckpt_writer_finish(s->writer, &saved);
  if (err == TS_OK && saved.step >= 0) take(s, &saved);
  return err;
}

ts_err ts_saves_finish(ts_saves *s, ts_metrics_log *log) {
  ts_err err = TS_OK;
  if (!s->writer) return TS_OK;
  const ts_section before = ts_watch_enter(TS_SECTION_SAVE);
  TS_TRY(finish(s));
  TS_TRY(ts_settle(s->t, ts_saves_line(s, log)));
done:
  ts_watch_enter(before);
  return err;
}

void ts_saves_look(ts_saves *s) {
  if (s->writer && ts_ckpt_writer_idle(s->writer) &&
      !ts_ckpt_writer_failed(s->writer))
    (void)finish(s);
}

bool ts_saves_failed(const ts_saves *s) {
  return s->writer && ts_ckpt_writer_failed(s->writer);
}

/* One save at a time. */
static ts_err finish_before(ts_saves *s, ts_metrics_log *log, double began) {
  const bool late = !ts_ckpt_writer_idle(s->writer);
  TS_DO(ts_saves_finish(s, log));
  if (late && !s->noted) {
    ts_note("the checkpoint of step %lld waited %.2f s for the one before: "
            "they come faster than they are written; with a larger "
            "checkpoint.%s steps need not wait",
            (long long)s->t->step, ts_now() - began,
            s->t->config->checkpoint.delta_every ? "delta_every" : "every");
    s->noted = true;
  }
  return TS_OK;
}

/* So many files are open at once when the last one is read. */
enum { MOST_DELTAS = 200 };

static ts_ckpt_kind kind_of(const ts_saves *s, int how) {
  const ts_config *c = s->t->config;
  if (!(how & TS_SAVE_DELTA) || !c->checkpoint.delta_every ||
      s->point.step < 0 || s->point.step >= s->t->step ||
      s->point.number >= MOST_DELTAS)
    return TS_CKPT_FULL;
  return c->checkpoint.delta_state ? TS_CKPT_DELTA : TS_CKPT_WEIGHTS;
}

/* How many rows the delta C has, and the step that it builds on. */
static void count_rows(ts_saves *s, const ts_ckpt *c) {
  s->now.base = c->parent.step;
  for (int32_t i = 0; i < c->n_items; i++) {
    const ts_ckpt_item *item = &c->items[i];
    if (!strncmp(item->name, "delta/rows/", 11)) s->now.n_rows += item->rows;
    if (!strncmp(item->name, "dynamic/", 8) && ts_str_ends(item->name, "/ids"))
      s->now.of_rows += item->rows;
  }
  for (int32_t i = 0; i < s->t->config->n_tables; i++)
    if (!ts_table_is_dynamic(&s->t->config->tables[i]))
      s->now.of_rows += s->t->config->tables[i].rows;
}

static ts_err begin(ts_saves *s, const ts_run_state *state, ts_source *train,
                    int how, bool *full) {
  ts_err err = TS_OK;
  ts_ckpt c = {.kind = kind_of(s, how),
               .parent = s->point,
               .room = ts_ckpt_writer_allows(s->writer)};
  const ts_section before = ts_watch_enter(TS_SECTION_SAVE);
  /* Rank 0 alone knows the seal of what it has written. */
  if (c.kind != TS_CKPT_FULL)
    TS_TRY(ts_comm_bcast(s->t->control, &c.parent, sizeof c.parent, 0));
  TS_TRY(ts_trainer_describe(s->t, state, train, &c));
  *full = c.kind == TS_CKPT_FULL;
  s->now = (ts_save_figures){.step = s->t->step, .base = -1};
  if (!*full) count_rows(s, &c);
  s->now.bytes = ts_ckpt_own_bytes(&c, s->t->rank);
  TS_TRY(ts_comm_sum_i64(s->t->control, &s->now.bytes, 1));
  TS_TRY(ts_ckpt_writer_save(s->writer, &c, how & TS_SAVE_WAIT,
                             how & TS_SAVE_LAST));
done:
  ts_watch_enter(before);
  ts_ckpt_reset(&c);
  return err;
}

ts_err ts_saves_save(ts_saves *s, const ts_run_state *state, ts_source *train,
                     int how, bool *full, ts_metrics_log *log) {
  ts_err err = TS_OK;
  const double t0 = ts_now();
  *full = true;
  if (!s->writer) return TS_OK;
  TS_TRY(finish_before(s, log, t0));
  TS_TRY(begin(s, state, train, how, full));
  s->now.stall_s = ts_now() - t0;
  if (how & TS_SAVE_WAIT) TS_TRY(ts_saves_finish(s, log));
done:
  ts_timer_add("checkpoint", ts_now() - t0);
  return err;
}

static bool is_own(const ts_config *c, const char *path) {
  const size_t n = strlen(c->checkpoint.dir);
  return !strncmp(path, c->checkpoint.dir, n) && path[n] == '/' &&
         !strchr(path + n + 1, '/');
}

/* Rank 0: what PATH is as a parent, step -1 where it can be none, and whether
 * the mirror has the same. */
static void find_point(const ts_config *c, const char *path,
                       ts_ckpt_point *point, int64_t *mirrored) {
  char there[4400];
  ts_ckpt_point other;
  if (ts_ckpt_point_of(point, path) != TS_OK || point->seal < 0) {
    ts_err_clear();
    point->step = -1;
    return;
  }
  if (!ts_mirror_of(c)) return;
  snprintf(there, sizeof there, "%.4000s%s", ts_mirror_of(c),
           strrchr(path, '/'));
  *mirrored =
      ts_ckpt_point_of(&other, there) == TS_OK && other.seal == point->seal;
  ts_err_clear();
}

ts_err ts_saves_loaded(ts_saves *s, const char *path, bool lacks) {
  const ts_config *c = s->t->config;
  ts_ckpt_point point = {.step = -1};
  int64_t mirrored = 0;
  if (!s->writer) return TS_OK;
  s->written = -1;
  if (path && is_own(c, path) && ts_ckpt_is_full(path)) s->written = s->t->step;
  if (s->t->rank == 0 && c->checkpoint.delta_every && path && !lacks &&
      is_own(c, path))
    find_point(c, path, &point, &mirrored);
  TS_DO(ts_comm_bcast(s->t->control, &point, sizeof point, 0));
  TS_DO(ts_comm_bcast(s->t->control, &mirrored, sizeof mirrored, 0));
  s->point = point;
  /* A chain goes on where it is; the mirror would miss the rest of it. */
  if (ts_mirror_of(c) && !mirrored) s->point.step = -1;
  ts_ckpt_writer_in_mirror(s->writer, mirrored);
  return TS_OK;
}
