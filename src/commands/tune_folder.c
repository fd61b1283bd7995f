/* tune_folder.c - the folder of a search: what it was begun with, a record in
 * each trial's folder, and a table of them all, which is made anew from the
 * records by whoever changes one. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "commands/tune.h"
#include "io/deck.h"

static const char *const words[] = {
#define WORD(name, word) word,
    TS_TRIAL_STATES(WORD)
#undef WORD
};

ts_err ts_tune_path(ts_str *path, const ts_tune *t, int32_t trial,
                    const char *name) {
  return ts_str_append(path, "%s/trial-%04d%s%s", t->folder, trial + 1,
                       *name ? "/" : "", name);
}

/* PATH is the old text or the new one, whenever this process ends. */
static ts_err replace(const char *path, const ts_str *text) {
  ts_err err = TS_OK;
  ts_str fresh = {0};
  TS_TRY(ts_str_append(&fresh, "%s.new", path));
  FILE *f = ts_file_stream(fresh.text, "w");
  if (!f) TS_THROW(TS_ERR_IO, "%s: %s", fresh.text, ts_file_why());
  const size_t n = fwrite(text->text, 1, text->n_bytes, f);
  if (ts_file_close(f) != 0 || n != text->n_bytes ||
      ts_file_rename(fresh.text, path) != 0)
    err = ts_fail_errno(TS_ERR_IO, fresh.text);
done:
  ts_str_reset(&fresh);
  return err;
}

/* ---- what it was begun with ---------------------------------------------- */

static ts_err print_terms(ts_str *s, const ts_tune *t) {
  TS_DO(ts_str_append(s, "seed %llu\nmetric %s\nhalving %s\n",
                      (unsigned long long)t->seed, t->metric,
                      t->args->halving ? "yes" : "no"));
  if (t->args->halving) TS_DO(ts_str_append(s, "rungs %d\n", t->n_rungs));
  return ts_search_print(s, &t->search);
}

/* The first line of which A and B differ. */
static ts_err differ(const ts_tune *t, const char *a, const char *b) {
  for (;;) {
    const size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
    if (n != m || strncmp(a, b, n) != 0)
      return ts_fail(TS_ERR_DECK,
                     "%s was begun with \"%.*s\", not with \"%.*s\": give "
                     "another --out, or what it was begun with",
                     t->folder, (int)n, n ? a : "", (int)m, m ? b : "");
    if (!a[n] || !b[m]) return TS_OK;
    a += n + 1, b += m + 1;
  }
}

/* Figures are of the rungs that the search was begun with, however many trials
 * there are now. */
static void take_rungs(ts_tune *t, const char *terms) {
  const char *at = strstr(terms, "\nhalving yes\nrungs ");
  int n;
  if (t->args->halving && at &&
      sscanf(at, "\nhalving yes\nrungs %d", &n) == 1 && n >= 1 &&
      n <= TS_RUNGS_MAX)
    ts_tune_lay_rungs(t, n);
}

static ts_err check_terms(ts_tune *t, const char *terms, const char *deck) {
  ts_err err = TS_OK;
  ts_str old = {0}, now = {0}, changed = {0};
  TS_TRY(ts_file_read(&old, terms));
  take_rungs(t, old.text ? old.text : "");
  TS_TRY(print_terms(&now, t));
  TS_TRY(differ(t, old.text ? old.text : "", now.text));
  ts_str_reset(&old);
  TS_TRY(ts_file_read(&old, deck));
  TS_TRY(ts_deck_differ(&changed, old.text ? old.text : "", t->config));
  if (changed.n_bytes)
    TS_THROW(TS_ERR_DECK,
             "%s was begun with another deck: %s; give another --out",
             t->folder, changed.text);
done:
  ts_str_reset(&old);
  ts_str_reset(&now);
  ts_str_reset(&changed);
  return err;
}

