/* init.c - `tessera init FILE.csv [EVAL.csv] --label COLUMN`: a first deck for
 * a file, by what its columns look like, with the reasons in it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "commands/init.h"

/* A tenth of fewer lines says nothing. */
enum { LINES_TO_SPLIT = 100 };
enum { PAIRED_MAX = 256 };
/* Columns whose reasons are written: decks, too, have an end. */
enum { LISTED_MAX = 1000 };

static const char *const use_names[] = {"label", "dense",    "words",
                                        "lists", "left out", "left out"};

/* ---- the deck ------------------------------------------------------------ */

static ts_err put_quoted(ts_str *s, const char *text) {
  TS_DO(ts_str_append(s, "\""));
  for (; *text; text++)
    TS_DO(ts_str_append(s, "%s%c", strchr("\"\\", *text) ? "\\" : "", *text));
  return ts_str_append(s, "\"");
}

/* 0 and 1 say it themselves; of two words the one that means no, or the more
 * frequent, is 0; of numbers the larger half is 1. */
static ts_err put_label(ts_str *s, const ts_column *c, int64_t n_lines) {
  static const char *const no[] = {"no", "false",    "f",
                                   "n",  "negative", "<=50K"};
  int is = c->n_word[1] <= c->n_word[0];
  TS_DO(ts_str_append(s, "label = "));
  TS_DO(put_quoted(s, c->name));
  TS_DO(ts_str_append(s, ";"));
  if (c->n_numbers == n_lines && c->min == 0 && c->max == 1 && c->n_values == 2)
    return TS_OK;
  if (c->n_numbers == n_lines)
    return ts_str_append(s, " label_threshold = %.17g; # from here on it is 1",
                         c->n_values == 2 ? c->max : (c->min + c->max) / 2);
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
      if (!strcasecmp(c->word[k], no[i])) is = !k;
  TS_DO(ts_str_append(s, " label_true = ["));
  TS_DO(put_quoted(s, c->word[is]));
  return ts_str_append(s, "]; # the other is 0");
}

static ts_err put_path(ts_str *s, const char *key, const char *path) {
  char *full = realpath(path, NULL);
  if (!full) return ts_fail_errno(TS_ERR_DATA, path);
  ts_err err = ts_str_append(s, "  %s = ", key);
  if (err == TS_OK) err = put_quoted(s, full);
  if (err == TS_OK) err = ts_str_append(s, ";\n");
  free(full);
  return err;
}

/* KEY = the columns of USE; nothing where there are none. */
static ts_err put_names(ts_str *s, const ts_init *x, const char *key,
                        ts_use use) {
  bool any = false;
  for (int32_t i = 0; i < x->look.n_columns; i++) {
    if (x->choices[i].use != use) continue;
    TS_DO(any ? ts_str_append(s, ", ") : ts_str_append(s, "    %s = [", key));
    TS_DO(put_quoted(s, x->look.columns[i].name));
    any = true;
  }
  return any ? ts_str_append(s, "];\n") : TS_OK;
}

static ts_err put_columns(ts_str *s, const ts_init *x) {
  bool negative = false;
  for (int32_t i = 0; i < x->look.n_columns; i++)
    negative |= x->choices[i].use == AS_DENSE && x->look.columns[i].min < 0;
  TS_DO(put_names(s, x, "dense", AS_DENSE));
  if (x->n_dense)
    TS_DO(ts_str_append(s, "    dense_transform = \"%sstandardise\";\n",
                        negative ? "" : "log1p_"));
  if (x->n_lists) TS_DO(ts_str_append(s, "    list_separator = \"|\";\n"));
  TS_DO(put_names(s, x, "lists", AS_LISTS));
  return ts_str_append(s, "    encoding = \"vocabulary\"; # a row for each "
                          "word; row 0 for words that come later\n");
}

/* What is not trained on, for a figure that can be trusted; with a time it is
 * what came last, as it will be in use. */
static ts_err put_split(ts_str *s, const ts_init *x) {
  TS_DO(ts_str_append(s, "  split = { valid = 0.1; by = \"%s\";",
                      x->time ? "time" : "hash"));
  if (x->time) {
    TS_DO(ts_str_append(s, " key = "));
    TS_DO(put_quoted(s, x->time));
    TS_DO(ts_str_append(s, ";"));
  }
  TS_DO(ts_str_append(s, " }; # a tenth is for validation\n"));
  if (ts_str_ends(x->args->target, ".gz"))
    return ts_str_append(s, "  # shuffle = \"full\"; # of unpacked files\n");
  return ts_str_append(s, "  shuffle = \"full\";\n");
}

