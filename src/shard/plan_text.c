/* plan_text.c - plans as text and back: in checkpoints, and in files that
 * people read, keep and edit.  So whoever reads trusts nothing: every number
 * is checked against the deck before it is used, and a fault is named with
 * its line. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/kinds.h"
#include "base/mem.h"
#include "shard/plan.h"

enum { FORMAT = 1, RANKS_MAX = 1 << 24 };
static const char head[] = "# tessera plan ";

/* ---- out ----------------------------------------------------------------- */

static ts_err print_name(ts_str *s, const char *name) {
  for (const unsigned char *p = (const unsigned char *)name; *p; p++)
    if (*p <= ' ' || *p == '%' || *p == '#' || *p == 127)
      TS_DO(ts_str_append(s, "%%%02X", *p));
    else
      TS_DO(ts_str_append_bytes(s, p, 1));
  return TS_OK;
}

ts_err ts_plan_print(ts_str *s, const ts_plan *p, const ts_config *c) {
  TS_DO(ts_str_append(s, "%s%d: %d ranks, %d nodes\n", head, FORMAT, p->n_ranks,
                      p->n_nodes));
  for (int32_t i = 0; i < p->n_tables; i++) {
    const ts_table_plan *t = &p->tables[i];
    TS_DO(print_name(s, c->tables[i].name));
    TS_DO(ts_str_append(s, " %s%s%s", ts_shard_kind_name(t->kind),
                        t->kernel ? " " : "", t->kernel ? t->kernel : ""));
    for (int32_t k = 0; k < t->n_shards; k++)
      TS_DO(ts_str_append(s, " %d:%" PRId64 "+%" PRId64 ",%d+%d",
                          t->shards[k].rank, t->shards[k].row0,
                          t->shards[k].n_rows, t->shards[k].col0,
                          t->shards[k].n_cols));
    TS_DO(ts_str_append(s, "\n"));
  }
  return TS_OK;
}

/* ---- in ------------------------------------------------------------------ */

typedef struct ts_reader {
  const char *at, *end; /* of the line at hand */
  const char *file;     /* NULL: a checkpoint's */
  int line;
  const ts_config *config;
  ts_plan *plan;
  bool *seen;       /* (n_tables) */
  int32_t expected; /* table that the next line is likely to name */
} ts_reader;

static ts_err wrong(const ts_reader *r, const char *what, const char *name) {
  if (r->file)
    return ts_fail(TS_ERR_DECK, "%s:%d: %s%s%s", r->file, r->line, what,
                   name ? " " : "", name ? name : "");
  return ts_fail(TS_ERR_CKPT, "line %d of the plan: %s%s%s", r->line, what,
                 name ? " " : "", name ? name : "");
}

static void skip_blanks(ts_reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t')) r->at++;
}

/* The next word, copied to WORD with %XX undone; false at the line's end or
 * where it is longer than any name of the deck. */
static bool take_word(ts_reader *r, char *word, size_t size) {
  size_t n = 0;
  skip_blanks(r);
  while (r->at < r->end && *r->at != ' ' && *r->at != '\t') {
    char c = *r->at++;
    if (c == '%') {
      const char hex[] = {r->end - r->at > 1 ? r->at[0] : 'x',
                          r->end - r->at > 1 ? r->at[1] : 'x', '\0'};
      if (!isxdigit((unsigned char)hex[0]) || !isxdigit((unsigned char)hex[1]))
        return false;
      c = (char)strtol(hex, NULL, 16);
      r->at += 2;
    }
    if (n + 1 >= size || !c) return false;
    word[n++] = c;
  }
  word[n] = '\0';
  return n > 0;
}

/* A number from 0 to MAX, then the character AFTER (0: nothing). */
static bool take_number(ts_reader *r, int64_t *x, int64_t max, char after) {
  *x = 0;
  if (r->at >= r->end || !isdigit((unsigned char)*r->at)) return false;
  for (; r->at < r->end && isdigit((unsigned char)*r->at); r->at++) {
    const int digit = *r->at - '0';
    if (*x > (max - digit) / 10) return false;
    *x = 10 * *x + digit;
  }
  if (!after) return true;
  return r->at < r->end && *r->at++ == after;
}

static ts_err take_shard(ts_reader *r, ts_shard *s, const ts_table_config *t) {
  int64_t rank, row0, n_rows, col0, n_cols;
  const bool read = take_number(r, &rank, RANKS_MAX, ':') &&
                    take_number(r, &row0, INT64_MAX, '+') &&
                    take_number(r, &n_rows, INT64_MAX, ',') &&
                    take_number(r, &col0, INT32_MAX, '+') &&
                    take_number(r, &n_cols, INT32_MAX, '\0');
  if (!read || (r->at < r->end && *r->at != ' ' && *r->at != '\t'))
    return wrong(r,
                 "shards are rank:row0+rows,col0+columns, which this is not, "
                 "of table",
                 t->name);
  if (row0 > t->rows || n_rows > t->rows - row0 || n_cols < 1 ||
      col0 > t->dim || n_cols > t->dim - col0)
    return wrong(r, "a shard is larger than its table", t->name);
  *s = (ts_shard){(int32_t)rank, row0, n_rows, (int32_t)col0, (int32_t)n_cols};
  return TS_OK;
}

static ts_err take_shards(ts_reader *r, ts_table_plan *p,
                          const ts_table_config *t) {
  int32_t n = 0;
  for (const char *c = r->at; c < r->end; c++) n += *c == ':';
  TS_DO(ts_mem_many(p->shards, n, MISC));
  for (skip_blanks(r); r->at < r->end; skip_blanks(r)) {
    ts_shard s;
    TS_DO(take_shard(r, &s, t));
    p->shards[p->n_shards++] = s;
  }
  if (p->n_shards == 0) TS_DO(wrong(r, "no shards for table", t->name));
  return TS_OK;
}

