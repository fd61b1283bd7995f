/* options.c - the options of the command line: one table, by which they are
 * read and the help of each command is printed. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "commands/commands.h"

typedef struct ts_option {
  /* "--out", "FILE"; NULL: a flag; "[FILE.svg]": may be left out, and then is
   * "" */
  const char *name, *value;
  size_t at;            /* in ts_args: a bool, or a const char * */
  const char *commands; /* "train eval": whose help has it */
  const char *help;
} ts_option;

#define AT(field) offsetof(ts_args, field)
#define DECKS                                                                  \
  "train eval predict topk export import compact compare plan convert "        \
  "generate "                                                                  \
  "bench "                                                                     \
  "tune"
#define ALL DECKS " init inspect plot trace serve-bench help version"

static const ts_option options[] = {
    {"--set", "KEY=VALUE", AT(sets), DECKS " plot",
     "overrides a key of the deck; repeatable"},
    {"--check", NULL, AT(check), "train",
     "looks at the data, sets all up, prints the plan and trains nothing"},
    {"--trace", "FILE", AT(trace), "train bench",
     "what each lane does, as a trace (bench: of step)"},
    {"--trace-steps", "A:B", AT(trace_steps), "train bench",
     "batches A up to but not B of it"},
    {"--checkpoint", "FILE", AT(checkpoint), "eval predict topk export compact",
     "its weights, not the run's newest; best: those of best.h5"},
    {"--by", "COLUMN", AT(by), "eval",
     "figures by the values of a column of the data, too"},
    {"--importance", NULL, AT(importance), "eval",
     "what is lost with each feature's values given to other samples"},
    {"--repeats", "N", AT(repeats), "eval", "of --importance: so often; 5"},
    {"--features", "NAME,NAME", AT(features), "eval",
     "of --importance: these alone"},
    {"--calibration", "[FILE.svg]", AT(calibration), "eval",
     "predictions beside what happened, and as a drawing"},
    {"--bins", "N", AT(bins), "eval", "of --calibration: so many; 10"},
    {"--data", "FILE", AT(data), "predict topk compare",
     "instead of data.eval; predict, topk: -: stdin; compare: FILE,FILE, too"},
    {"--resamples", "N", AT(resamples), "compare",
     "of the bootstrap; 1000 by default"},
    {"--k", "N", AT(k), "topk", "items of a sample; 100"},
    {"--keys", "NAME,NAME", AT(keys), "predict topk",
     "columns of the input to stand beside the scores"},
    {"--layer", "NAME", AT(layer), "predict",
     "what a layer of the model gives, not scores"},
    {"--embeddings", "NAME,NAME", AT(embeddings), "predict",
     "the features' vectors and words, not scores"},
    {"--names", "WHOSE", AT(names), "export",
     "own, or torchrec: refused unless its state_dict has these names"},
    {"--state", NULL, AT(state), "export", "optimizers' state, too"},
    {"--from", "PATH", AT(from), "import",
     "a folder of export, or a file: safetensors, an index, a checkpoint"},
    {"--tables", "TYPE", AT(tables), "export",
     "of format serve: rows as int8 (the default), int4, bf16 or f32"},
    {"--dense", "TYPE", AT(dense), "export",
     "of format serve: matrices as f32 (the default) or bf16"},
    {"--base", "FILE", AT(base), "export",
     "of format serve: what differs from this file alone, a delta"},
    {"--averages", NULL, AT(averages), "export",
     "running means (optimizer.ema) in the weights' place"},
    {"--max-file", "BYTES", AT(max_file), "export",
     "of a file's tensors; 5e9 by default"},
    {"--label", "COLUMN", AT(label), "init", "what is to be predicted"},
    {"--out", "FILE", AT(out),
     "init predict topk export convert generate bench plot trace tune "
     "serve-bench",
     "where the result goes"},
    {"-o", "FILE", AT(out),
     "predict topk export convert generate bench plot trace", "the same"},
    {"--format", "NAME", AT(format), "convert generate export",
     "of what is written: dataset, criteo_tsv, parquet or arrow; export: "
     "safetensors, pt-names or serve"},
    {"--sequences", "EVENTS", AT(sequences), "convert",
     "a log of events, not a deck: lines \"user item [time]\""},
    {"--lists", NULL, AT(lists), "convert", "lines are \"user item item ...\""},
    {"--columns", "NAME,NAME", AT(columns), "convert",
     "user, item and time of EVENTS, by name or number"},
    {"--side", "NAME,NAME", AT(side), "convert",
     "further columns of EVENTS, a feature each"},
    {"--times", NULL, AT(times), "convert",
     "the feature time: of item's events, and of the next one"},
    {"--targets", "NAME", AT(targets), "convert",
     "shift, masked, pairs or users: what next has"},
    {"--leave", "N", AT(leave), "convert",
     "a user's last N events are not trained on; 2"},
    {"--split-at", "TIME", AT(split_at), "convert",
     "events from TIME on are not trained on"},
    {"--test", "EVENTS", AT(test), "convert",
     "a log whose events are what is not trained on"},
    {"--max-length", "L", AT(max_length), "convert",
     "the newest L events of a sequence"},
    {"--min-count", "K", AT(min_count), "convert",
     "without users and items of fewer events"},
    {"--negatives", "N", AT(negatives), "convert",
     "ids that the user never had, behind each target"},
    {"--world", "N", AT(world), "plan", "ranks of the machine planned for"},
    {"--ranks-per-node", "K", AT(ranks_per_node), "plan", "of that machine"},
    {"--topology", "FILE", AT(topology), "plan",
     "its figures, as --measure writes them"},
    {"--save", "FILE", AT(save), "plan", "the plan, for sharding.plan"},
    {"--sweep", "N,N...", AT(sweep), "plan", "a line for each number of ranks"},
    {"--measure", "FILE", AT(measure), "plan",
     "times this machine (under mpirun) and writes its figures"},
    {"--threads", "N", AT(threads), "serve-bench",
     "a call's, and as many scorers; without: 1 and 2"},
    {"--batch", "B", AT(batch), "serve-bench",
     "samples of a call; without: 1, 64 and 1024"},
    {"--ids", "N", AT(ids), "serve-bench", "of a feature and sample; 1"},
    {"--zipf", "A", AT(zipf), "serve-bench",
     "exponent of the ids' power law; 1.05, 0: uniform"},
    {"--seconds", "S", AT(seconds), "serve-bench", "of a line; 2"},
    {"--dump", "FOLDER", AT(dump), "serve-bench",
     "batches and scores there, as NumPy's files"},
    {"--json", NULL, AT(json), "plan bench compare serve-bench",
     "JSON instead of text"},
    {"--backend", "NAME", AT(backend), "bench", "tbe, attention: host or cuda"},
    {"--verify", NULL, AT(verify), "inspect", "checks every checksum"},
    {"--vocabulary", "FEATURE", AT(vocabulary), "inspect",
     "a checkpoint's words of it, and how often each was there"},
    {"--table", "NAME", AT(table), "inspect",
     "of a checkpoint: its ids met in the most steps, or of the greatest norm"},
    {"--top", "K", AT(top), "inspect", "of --table: so many; 20"},
    {"--model", NULL, AT(model), "plot",
     "the layers of a deck's model, not figures of runs"},
    {"--what", "NAME,NAME", AT(what), "plot",
     "figures: loss, ne, auc, samples_per_s"},
    {"--smooth", "N", AT(smooth), "plot", "means over N progress lines"},
    {"--steps", "A:B", AT(steps), "trace", "plot: batches A up to but not B"},
    {"--rank", "R", AT(rank), "trace", "plot: of this rank alone"},
    {"--space", "FILE", AT(space), "tune", "keys, with ranges or choices"},
    {"--trials", "N", AT(trials), "tune", "in all; 20 by default"},
    {"--parallel", "N", AT(parallel), "tune", "at a time"},
    {"--seed", "S", AT(seed), "tune compare convert", "of the draws"},
    {"--metric", "NAME", AT(metric), "tune",
     "of validations, not run.stop.metric"},
    {"--halving", NULL, AT(halving), "tune",
     "short runs first; the best third of them goes on"},
    {"--launch", "WORDS", AT(launch), "tune",
     "what starts a trial: \"mpirun -n 2\"; nothing: one process"},
    {"--texinfo", NULL, AT(texinfo), "help", "deck: as sections of the manual"},
    {"--quiet", NULL, AT(quiet), ALL, "no log on standard output"},
    {"--help", NULL, AT(help), ALL, "this text"}};

