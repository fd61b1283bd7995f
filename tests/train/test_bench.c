/* test_bench.c - `tessera bench` and the log of `tessera train` by a clock that
 * counts how often it is looked at: what they measure is the same each time,
 * to the last digit.  ranks: 1
 * sanitizers: none (they have their own memory, and other tests the work) */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "commands/bench.h"
#include "commands/bench_table.h"
#include "runtime/backends.h"
#include "tests/support/fake_device.h"
#include "tests/support/harness.h"
#include "train/signals.h"

/* In place of the one of runtime/trace.c (local.mk): each thread's own, which
 * goes on by 1 to 64 ticks, as drawn. */
static _Thread_local uint32_t drawn, ticks;
double __wrap_ts_now(void);
double __wrap_ts_now(void) {
  drawn = drawn * 1664525u + 1013904223u;
  ticks += 1 + (drawn >> 26);
  return ticks / 1024.0;
}

static void put(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  fputs(text, f);
  ck_assert_int_eq(fclose(f), 0);
}

static uint64_t digest;

static void add(const char *text) {
  puts(text);
  digest = ts_fnv1a(digest, text, strlen(text));
}

/* Without what machines, libraries and threads have otherwise. */
static void add_record(json_t *json) {
  static const char *const others[] = {
      "machine",  "engine",      "loss",      "concat_ms",
      "done_ms",  "ne",          "auc",       "logloss",
      "accuracy", "calibration", "window_ne", "window_auc"};
  const char *isa = json_string_value(json_object_get(json, "kernels"));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    json_object_del(json, others[i]);
  char *text = json_dumps(json, JSON_REAL_PRECISION(9) | JSON_COMPACT);
  if (!isa || !strcmp(isa, "ref")) add(text);
  free(text);
}

static void add_records(const char *path) {
  json_t *json;
  FILE *f = fopen(path, "r");
  ck_assert_ptr_nonnull(f);
  while ((json = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL))) {
    add_record(json);
    json_decref(json);
  }
  fclose(f);
}

/* From the plan on; lines that begin with OTHERS are others each time. */
static void add_log(const char *path) {
  static const char *const others[] = {"step ", "evaluation", "process",
                                       "NOTE: lookup"};
  bool begun = false;
  char line[1024];
  FILE *f = fopen(path, "r");
  ck_assert_ptr_nonnull(f);
  while (fgets(line, sizeof line, f)) {
    bool same = begun |= !strncmp(line, "tables:", 7);
    for (int i = 0; i < 4; i++)
      same &= strncmp(line, others[i], strlen(others[i])) != 0;
    if (same) add(line);
  }
  fclose(f);
}

static const char deck[] =
    "run = { name = \"b\"; seed = 11; steps = 12; threads = 1;\n"
    "  lanes = \"serial\"; };\n"
    "data = { format = \"synthetic\"; global_batch = 96;\n"
    "  synthetic = { samples = 1000; pooling = [1, 3, 2, 1, 4]; }; };\n"
    "tables = (\n"
    "  { name = \"a\"; rows = 50; dim = 16; features = [\"fa\"];\n"
    "    optimizer = { kind = \"adam\"; }; },\n"
    "  { name = \"b\"; rows = 300; dim = 16; features = [\"fb\", \"fc\"];\n"
    "    dtype = \"bf16\"; optimizer = { kind = \"rowwise_adagrad\"; }; },\n"
    "  { name = \"c\"; rows = 64; dim = 16; features = [\"fd\"]; },\n"
    "  { name = \"d\"; rows = 5; dim = 16; features = [\"fe\"];\n"
    "    weighted = true; } );\n"
    "table_defaults = { sharding = \"table_wise\"; };\n"
    "model = { kind = \"dcnv2\"; dense_features = 1; dense_arch = [32, 16];\n"
    "  dcn = { layers = 3; rank = 4; }; over_arch = [32, 1]; };\n"
    "optimizer = { kind = \"adam\"; };\n"
    "checkpoint = { dir = \"none\"; };\n"
    "sharding = { topology = \"default\"; memory_gib = 1.0; };\n";

static char folder[] = "/tmp/tessera-bench-XXXXXX";