/* The kernel that the planner chose, where there is one.  One that the deck
 * names takes its place. */
static void take_kernel(ts_reader *r, ts_table_plan *p,
                        const ts_table_config *t) {
  static const char *const kernels[] = {"cached", "host"};
  skip_blanks(r);
  const size_t left = (size_t)(r->end - r->at);
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    const size_t n = strlen(kernels[i]);
    if (left <= n || strncmp(r->at, kernels[i], n) != 0 || r->at[n] != ' ')
      continue;
    r->at += n;
    if (ts_table_kernel_is_open(t)) p->kernel = kernels[i];
    return;
  }
}

static ts_shard_kind kind_of(const char *name) {
  for (int k = 1; k < TS_SHARD_COUNT; k++)
    if (!strcmp(name, ts_shard_kind_name((ts_shard_kind)k)))
      return (ts_shard_kind)k;
  return TS_SHARD_AUTO;
}

/* Number of the table NAME, -1: the deck has none. */
static int32_t table_of(const ts_reader *r, const char *name) {
  const ts_config *c = r->config;
  for (int32_t k = 0; k < c->n_tables; k++) {
    const int32_t i = (r->expected + k) % c->n_tables;
    if (!strcmp(name, c->tables[i].name)) return i;
  }
  return -1;
}

static ts_err take_table(ts_reader *r) {
  char name[1024], kind[32];
  if (!take_word(r, name, sizeof name))
    TS_DO(wrong(r, "a line starts with the name of a table", NULL));
  const int32_t i = table_of(r, name);
  const bool known = take_word(r, kind, sizeof kind) && kind_of(kind);
  /* Nothing is said of what may be no plan at all, but a file of others. */
  if (i < 0 && !known)
    TS_DO(wrong(r, "this is no line of a plan: TABLE SHARDING SHARDS", NULL));
  if (i < 0) TS_DO(wrong(r, "the deck has no table", name));
  if (r->seen[i]) TS_DO(wrong(r, "a second line for table", name));
  if (!known) TS_DO(wrong(r, "no known sharding is given for table", name));
  r->seen[i] = true;
  r->expected = i + 1;
  r->plan->tables[i].kind = kind_of(kind);
  take_kernel(r, &r->plan->tables[i], &r->config->tables[i]);
  return take_shards(r, &r->plan->tables[i], &r->config->tables[i]);
}

/* "1: 4 ranks, 2 nodes" */
static ts_err take_head(ts_reader *r) {
  int64_t format, ranks, nodes;
  r->at += sizeof head - 1;
  if (!take_number(r, &format, INT32_MAX, ':') || format != FORMAT)
    return wrong(r, "this version reads plans of format 1 only", NULL);
  skip_blanks(r);
  if (!take_number(r, &ranks, RANKS_MAX, ' ')) goto bad;
  while (r->at < r->end && !isdigit((unsigned char)*r->at)) r->at++;
  if (!take_number(r, &nodes, RANKS_MAX, ' ')) goto bad;
  r->plan->n_ranks = (int32_t)ranks;
  r->plan->n_nodes = (int32_t)nodes;
  return TS_OK;
bad:
  return wrong(r, "the head gives no numbers of ranks and nodes", NULL);
}

static ts_err take_line(ts_reader *r) {
  if ((size_t)(r->end - r->at) >= sizeof head - 1 &&
      !strncmp(r->at, head, sizeof head - 1))
    return take_head(r);
  skip_blanks(r);
  while (r->end > r->at && isspace((unsigned char)r->end[-1])) r->end--;
  return r->at == r->end || *r->at == '#' ? TS_OK : take_table(r);
}

/* The checks that need the whole text. */
static ts_err finish(ts_reader *r) {
  ts_plan *p = r->plan;
  int32_t most = 0;
  for (int32_t i = 0; i < p->n_tables; i++) {
    if (!r->seen[i])
      return wrong(r, "the plan ends without a line for table",
                   r->config->tables[i].name);
    for (int32_t k = 0; k < p->tables[i].n_shards; k++)
      if (p->tables[i].shards[k].rank >= most)
        most = p->tables[i].shards[k].rank + 1;
  }
  if (p->n_ranks == 0) p->n_ranks = most;
  if (most > p->n_ranks)
    return wrong(r, "a shard is on a rank beyond those of the head", NULL);
  return TS_OK;
}

static ts_err parse(ts_plan **out, const char *text, const char *file,
                    const ts_config *c) {
  ts_err err = TS_OK;
  ts_reader r = {.file = file, .config = c};
  TS_TRY(ts_plan_create(&r.plan, c->n_tables, 0));
  TS_TRY(ts_mem_many(r.seen, c->n_tables, MISC));
  while (*text) {
    const char *end = strchr(text, '\n');
    r.line++;
    r.at = text;
    r.end = end ? end : text + strlen(text);
    TS_TRY(take_line(&r));
    text = end ? end + 1 : text + strlen(text);
  }
  TS_TRY(finish(&r));
  *out = r.plan;
  r.plan = NULL;
done:
  ts_plan_destroy(r.plan);
  ts_mem_free(r.seen);
  return err;
}

ts_err ts_plan_parse(ts_plan **out, const char *text, const ts_config *c) {
  return parse(out, text, NULL, c);
}

ts_err ts_plan_read(ts_plan **out, const char *path, const ts_config *c) {
  ts_err err = TS_OK;
  ts_str text = {0};
  TS_TRY(ts_file_read_of_deck(&text, path, "sharding.plan"));
  TS_TRY(parse(out, text.text ? text.text : "", path, c));
done:
  ts_str_reset(&text);
  return err;
}