/* The lock of all that is no trial's own; closing FD gives it back. */
static ts_err lock_folder(int *fd, const ts_tune *t) {
  ts_err err = TS_OK;
  ts_str path = {0};
  TS_TRY(ts_str_append(&path, "%s/tune.lock", t->folder));
  *fd = ts_file_open(path.text, O_CREAT | O_RDWR);
  if (*fd < 0) TS_THROW(TS_ERR_IO, "%s: %s", path.text, ts_file_why());
  while (flock(*fd, LOCK_EX) != 0)
    if (errno != EINTR) TS_TRY(ts_fail_errno(TS_ERR_IO, path.text));
done:
  ts_str_reset(&path);
  return err;
}

ts_err ts_tune_open(ts_tune *t) {
  ts_err err = TS_OK;
  ts_str terms = {0}, deck = {0}, text = {0};
  int lock = -1;
  TS_TRY(ts_mkdirs(t->folder));
  TS_TRY(ts_str_append(&terms, "%s/tune.terms", t->folder));
  TS_TRY(ts_str_append(&deck, "%s/deck.effective", t->folder));
  TS_TRY(lock_folder(&lock, t));
  if (access(terms.text, F_OK) == 0) {
    TS_TRY(check_terms(t, terms.text, deck.text));
    goto done;
  }
  TS_TRY(ts_deck_print(&text, t->config));
  TS_TRY(replace(deck.text, &text));
  ts_str_reset(&text);
  TS_TRY(print_terms(&text, t));
  TS_TRY(replace(terms.text, &text)); /* the last: it says that all is there */
done:
  if (lock >= 0) close(lock);
  ts_str_reset(&terms);
  ts_str_reset(&deck);
  ts_str_reset(&text);
  return err;
}

/* ---- records ------------------------------------------------------------- */

/* "ended 120 0.71 0.73": state, step, and the figure of each rung. */
static bool parse(ts_trial *x, const char *text) {
  char word[16], *end;
  int n = 0;
  long long step;
  *x = (ts_trial){0};
  if (sscanf(text, "%15s %lld%n", word, &step, &n) != 2) return false;
  while (x->state < TS_TRIAL_COUNT && strcmp(word, words[x->state])) x->state++;
  x->step = step;
  for (text += n; x->n_rungs < TS_RUNGS_MAX; text = end) {
    x->metric[x->n_rungs] = strtod(text, &end);
    if (end == text) break;
    x->n_rungs++;
  }
  return x->state < TS_TRIAL_COUNT;
}

ts_err ts_tune_read_one(ts_tune *t, int32_t trial) {
  ts_err err = TS_OK;
  ts_str path = {0}, text = {0};
  t->trial[trial] = (ts_trial){0};
  TS_TRY(ts_tune_path(&path, t, trial, "tune.record"));
  if (access(path.text, F_OK) != 0) goto done;
  TS_TRY(ts_file_read(&text, path.text));
  if (!parse(&t->trial[trial], text.text ? text.text : ""))
    TS_THROW(TS_ERR_DATA,
             "%s is no record of a trial; without it the trial is looked at "
             "anew",
             path.text);
done:
  ts_str_reset(&path);
  ts_str_reset(&text);
  return err;
}

ts_err ts_tune_read(ts_tune *t) {
  for (int32_t i = 0; i < t->n_trials; i++) TS_DO(ts_tune_read_one(t, i));
  return TS_OK;
}

static ts_err print_table(ts_str *s, const ts_tune *t) {
  TS_DO(ts_str_append(s, "trial\tstate\trung\tsteps\t%s", t->metric));
  for (int32_t k = 0; k < t->search.n; k++)
    TS_DO(ts_str_append(s, "\t%s", t->search.key[k].path));
  for (int32_t i = 0; i < t->n_trials; i++) {
    const ts_trial *x = &t->trial[i];
    const bool at_end = x->state == TS_TRIAL_ENDED;
    TS_DO(ts_str_append(s, "\n%d\t%s\t%d\t%lld\t", i + 1, words[x->state],
                        x->n_rungs - at_end, (long long)x->step));
    if (x->n_rungs) TS_DO(ts_str_append(s, "%.9g", ts_trial_metric(x)));
    for (int32_t k = 0; k < t->search.n; k++) {
      TS_DO(ts_str_append(s, "\t"));
      TS_DO(ts_search_draw(s, &t->search, k, t->seed, i));
    }
  }
  return ts_str_append(s, "\n");
}

