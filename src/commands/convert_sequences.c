/* convert_sequences.c - `tessera convert --sequences EVENTS --out PREFIX`. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "commands/commands.h"
#include "io/sequences_write.h"
#include "runtime/comm.h"
#include "runtime/trace.h"

enum { LEAVE = 2, LEAVE_MAX = 1000, NEGATIVES_MAX = 1000000 };
static const char *const targets[] = {"shift", "masked", "pairs", "users"};

typedef struct ts_sequences_task {
  ts_sequences_of of;
  ts_sequences_form form;
  ts_strings columns, side_columns;
  ts_sides sides;
} ts_sequences_task;

static ts_err take_targets(ts_sequences_form *f, const char *name) {
  for (int k = TS_TARGETS_SHIFT; k <= TS_TARGETS_USERS; k++) {
    f->targets = (ts_sequence_targets)k;
    if (!name || !strcmp(targets[k], name)) return TS_OK;
  }
  return ts_fail(TS_ERR_USAGE,
                 "--targets is one of shift, masked, pairs, users, not %s",
                 name);
}

/* Options that say nothing together. */
static ts_err check_together(const ts_args *a, const ts_sequences_form *f) {
  const bool users = f->targets == TS_TARGETS_USERS;
  const bool whole = f->targets <= TS_TARGETS_MASKED;
  const struct {
    bool wrong;
    const char *option, *why;
  } rules[] = {
      {a->lists && a->columns, "--columns", "is not of --lists"},
      {a->lists && a->split_at, "--split-at", "is not of --lists: no times"},
      {a->lists && a->side, "--side", "is not of --lists"},
      {a->lists && a->times, "--times", "is not of --lists: no times"},
      {a->side && users, "--side", "is not of --targets users"},
      {a->side && !a->columns, "--side", "goes with --columns"},
      {a->times && !whole, "--times", "is of --targets shift and masked"},
      {a->leave && a->split_at, "--leave", "and --split-at exclude each other"},
      {a->test && a->split_at, "--test", "and --split-at exclude each other"},
      {a->test && a->leave, "--test", "and --leave exclude each other"},
      {a->test && a->min_count, "--test", "and --min-count exclude each other"},
      {a->test && users, "--test", "is not of --targets users"},
      {a->leave && users, "--leave", "is not of --targets users"},
      {a->split_at && users, "--split-at", "is not of --targets users"},
      {a->negatives && users, "--negatives", "is not of --targets users"},
      {a->max_length && !whole, "--max-length",
       "is of --targets shift and masked: others have no sequences"},
      {a->negatives && !f->leave && !a->split_at && !a->test, "--negatives",
       "is of what is left out, and --leave 0 leaves nothing"},
      {a->seed && !a->negatives, "--seed", "goes with --negatives"}};
  for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
    if (rules[k].wrong)
      return ts_fail(TS_ERR_USAGE, "%s %s", rules[k].option, rules[k].why);
  return TS_OK;
}

static ts_err take_columns(ts_sequences_task *t, const char *columns,
                           const char *side) {
  TS_DO(ts_args_names(&t->columns, "--columns", columns));
  TS_DO(ts_args_names(&t->side_columns, "--side", side));
  TS_DO(ts_sides_take(&t->sides, t->side_columns.item, t->side_columns.n));
  if (columns && t->columns.n != 2 && t->columns.n != 3)
    return ts_fail(TS_ERR_USAGE,
                   "--columns %s is not USER,ITEM or "
                   "USER,ITEM,TIME",
                   columns);
  t->of.n_columns = t->columns.n;
  for (int32_t k = 0; k < t->columns.n; k++)
    t->of.columns[k] = t->columns.item[k];
  return TS_OK;
}

static ts_err take_options(ts_sequences_task *t, const ts_args *a) {
  int32_t leave, length, least, negatives, seed;
  t->of = (ts_sequences_of){.path = a->sequences,
                            .lists = a->lists,
                            .split_at = a->split_at,
                            .test = a->test,
                            .sides = &t->sides,
                            .times = a->times};
  TS_DO(take_columns(t, a->columns, a->side));
  TS_DO(take_targets(&t->form, a->targets));
  TS_DO(ts_args_number("--leave", a->leave, LEAVE, 0, LEAVE_MAX, &leave));
  TS_DO(
      ts_args_number("--max-length", a->max_length, 0, 1, INT32_MAX, &length));
  TS_DO(ts_args_number("--min-count", a->min_count, 1, 1, INT32_MAX, &least));
  TS_DO(ts_args_number("--negatives", a->negatives, 0, 1, NEGATIVES_MAX,
                       &negatives));
  TS_DO(ts_args_number("--seed", a->seed, 1, 0, INT32_MAX, &seed));
  t->of.min_count = least;
  t->form.prefix = a->out;
  t->form.sides = &t->sides;
  t->form.leave = leave;
  t->form.max_length = length;
  t->form.negatives = negatives;
  t->form.seed = (uint64_t)seed;
  return check_together(a, &t->form);
}