static void start(void) {
  ck_assert(mkdtemp(folder) && chdir(folder) == 0);
  ck_assert_ok(ts_signals_block());
  ts_backend_replace(&ts_fake_backend); /* of "cuda" */
  put("DECK", deck);
  put("a.csv", "y,x,fa,fb,fc,fd,fe\n1,2,3,4,5,6,1\n0,2,3,4,5,6,1\n");
}

static void stop(void) {
  ts_backend_replace(NULL);
  ck_assert(unlink("DECK") == 0 && unlink("a.csv") == 0);
  ck_assert(unlink("rows") == 0 && rmdir(folder) == 0);
}

TS_TESTS_BETWEEN(start, stop)

/* Who changes a benchmark, or how often anything in it looks at the clock,
 * reads the records that the test prints and puts the new digest here. */
static const struct {
  const char *words; /* of the command line; those of the deck have a dot */
  uint64_t digest;
} cases[] = {
    {"tbe threads=1 tables=2 rows=300 dim=6 batch=64 pool=3 iters=5 zipf=1.1",
     0x76d9c87af58f0edb},
    {"tbe threads=1 tables=3 rows=50 dim=5 batch=4 pool=2 iters=4 zipf=0 "
     "dtype=bf16 optimizer=adam pooling=mean weighted=1",
     0x429810681a76fbb1},
    {"tbe threads=1 rows=500 batch=9 iters=9 sweep=1 weighted=1",
     0x3b405326df64e7a5},
    {"cache threads=1 tables=2 rows=1000 dim=8 batch=32 pool=3 iters=5 warm=7",
     0xb28eece568b5d221},
    {"cache threads=1 tables=1 rows=40 dim=4 batch=9 pool=8 iters=4 warm=3 "
     "load=0.3 policy=lfu zipf=0.5 tier_dir=.",
     0x3b20f7207f62630d},
    {"checkpoint mb=1 dim=7 io=pwrite cold=1", 0xf666a7f2b6bff175},
    {"checkpoint mb=1 dim=1048576", 0xe84e46df0d4f1947},
    {"input DECK", 0x052fcc54acb6e78b},
    {"input DECK iters=13 steps=7 rounds=3 scale=1", 0x50ea72c538d904c1},
    {"read DECK data.synthetic.samples=9000", 0xeefc7ec9217688c1},
    {"read DECK data.format=csv data.train=[\"*.csv\"] data.csv.label=y "
     "data.csv.dense=[\"x\"] data.eval=[] tables.d.weighted=false",
     0x36a85a3d05dda47f},
    {"step DECK", 0xc003e0bd84c8db22},
    {"step DECK iters=12 pipeline=sparse_dist model.dcn.layers=1",
     0x9e89443642b0cf17},
    {"pipeline DECK scale=0.5 steps=5 warm=2 rounds=3 plain=1",
     0x88fd9c39ad1c17bd},
    {"pipeline DECK in_backward=false "
     "only=prefetch,base,fused_sparse_dist.before",
     0x0663127ce70f70dd},
    {"tbe backend=cuda tables=3 rows=60 dim=8 batch=9 pool=3 iters=7 zipf=1.2",
     0xceb4aa196e4618ea},
    {"input DECK iters=4 steps=5 rounds=2 scale=3 run.backend=cuda "
     "comm.backend=mpi",
     0x7f27940558d6ec4c},
    {"DECK run.steps=30 run.log_every=10 run.eval_every=20 run.accumulate=2",
     0x99fa8a08deeda369},
    {"DECK run.log_every=4 run.eval_every=5 tables.b.kernel=cached "
     "tables.c.kernel=cached "
     "tables.b.cache.load_factor=0.2 pipeline.kind=prefetch",
     0xf5636e5f11c31332},
    {"DECK run.steps=1 run.log_every=1 tables.b.kernel=cached",
     0xfc2a1659eab99f4b},
    {"DECK run.log_every=3 run.backend=cuda comm.backend=mpi "
     "pipeline.kind=sparse_dist tables.b.kernel=cached",
     0xc4608d411febad3d},
    {"pipeline DECK scale=0.5 steps=6 warm=1 rounds=3 in_backward=true "
     "run.backend=cuda comm.backend=mpi",
     0x2d2936ec664bc53e},
};

