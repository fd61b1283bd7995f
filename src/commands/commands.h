/* commands.h - subcommands, one file each; main.c is a table of them.
 * ts_cmd_* are Collective where ts_command.mpi is set; all else is Local. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/config.h"
#include "base/err.h"
#include "train/calibration.h"
#include "train/run_trace.h"

/* The command line, parsed by main.c. */
typedef struct ts_args {
  double began; /* of ts_now: the process's start */
  const char *command;
  const char *target;   /* DECK, FILE or topic; NULL where absent */
  const char *more[16]; /* further words */
  int n_more;
  const char **sets; /* --set KEY=VALUE, in order */
  int n_sets;
  const char *out;        /* --out FILE */
  const char *checkpoint; /* --checkpoint FILE */
  /* predict: --data FILE, --keys COLUMN,COLUMN..., --embeddings
   * FEATURE,FEATURE... */
  const char *data, *keys, *embeddings, *layer; /* --layer NAME */
  const char *k;             /* topk: --k N, with predict's --data, --keys */
  const char *format;        /* --format NAME */
  const char *trace;         /* --trace FILE */
  const char *trace_steps;   /* --trace-steps A:B */
  const char *steps;         /* --steps A:B */
  const char *rank;          /* --rank R */
  bool model;                /* plot: --model */
  const char *what, *smooth; /* plot: --what NAME,NAME, --smooth N */
  /* inspect: --vocabulary FEATURE, --table NAME, --top K */
  const char *vocabulary, *table, *top;
  bool verify, quiet, check; /* --verify, --quiet, --check */
  bool texinfo;              /* help deck: --texinfo */
  bool help;                 /* bench NAME --help; others are answered before */
  /* plan: --world N, --ranks-per-node K, --topology FILE, --save FILE,
   * --sweep N,N..., --measure FILE, --json */
  const char *world, *ranks_per_node, *topology, *save, *sweep, *measure;
  bool json;
  const char *backend; /* bench tbe: --backend NAME */
  /* serve-bench: --threads N, --batch B, --ids N, --zipf A, --seconds S, --dump
   * FOLDER */
  const char *threads, *batch, *ids, *zipf, *seconds, *dump;
  const char *label; /* init: --label COLUMN */
  /* eval: --by COLUMN, --importance, --repeats N, --features NAME,NAME...,
   * --calibration [FILE.svg] ("": no file), --bins N */
  const char *by, *repeats, *features, *calibration, *bins;
  bool importance;
  /* tune: --space FILE, --trials N, --parallel N, --seed S, --launch WORDS,
   * --metric NAME, --halving; compare: --resamples N, --seed N */
  const char *space, *trials, *parallel, *seed, *launch, *metric, *resamples;
  bool halving;
  /* convert: --sequences EVENTS, --lists, and what goes with it */
  const char *sequences, *columns, *targets, *leave, *split_at, *max_length;
  const char *min_count, *negatives, *test, *side;
  bool lists, times;
  const char *names, *max_file; /* export: --names WHOSE, --max-file BYTES */
  const char *tables, *dense;   /* export: --tables TYPE, --dense TYPE */
  const char *base;             /* export: --base FILE */
  const char *from;             /* import: --from PATH */
  bool state, averages;         /* export: --state, --averages */
} ts_args;

typedef struct ts_command {
  const char *name;
  int n_words;       /* at most, beside options */
  const char *usage; /* "DECK [--set key=value]..." */
  const char *help;  /* one line */
  bool mpi;          /* runs on all ranks; others run on rank 0 alone */
  ts_err (*run)(const ts_args *);
} ts_command;

ts_err ts_cmd_train(const ts_args *);
ts_err ts_cmd_eval(const ts_args *);
ts_err ts_cmd_predict(const ts_args *);
ts_err ts_cmd_topk(const ts_args *);
ts_err ts_cmd_import(const ts_args *);
ts_err ts_cmd_compact(const ts_args *);
ts_err ts_cmd_export(const ts_args *);
ts_err ts_cmd_compare(const ts_args *);
ts_err ts_cmd_plan(const ts_args *);
ts_err ts_cmd_convert(const ts_args *);
ts_err ts_convert_sequences(const ts_args *); /* --sequences: rank 0 does it */
ts_err ts_cmd_generate(const ts_args *);
ts_err ts_cmd_init(const ts_args *);
ts_err ts_cmd_inspect(const ts_args *);
ts_err ts_cmd_bench(const ts_args *);
ts_err ts_cmd_serve_bench(const ts_args *);
ts_err ts_cmd_help(const ts_args *);
ts_err ts_cmd_plot(const ts_args *);
ts_err ts_cmd_trace(const ts_args *);
ts_err ts_cmd_tune(const ts_args *);
ts_err ts_cmd_version(const ts_args *);

/* options.c: reads the option at argv[*i], and its value; prints those of
 * COMMAND.  ts_bench_list: the benchmarks that there are. */
ts_err ts_option_read(ts_args *, char **argv, int *i);
void ts_options_print(FILE *, const char *command);
void ts_bench_list(FILE *);

/* "A:B" (0 <= A < B) after OPTION, the name for messages. */
ts_err ts_args_range(const char *option, const char *text, int64_t *first,
                     int64_t *end);
/* NAMES parted by commas, after OPTION; NULL: none.  To be freed in any case.
 */
ts_err ts_args_names(ts_strings *, const char *option, const char *names);
void ts_args_names_free(ts_strings *);
/* A whole number from LEAST to MOST; TEXT NULL: USUAL. */
ts_err ts_args_number(const char *option, const char *text, int32_t usual,
                      int32_t least, int32_t most, int32_t *out);
/* --trace and --trace-steps. */
ts_err ts_args_trace(const ts_args *, ts_trace_request *);

/* reliability.c: draws predictions beside what happened, a line for each task.
 */
ts_err ts_reliability_draw(const char *path, const ts_calibration *);

extern const ts_command ts_commands[]; /* ends with name NULL */