static ts_err put_data(ts_str *s, const ts_init *x, int64_t batch) {
  const ts_csv_survey *l = &x->look;
  TS_DO(ts_str_append(s, "data = {\n"));
  TS_DO(put_path(s, "train", x->args->target));
  if (x->args->n_more) TS_DO(put_path(s, "eval", x->args->more[0]));
  if (l->n_lines >= LINES_TO_SPLIT) TS_DO(put_split(s, x));
  if (!x->args->n_more)
    TS_DO(ts_str_append(s, "  # eval = \"test.csv\"; # looked at once, at the "
                           "end\n"));
  TS_DO(ts_str_append(s,
                      "  format = \"csv\"; global_batch = %lld;\n"
                      "  csv = {\n    ",
                      (long long)batch));
  for (int32_t i = 0; i < l->n_columns; i++)
    if (x->choices[i].use == AS_LABEL)
      TS_DO(put_label(s, &l->columns[i], l->n_lines));
  if (l->separator == '\t')
    TS_DO(ts_str_append(s, "\n    separator = \"tab\";"));
  else
    TS_DO(ts_str_append(s, "\n    separator = \"%c\";", l->separator));
  if (*l->missing) TS_DO(ts_str_append(s, " missing = \"%s\";", l->missing));
  TS_DO(ts_str_append(s, "\n"));
  TS_DO(put_columns(s, x));
  return ts_str_append(s, "  };\n};\n");
}

/* Names of tables are those of datasets: plain ones, else a number. */
static ts_err put_table(ts_str *s, const char *column, int32_t number) {
  bool plain = *column;
  for (const char *p = column; *p; p++)
    plain &= isalnum((unsigned char)*p) || *p == '_' || *p == '-';
  TS_DO(ts_str_append(s, "  { name = "));
  TS_DO(plain ? put_quoted(s, column) : ts_str_append(s, "\"t%d\"", number));
  TS_DO(ts_str_append(s, "; features = ["));
  TS_DO(put_quoted(s, column));
  return ts_str_append(s, "]; }");
}

static ts_err put_tables(ts_str *s, const ts_init *x) {
  bool any = false;
  TS_DO(ts_str_append(s, "table_defaults = { dim = 16; rows = \"auto\"; "
                         "# as many as there are words\n  optimizer = { kind = "
                         "\"adam\"; lr = 2e-3; }; };\ntables = (\n"));
  for (int32_t i = 0; i < x->look.n_columns; i++) {
    if (!ts_init_is_looked_up(x, i)) continue;
    TS_DO(ts_str_append(s, any ? ",\n" : ""));
    TS_DO(put_table(s, x->look.columns[i].name, i));
    any = true;
  }
  return ts_str_append(s, "\n);\n");
}

static ts_err put_model(ts_str *s, const ts_init *x) {
  /* One feature alone makes no pair, and very many make too many. */
  const int32_t n = x->n_words + (x->n_dense > 0);
  const bool pairs = n > 1 && n <= PAIRED_MAX;
  TS_DO(ts_str_append(s, "model = { kind = \"%s\"; dense_features = %d;",
                      pairs ? "dlrm" : "sparsenn", x->n_dense));
  if (x->n_dense) TS_DO(ts_str_append(s, " dense_arch = [64, 16];"));
  return ts_str_append(s, "\n  over_arch = [64, 32, 1]; };\n"
                          "optimizer = { kind = \"adam\"; lr = 2e-3; };\n");
}

static ts_err put_reasons(ts_str *s, const ts_init *x) {
  const ts_csv_survey *l = &x->look;
  char n[32];
  TS_DO(ts_str_append(s, "# %s lines\n# %-20s %9s %9s  %s\n",
                      ts_str_count(n, l->n_lines), "column", "values",
                      "missing", "taken as"));
  for (int32_t i = 0; i < l->n_columns && i < LISTED_MAX; i++) {
    const ts_column *c = &l->columns[i];
    TS_DO(ts_str_append(
        s, "# %-20s %8lld%s %9lld  %s: %s\n", c->name, (long long)c->n_values,
        c->n_values < l->values_max ? " " : "+", (long long)c->n_missing,
        use_names[x->choices[i].use], x->choices[i].why));
  }
  if (l->n_columns <= LISTED_MAX) return TS_OK;
  return ts_str_append(s,
                       "# and %d more columns; of all, %d are words or lists, "
                       "%d dense\n",
                       l->n_columns - LISTED_MAX, x->n_words, x->n_dense);
}