TS_TESTS(figures_are_as_they_were, 0, sizeof cases / sizeof *cases) {
  char words[256];
  const char *sets[8];
  ts_args a = {.out = "rows", .sets = sets};
  strcpy(words, cases[_i].words);
  a.target = strtok(words, " ");
  for (char *w = strtok(NULL, " "); w; w = strtok(NULL, " "))
    if (strcspn(w, ".") < strcspn(w, "="))
      sets[a.n_sets++] = w;
    else
      a.more[a.n_more++] = w;
  drawn = 0;
  digest = TS_FNV_START;
  if (strcmp(a.target, "DECK") != 0) {
    ck_assert_ok(ts_cmd_bench(&a));
    add_records("rows");
  } else {
    sets[a.n_sets++] = "run.output=run";
    ck_assert_ok(ts_cmd_train(&a));
    add_log("run/log");
    add_records("run/metrics.jsonl");
    ck_assert_int_eq(system("rm -r run"), 0);
  }
  ck_assert_msg(digest == cases[_i].digest, "%s: 0x%016llx", cases[_i].words,
                (unsigned long long)digest);
}

/* What each takes: the message says it. */
TS_TEST(keys_that_are_refused) {
  static const char *const all[] = {
      "tbe tables rows dim batch pool threads iters zipf dtype pooling "
      "weighted sweep",
      "cache tables rows dim batch pool threads warm iters load zipf policy",
      "checkpoint mb dim io cold",
      "step iters",
      "input scale iters steps rounds",
      "pipeline scale steps warm rounds in_backward plain"};
  char words[128], word[32];
  digest = TS_FNV_START;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    strcpy(words, all[i]);
    ts_args a = {.target = strtok(words, " "), .more = {"DECK"}};
    a.n_more = strchr("spi", *a.target) != NULL;
    a.more[a.n_more++] = word;
    for (char *w = strtok(NULL, " "); w; w = strtok(NULL, " ")) {
      snprintf(word, sizeof word, "%s=x", w);
      ck_assert_int_eq(ts_cmd_bench(&a), TS_ERR_USAGE);
      add(ts_err_message());
      ts_err_clear();
    }
  }
  ck_assert_msg(digest == 0x3a516ddf3cffac07, "0x%016llx",
                (unsigned long long)digest);
}

TS_TEST(tables_as_text) {
  static const ts_bench_table table = {
      "t", "{a|%6.1f|upper\nhead}{b| <%-4s>|b}{|%7B!|bytes}{c| %7C,|more}"
           "{h|%5.0f%%|of\nall}{d|, %g of}{e|; %s}{f|s}{g|}"};
  static const char expected[] =
      " upper                            of\n"
      "  head  b       bytes     more   all\n"
      "   1.2 <x   >2.0 KiB!  70,000,   99%, 0.5 of; e\n"
      "     -  -           -        -     -\n";
  char text[512] = "";
  ck_assert_ok(ts_log_open("log"));
  ts_bench_heads(&table);
  ts_bench_print(&table, 1.25, "x", 2048.0, 7e4, 99.0, 0.5, "e", "f", 1.0);
  ts_bench_print(&table, NAN, NULL, NAN, NAN, NAN, NAN, NULL, NULL, NAN);
  ts_log_close();
  FILE *f = fopen("log", "r");
  ck_assert_ptr_nonnull(f);
  ck_assert_int_gt(fread(text, 1, sizeof text - 1, f), 0);
  fclose(f);
  unlink("log");
  ck_assert_str_eq(text, expected);
}

/* One message, and nothing is left. */
TS_TEST(rows_beyond_memory) {
  const ts_args a = {
      .target = "tbe",
      .more = {"backend=cuda", "tables=1000", "rows=4e6", "dim=256"},
      .n_more = 4};
  ck_assert_int_eq(ts_cmd_bench(&a), TS_ERR_NOMEM);
  ck_assert_ptr_nonnull(
      strstr(ts_err_message(), "4096000000000 bytes for embedding tables"));
  ts_err_clear();
}