static ts_err write_record(const ts_tune *t, int32_t trial) {
  ts_err err = TS_OK;
  const ts_trial *x = &t->trial[trial];
  ts_str path = {0}, text = {0};
  TS_TRY(ts_str_append(&text, "%s %lld", words[x->state], (long long)x->step));
  for (int32_t k = 0; k < x->n_rungs; k++)
    TS_TRY(ts_str_append(&text, " %.17g", x->metric[k]));
  TS_TRY(ts_str_append(&text, "\n"));
  TS_TRY(ts_tune_path(&path, t, trial, "tune.record"));
  TS_TRY(replace(path.text, &text));
done:
  ts_str_reset(&path);
  ts_str_reset(&text);
  return err;
}

ts_err ts_tune_write(ts_tune *t, int32_t trial) {
  ts_err err = TS_OK;
  ts_str path = {0}, text = {0};
  int lock = -1;
  TS_TRY(lock_folder(&lock, t));
  TS_TRY(write_record(t, trial));
  TS_TRY(ts_tune_read(t)); /* others may have changed theirs */
  TS_TRY(print_table(&text, t));
  TS_TRY(ts_str_append(&path, "%s/trials.tsv", t->folder));
  TS_TRY(replace(path.text, &text));
done:
  if (lock >= 0) close(lock);
  ts_str_reset(&path);
  ts_str_reset(&text);
  return err;
}

/* ---- trials -------------------------------------------------------------- */

/* A lock of the file as it was opened: the run inherits it, so that a trial
 * whose search was killed is not begun twice; with both gone it is free. */
ts_err ts_tune_lock(int *fd, const ts_tune *t, int32_t trial) {
  ts_err err = TS_OK;
  ts_str path = {0};
  TS_TRY(ts_tune_path(&path, t, trial, ""));
  TS_TRY(ts_mkdirs(path.text));
  TS_TRY(ts_str_append(&path, "/tune.lock"));
  *fd = ts_file_open(path.text, O_CREAT | O_RDWR);
  if (*fd < 0) TS_THROW(TS_ERR_IO, "%s: %s", path.text, ts_file_why());
  if (flock(*fd, LOCK_EX | LOCK_NB) == 0) goto done;
  const int why = errno;
  close(*fd);
  *fd = -1;
  errno = why;
  if (why != EWOULDBLOCK && why != EINTR)
    err = ts_fail_errno(TS_ERR_IO, path.text);
done:
  ts_str_reset(&path);
  return err;
}

/* In quotes where a shell would take SET for more than a word. */
ts_err ts_tune_put_set(ts_str *to, const char *set) {
  const bool plain =
      strspn(set, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                  "0123456789_=.,:+-/") == strlen(set);
  if (plain) return ts_str_append(to, " --set %s", set);
  TS_DO(ts_str_append(to, " --set '"));
  for (const char *p = set; *p; p++)
    TS_DO(ts_str_append(to, *p == '\'' ? "'\\''" : "%c", *p));
  return ts_str_append(to, "'");
}

ts_err ts_tune_sets(ts_str *to, const ts_tune *t, int32_t trial) {
  ts_err err = TS_OK;
  ts_str set = {0};
  for (int32_t k = 0; k < t->search.n; k++) {
    ts_str_reset(&set);
    TS_TRY(ts_str_append(&set, "%s=", t->search.key[k].path));
    TS_TRY(ts_search_draw(&set, &t->search, k, t->seed, trial));
    TS_TRY(ts_tune_put_set(to, set.text));
  }
done:
  ts_str_reset(&set);
  return err;
}