/* Behind the run's name. */
static ts_err put_run(ts_str *s, int64_t n, int64_t batch) {
  const int64_t half = n * 9 / 10 / batch / 2;
  if (n < LINES_TO_SPLIT)
    return ts_str_append(s, "; epochs = 4.0; log_every = 100; };\n");
  return ts_str_append(
      s,
      "; epochs = %s; log_every = 100;\n"
      "  valid_every = %lld; # steps: twice an epoch\n"
      "  stop = { metric = \"auc\"; patience = 4; }; }; # and the best is "
      "kept\n",
      n > 1000000 ? "2.0" : "20.0", (long long)(half > 1 ? half : 1));
}

static ts_err put_deck(ts_init *x, const char *name) {
  ts_str *s = &x->deck;
  const int64_t n = x->look.n_lines;
  const int64_t batch = n > 1000000 ? 4096 : n > 50000 ? 512 : n > 64 ? 64 : 8;
  TS_DO(ts_str_append(s, "# A first deck, by tessera init.  tessera help KEY "
                         "says what a key takes.\n"));
  TS_DO(put_reasons(s, x));
  TS_DO(ts_str_append(s, "run = { name = "));
  TS_DO(put_quoted(s, name));
  TS_DO(put_run(s, n, batch));
  TS_DO(put_data(s, x, batch));
  TS_DO(put_tables(s, x));
  return put_model(s, x);
}

/* ---- the command --------------------------------------------------------- */

static ts_err write_deck(const ts_str *deck, const char *path) {
  FILE *f = ts_file_stream(path, "wx");
  if (!f) return ts_fail(TS_ERR_IO, "--out %s: %s", path, ts_file_why());
  const size_t n = fwrite(deck->text, 1, deck->n_bytes, f);
  if (ts_file_close(f) != 0 || n != deck->n_bytes)
    return ts_fail_errno(TS_ERR_IO, path);
  return TS_OK;
}

/* The file's name without folder and ends. */
static void name_of(char *name, size_t size, const char *path) {
  const char *base = strrchr(path, '/');
  snprintf(name, size, "%s", base ? base + 1 : path);
  name[strcspn(name, ".")] = '\0';
  if (!*name) snprintf(name, size, "run");
}

ts_err ts_cmd_init(const ts_args *a) {
  ts_err err = TS_OK;
  ts_init x = {.args = a};
  ts_str reasons = {0};
  char name[200], path[256];
  if (!a->target || !a->label)
    TS_THROW(TS_ERR_USAGE, "usage: tessera init FILE.csv [EVAL.csv] --label "
                           "COLUMN [--out DECK]");
  name_of(name, sizeof name, a->target);
  snprintf(path, sizeof path, "%s.deck", name);
  const char *out = a->out ? a->out : path;
  name_of(name, sizeof name, out); /* its run's folder is its own */
  if (access(out, F_OK) == 0)
    TS_THROW(TS_ERR_USAGE, "%s is there already; --out names another", out);
  TS_TRY(ts_csv_survey_of(&x.look, a->target));
  if (!x.look.n_lines && !x.look.n_bad)
    TS_THROW(TS_ERR_DATA, "%s: no line is behind its header", a->target);
  if (!x.look.n_lines)
    TS_THROW(TS_ERR_DATA, "%s: no line has as many fields as its header, %d",
             a->target, x.look.n_columns);
  TS_TRY(ts_init_choose(&x));
  TS_TRY(put_deck(&x, name));
  TS_TRY(write_deck(&x.deck, out));
  TS_TRY(put_reasons(&reasons, &x));
  fputs(reasons.text, stdout);
  if (x.look.n_bad)
    ts_note("%lld lines have another number of fields than the header; "
            "data.on_bad_record = \"skip\" leaves them out",
            (long long)x.look.n_bad);
  printf("%s is written.  Next: tessera train %s --check; tessera train %s\n",
         out, out, out);
done:
  ts_str_reset(&reasons);
  ts_str_reset(&x.deck);
  ts_mem_free(x.choices);
  ts_csv_survey_reset(&x.look);
  return err;
}