/* No file takes the place of the one that is read. */
static ts_err spare(const ts_sequences_task *t) {
  char path[TS_SEQUENCE_PATH];
  for (int k = 0; k < ts_sequences_files(&t->form); k++) {
    ts_sequences_name(path, &t->form, k, false);
    if (ts_file_is_same(path, t->of.path) ||
        (t->of.test && ts_file_is_same(path, t->of.test)))
      return ts_fail(TS_ERR_USAGE, "--out %s is a file to read", path);
  }
  return TS_OK;
}

static void report_read(const ts_sequences_task *t, const ts_sequences *s,
                        double seconds) {
  char n[3][32], path[TS_SEQUENCE_PATH];
  ts_info("%s%s%s: %s events, %s users, %s items in %.2f s", t->of.path,
          t->of.test ? ", " : "", t->of.test ? t->of.test : "",
          ts_str_count(n[0], s->n_events), ts_str_count(n[1], s->users.n),
          ts_str_count(n[2], s->items.n), seconds);
  for (int k = 0; k < 2 && s->header[k]; k++)
    ts_info("the first line of %s is a header", s->header[k]);
  for (int k = TS_USERS_CSV; k < ts_sequences_files(&t->form); k++) {
    const ts_sequence_ids *ids = ts_sequences_ids(s, k);
    ts_sequences_name(path, &t->form, k, false);
    if (k >= TS_SIDE_CSV && !ids->word)
      ts_info("%s: %s integers", t->sides.feature[k - TS_SIDE_CSV],
              ts_str_count(n[0], ids->n));
    else if (k >= TS_SIDE_CSV)
      ts_info("%s: %s words (%s, line %lld, has the first one): %s has their "
              "numbers",
              t->sides.feature[k - TS_SIDE_CSV], ts_str_count(n[0], ids->n),
              ids->path, (long long)ids->line, path);
    else if (ids->word)
      ts_info("%s are words (%s, line %lld, has the first one): %s has their "
              "numbers",
              k == TS_ITEMS_CSV ? "items" : "users", ids->path,
              (long long)ids->line, path);
  }
}

static void report_written(const ts_sequences_task *t, const ts_sequences *s,
                           const ts_part_counts counts[TS_PARTS],
                           double seconds) {
  char n[3][32], path[TS_SEQUENCE_PATH];
  for (int k = 0; k < TS_PARTS; k++) {
    const ts_part_counts *c = &counts[k];
    if (!c->n_samples) continue;
    ts_sequences_name(path, &t->form, k, false);
    const char *before = ts_sequences_before(&t->form);
    if (before)
      ts_info("%s: %s samples, %s ids of %s, %s of next", path,
              ts_str_count(n[0], c->n_samples), ts_str_count(n[1], c->n_items),
              before, ts_str_count(n[2], c->n_next));
    else
      ts_info("%s: %s samples, %s ids of next", path,
              ts_str_count(n[0], c->n_samples), ts_str_count(n[2], c->n_next));
    if (t->form.targets <= TS_TARGETS_MASKED && c->n_samples < s->users.n)
      ts_info("  %s users have no sample in it",
              ts_str_count(n[0], s->users.n - c->n_samples));
  }
  ts_info("written in %.2f s", seconds);
}

/* Warns of files that an earlier conversion left and this one doesn't write. */
static void warn_of_others(const ts_sequences_task *t, const ts_sequences *s) {
  char path[TS_SEQUENCE_PATH];
  for (int k = 0; k < ts_sequences_files(&t->form); k++) {
    ts_sequences_name(path, &t->form, k, false);
    if (!ts_sequences_has(s, &t->form, k) && access(path, F_OK) == 0)
      ts_warn("%s is not of this conversion, which has no such file: it was "
              "there before",
              path);
  }
}

static ts_err convert(const ts_args *a) {
  ts_err err = TS_OK;
  ts_sequences s = {0};
  ts_sequences_task t = {0};
  ts_part_counts counts[TS_PARTS];
  TS_TRY(take_options(&t, a));
  TS_TRY(spare(&t));
  const double t0 = ts_now();
  TS_TRY(ts_sequences_read(&s, &t.of));
  const double t1 = ts_now();
  report_read(&t, &s, t1 - t0);
  TS_TRY(ts_sequences_write(&s, &t.form, counts));
  report_written(&t, &s, counts, ts_now() - t1);
  warn_of_others(&t, &s);
done:
  ts_sequences_reset(&s);
  ts_args_names_free(&t.columns);
  ts_args_names_free(&t.side_columns);
  return err;
}

ts_err ts_convert_sequences(const ts_args *a) {
  if (a->target || !a->out || a->n_sets || a->format)
    return ts_fail(TS_ERR_USAGE, "usage: tessera convert --sequences EVENTS "
                                 "--out PREFIX, without a deck");
  return ts_mpi_rank() == 0 ? convert(a) : TS_OK;
}
