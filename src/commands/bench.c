/* bench.c - `tessera bench`, and how benchmarks read their keys. */
#include "commands/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "commands/bench_table.h"
#include "io/batch_store.h"
#include "io/parts.h"
#include "io/targets.h"
#include "sparse/row_optim.h"

static ts_err set_choice(const ts_bench_key *k, const char *value) {
  const char *at = k->choices;
  for (int i = 0;; i++) {
    const size_t n = strcspn(at, "|");
    if (n == strlen(value) && !strncmp(at, value, n)) {
      *k->choice = i;
      return TS_OK;
    }
    if (!at[n]) break;
    at += n + 1;
  }
  return ts_fail(TS_ERR_USAGE, "bench: %s = \"%s\" is none of %s", k->name,
                 value, k->choices);
}

static ts_err set_number(const ts_bench_key *k, const char *value) {
  char *end;
  const double x = strtod(value, &end);
  if (end == value || *end || !(x >= k->least && x <= k->most))
    return ts_fail(TS_ERR_USAGE, "bench: %s = \"%s\" is no number in %g to %g",
                   k->name, value, k->least, k->most);
  if (k->number) *k->number = x;
  if (k->whole) *k->whole = (int)x;
  return TS_OK;
}

static ts_err set(const ts_bench_key *k, const char *value) {
  if (k->number || k->whole) return set_number(k, value);
  if (k->choice) return set_choice(k, value);
  *k->word = value;
  return TS_OK;
}

/* The key in WORD, up to its "=". */
static ts_err find(const ts_bench_key **out, const char *word,
                   const ts_bench_key *keys, int n_keys) {
  char name[32] = "";
  const char *near = NULL;
  const size_t n = strcspn(word, "=");
  if (word[n] != '=')
    return ts_fail(TS_ERR_USAGE, "bench: \"%s\" is not key=value", word);
  memcpy(name, word, n < sizeof name ? n : sizeof name - 1);
  for (int i = 0; i < n_keys; i++) {
    *out = &keys[i];
    if (!strcmp(keys[i].name, name)) return TS_OK;
    if (ts_str_distance(keys[i].name, name) <= 2 && !near) near = keys[i].name;
  }
  return ts_fail(TS_ERR_USAGE, "bench: unknown key \"%s\"%s%s%s", name,
                 near ? "; did you mean \"" : "", near ? near : "",
                 near ? "\"?" : "; --help lists them");
}

/* "rows=1000000  1 to 2e+09  of each". */
static void print_key(const ts_bench_key *k) {
  char now[64] = "", takes[64] = "";
  const char *at = k->choices;
  for (int i = k->choice ? *k->choice : 0; i > 0; i--) at = strchr(at, '|') + 1;
  if (k->number) snprintf(now, sizeof now, "%.10g", *k->number);
  if (k->whole) snprintf(now, sizeof now, "%d", *k->whole);
  if (k->choice) snprintf(now, sizeof now, "%.*s", (int)strcspn(at, "|"), at);
  if (k->word && *k->word) snprintf(now, sizeof now, "%s", *k->word);
  if (k->number || k->whole)
    snprintf(takes, sizeof takes, " (%g to %g)", k->least, k->most);
  if (k->choice) snprintf(takes, sizeof takes, " (%s)", k->choices);
  printf("  %s=%-*s %s%s\n", k->name, 19 - (int)strlen(k->name), now, k->help,
         takes);
}

ts_err ts_bench_keys(const ts_args *a, int first, const ts_bench_key *keys,
                     int n_keys) {
  for (int i = 0; a->help && i < n_keys && ts_mpi_rank() == 0; i++)
    print_key(&keys[i]);
  if (a->help) return ts_fail(TS_ERR_STOPPED, "there is no more than help");
  for (int i = first; i < a->n_more; i++) {
    const ts_bench_key *k = NULL;
    TS_DO(find(&k, a->more[i], keys, n_keys));
    TS_DO(set(k, strchr(a->more[i], '=') + 1));
  }
  return TS_OK;
}

static void describe_ids(char text[TS_BENCH_IDS], const ts_source *s) {
  double n = 0, ids, zipf = 0;
  if (!s->ops->law) {
    snprintf(text, TS_BENCH_IDS, "ids of the data");
    return;
  }
  for (int32_t f = 0; f < s->info.n_features; f++) {
    s->ops->law(s->config, f, &ids, &zipf);
    n += ids;
  }
  snprintf(text, TS_BENCH_IDS, "ids zipf %g, %.0f a sample", zipf, n);
}

/* Rank's samples of the batch that begins at sample AT into STORE. */
static ts_err read_part(ts_batch_store *store, const ts_trainer *t,
                        ts_source *s, ts_parts *parts, int64_t at) {
  const int64_t g = t->global_batch, *start;
  TS_DO(ts_parts_of(parts, &start, NULL, at, g));
  const int64_t first = at + start[t->rank];
  ts_batch *b = ts_batch_store_batch(store);
  store->for_model = true;
  ts_targets_at(store->targets, &(ts_targets_place){.training = true,
                                                    .first = first,
                                                    .start = start,
                                                    .rank = t->rank,
                                                    .n_ranks = t->n_ranks});
  TS_DO(s->ops->read(s, store, first,
                     (int32_t)(start[t->rank + 1] - start[t->rank])));
  b->n_global = g;
  b->training = true;
  return TS_OK;
}

