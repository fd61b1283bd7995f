/* init_choose.c - columns by what they look like: label, numbers, words, times,
 * or nothing to learn from. */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "commands/init.h"
#include "io/datetime.h"

/* Whole numbers of so few values are more likely names than amounts. */
enum { FEW = 50 };
enum { TABLES_MAX = 65536, DENSE_MAX = 1000000 }; /* of decks */

static bool has(const char *name, const char *part) {
  const size_t n = strlen(part);
  for (; *name; name++)
    if (!strncasecmp(name, part, n)) return true;
  return false;
}

/* Some files have types behind the names: user_id:token. */
static bool is_id(const char *name) {
  const size_t n = strcspn(name, ":");
  return (n >= 2 && !strncasecmp(name + n - 2, "id", 2)) ||
         !strcmp(name + n, ":token");
}

/* Seconds, or milliseconds, since 1970; or dates, by the first two of them. */
static bool is_time(const ts_column *c, int64_t n_there) {
  double t;
  if (ts_time_seconds(c->word[0], strlen(c->word[0]), &t) &&
      ts_time_seconds(c->word[1], strlen(c->word[1]), &t))
    return true;
  const bool range =
      (c->min > 5e8 && c->max < 5e9) || (c->min > 5e11 && c->max < 5e12);
  return c->n_numbers == n_there && range &&
         (has(c->name, "time") || has(c->name, "date") || c->n_values > FEW);
}

/* Nearly each line has its own word, or a number as if they were counted. */
static bool is_key(const ts_column *c, int64_t n_there, bool numbers,
                   bool whole) {
  if (n_there <= FEW || (double)c->n_values < 0.95 * (double)n_there)
    return false;
  return !numbers ||
         (whole && (is_id(c->name) || c->max - c->min < 2.0 * (double)n_there));
}

static ts_choice choose(const ts_column *c, int64_t n_lines) {
  const int64_t there = n_lines - c->n_missing;
  const bool numbers = there && c->n_numbers == there;
  const bool whole = numbers && c->n_whole == there;
  if (!*c->name) return (ts_choice){AS_NOTHING, "it has no name"};
  if (c->twice)
    return (ts_choice){AS_NOTHING, "another column has its name: give it one "
                                   "of its own"};
  if (c->n_values < 2) return (ts_choice){AS_NOTHING, "one value or none"};
  if (c->n_commas + c->n_numbers == there && c->n_commas)
    return (ts_choice){AS_NOTHING, "numbers with a comma: write them with a "
                                   "point"};
  if (is_time(c, there))
    return (ts_choice){AS_TIME, "a time: as a number it would swamp the "
                                "others; data.columns takes its hour or day"};
  if (is_key(c, there, numbers, whole))
    return (ts_choice){AS_NOTHING, "nearly each line has its own value: a key, "
                                   "from which nothing is learnt"};
  if (!numbers && 20 * c->n_listed > there)
    return (ts_choice){AS_LISTS, "words with | between them"};
  if (!numbers) return (ts_choice){AS_WORDS, "not all are numbers"};
  if (whole && is_id(c->name))
    return (ts_choice){AS_WORDS, "numbers that are names: an id"};
  if (whole && c->n_values <= FEW)
    return (ts_choice){AS_WORDS, "whole numbers of few values"};
  return (ts_choice){AS_DENSE, "numbers of many values"};
}

static ts_err find_label(const ts_init *x, int32_t *label) {
  for (*label = 0; *label < x->look.n_columns; ++*label)
    if (!strcmp(x->look.columns[*label].name, x->args->label)) break;
  if (*label == x->look.n_columns)
    return ts_fail(TS_ERR_DATA, "%s: no column \"%s\" for --label",
                   x->args->target, x->args->label);
  const ts_column *c = &x->look.columns[*label];
  if (c->twice)
    return ts_fail(TS_ERR_DATA, "%s: several columns are named %s",
                   x->args->target, c->name);
  if (c->n_missing)
    return ts_fail(TS_ERR_DATA,
                   "%s: label %s is missing in %lld lines; they are to be left "
                   "out",
                   x->args->target, c->name, (long long)c->n_missing);
  if (c->n_values != 2 && c->n_numbers < x->look.n_lines)
    return ts_fail(TS_ERR_DATA,
                   "%s: label %s has %lld values; a label has two, or is a "
                   "number",
                   x->args->target, c->name, (long long)c->n_values);
  if (c->n_values < 2)
    return ts_fail(TS_ERR_DATA, "%s: label %s is the same in all lines",
                   x->args->target, c->name);
  return TS_OK;
}

ts_err ts_init_choose(ts_init *x) {
  int32_t label;
  TS_DO(find_label(x, &label));
  TS_DO(ts_mem_array(&x->choices, x->look.n_columns, sizeof *x->choices,
                     TS_TAG_MISC));
  for (int32_t i = 0; i < x->look.n_columns; i++) {
    x->choices[i] = i == label ? (ts_choice){AS_LABEL, "--label"}
                               : choose(&x->look.columns[i], x->look.n_lines);
    x->n_dense += x->choices[i].use == AS_DENSE;
    x->n_words += ts_init_is_looked_up(x, i);
    x->n_lists += x->choices[i].use == AS_LISTS;
    if (x->choices[i].use == AS_TIME) x->time = x->look.columns[i].name;
  }
  if (x->n_words > TABLES_MAX || x->n_dense > DENSE_MAX)
    return ts_fail(TS_ERR_DATA,
                   "%s: %d columns have words or ids and %d numbers; a deck "
                   "has at most %d tables and %d dense features",
                   x->args->target, x->n_words, x->n_dense, TABLES_MAX,
                   DENSE_MAX);
  if (x->n_words) return TS_OK;
  return ts_fail(TS_ERR_DATA,
                 "%s: no column has words or ids to look up: a deck needs a "
                 "table",
                 x->args->target);
}