enum { N_OPTIONS = sizeof options / sizeof *options };

/* The value of option NAME at argv[*i]: "--name value" or "--name=value". */
static const char *value_of(const char *name, char **argv, int *i) {
  const size_t n = strlen(name);
  if (strncmp(argv[*i], name, n) != 0) return NULL;
  if (argv[*i][n] == '=') return argv[*i] + n + 1;
  if (argv[*i][n] != '\0' || !argv[*i + 1]) return NULL;
  return argv[++*i];
}

/* The same of one that may be left out: what follows is its own only where it
 * ends as the option says. */
static const char *value_if_any(const ts_option *o, char **argv, int *i) {
  if (strcmp(argv[*i], o->name) != 0) return value_of(o->name, argv, i);
  char end[16];
  snprintf(end, sizeof end, "%s", strchr(o->value, '.'));
  end[strlen(end) - 1] = '\0'; /* "]" */
  return argv[*i + 1] && ts_str_ends(argv[*i + 1], end) ? argv[++*i] : "";
}

static void put(ts_args *a, const ts_option *o, const char *value) {
  char *to = (char *)a + o->at;
  if (o->at == AT(sets))
    a->sets[a->n_sets++] = value;
  else
    memcpy(to, &value, sizeof value);
}

ts_err ts_option_read(ts_args *a, char **argv, int *i) {
  for (int k = 0; k < N_OPTIONS; k++) {
    const ts_option *o = &options[k];
    const char *v = !o->value          ? NULL
                    : *o->value == '[' ? value_if_any(o, argv, i)
                                       : value_of(o->name, argv, i);
    if (v) put(a, o, v);
    if (v) return TS_OK;
    if (o->value || strcmp(argv[*i], o->name) != 0) continue;
    *(bool *)((char *)a + o->at) = true;
    return TS_OK;
  }
  return ts_fail(TS_ERR_USAGE, "option %s is unknown or lacks its value",
                 argv[*i]);
}

static bool has_word(const char *words, const char *word) {
  const size_t n = strlen(word);
  for (const char *p = words; (p = strstr(p, word)); p += n)
    if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
  return false;
}

void ts_options_print(FILE *f, const char *command) {
  char left[64];
  for (int k = 0; k < N_OPTIONS; k++) {
    const ts_option *o = &options[k];
    if (!has_word(o->commands, command)) continue;
    snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "",
             o->value ? o->value : "");
    fprintf(f, "  %-20s %s\n", left, o->help);
  }
}