ts_err ts_bench_batches(ts_batch_store **stores, int n_stores,
                        const ts_trainer *t, ts_source *s, ts_device *device,
                        char ids[TS_BENCH_IDS]) {
  ts_err err = TS_OK;
  ts_parts *parts = NULL;
  const int64_t g = t->global_batch, n = s->info.n_samples;
  s->n_threads = t->n_threads; /* nothing computes yet */
  describe_ids(ids, s);
  if (n < g)
    return ts_fail(TS_ERR_DATA,
                   "the data has %lld samples, fewer than one batch",
                   (long long)n);
  TS_TRY(ts_parts_create(&parts, s, g, t->n_ranks, &t->costs));
  for (int i = 0; i < n_stores; i++) {
    TS_TRY(ts_batch_store_create(&stores[i], t->config, device));
    TS_TRY(read_part(stores[i], t, s, parts, (i * g) % (n - g + 1)));
  }
done:
  ts_parts_destroy(parts);
  return err;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* In [1, R] by U in [0, 1). */
static double power_law(double u, double R, double alpha) {
  if (fabs(alpha - 1) < 1e-9) return pow(R, u);
  return pow((pow(R, 1 - alpha) - 1) * u + 1, 1 / (1 - alpha));
}

int32_t ts_bench_draw(int64_t i, uint32_t k, int64_t rows, double alpha) {
  const double R = (double)rows;
  uint32_t x[4];
  ts_rng4(x, 1, TS_RNG_TEST, (uint64_t)i, k, 0);
  const double u = ts_rng_unit64(x[0], x[1]);
  if (!(alpha > 0)) return (int32_t)(u * R);
  const uint64_t id = (uint64_t)fmin(fmax(power_law(u, R, alpha), 1), R) - 1;
  return (int32_t)(id * UINT64_C(2654435761) % (uint64_t)rows);
}

double ts_bench_median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_value);
  return n ? x[n / 2] : 0;
}

double ts_bench_tenth(const double *sorted, int n, int k) {
  const int i = (k * n + 9) / 10 - 1;
  return sorted[i < 0 ? 0 : i];
}

typedef struct ts_bench {
  const char *name;
  ts_err (*run)(const ts_args *);
  bool deck; /* its first word */
  const char *help;
} ts_bench;

static const ts_bench benches[] = {
    {"attention", ts_bench_attention, false,
     "attention of sequences, beside products alone"},
    {"cache", ts_bench_cache, false,
     "tables in slow memory behind a cache, beside the same in fast memory"},
    {"checkpoint", ts_bench_checkpoint, false,
     "saving and loading, beside plain writes and reads"},
    {"input", ts_bench_input, true,
     "input dist and steps with data.input = \"kjt\" and \"columns\""},
    {"pipeline", ts_bench_pipeline, true,
     "every pipeline on the same batches, in turns"},
    {"read", ts_bench_read, true,
     "how fast the training data is read and parsed"},
    {"rows", ts_bench_rows_run, false,
     "lookups in rows of 32, 16, 8 and 4 bits, as in served models"},
    {"step", ts_bench_step, true, "whole training steps on batches in memory"},
    {"tbe", ts_bench_tbe, false, "lookup and backward of one group of tables"},
};

enum { N_BENCHES = sizeof benches / sizeof *benches };

static const char *words_of(const ts_bench *b) {
  return b->deck ? "DECK " : "";
}

void ts_bench_list(FILE *f) {
  for (int i = 0; i < N_BENCHES; i++)
    fprintf(f, "  %-10s %-5s %s\n", benches[i].name, words_of(&benches[i]),
            benches[i].help);
}

/* Its keys are the benchmark's to print. */
static ts_err help(const ts_bench *b, const ts_args *a) {
  if (ts_mpi_rank() == 0)
    printf("usage: tessera bench %s %s[KEY=VALUE]... [--json] [--out FILE]\n"
           "  %s\n",
           b->name, words_of(b), b->help);
  const ts_err err = b->run(a);
  if (err != TS_ERR_STOPPED) return err;
  ts_err_clear();
  if (ts_mpi_rank() == 0) ts_options_print(stdout, "bench");
  return TS_OK;
}

ts_err ts_cmd_bench(const ts_args *a) {
  const ts_bench *b = NULL;
  for (int i = 0; a->target && i < N_BENCHES; i++)
    if (!strcmp(a->target, benches[i].name)) b = &benches[i];
  if (!b)
    return ts_fail(TS_ERR_USAGE, "usage: tessera bench NAME [DECK] "
                                 "[KEY=VALUE]...; tessera bench --help lists "
                                 "them");
  if (a->help) return help(b, a);
  if (b->deck && !a->n_more)
    return ts_fail(TS_ERR_USAGE,
                   "usage: tessera bench %s DECK [KEY=VALUE]...; tessera bench "
                   "%s --help lists the keys",
                   b->name, b->name);
  if (!b->deck && a->n_sets)
    return ts_fail(TS_ERR_USAGE,
                   "bench %s has no deck for --set; its keys are words of "
                   "their own, as in iters=9",
                   b->name);
  ts_err err = ts_bench_open(a);
  if (err == TS_OK) err = b->run(a);
  const ts_err closed = ts_bench_close();
  return err == TS_OK ? closed : err;
}
