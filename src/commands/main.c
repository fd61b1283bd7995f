/* main.c - the command line.
 *
 * Commands agree on their errors before they return, so rank 0 speaks for
 * all and every rank returns the same code; an error that one rank has alone
 * is printed by that rank, which ends all (runtime/watchdog.h). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "commands/commands.h"
#include "config.h"
#include "runtime/comm.h"
#include "runtime/trace.h"
#include "runtime/watchdog.h"
#include "train/signals.h"

static void print_usage(FILE *f) {
  fprintf(f,
          "tessera %s: trains recommendation models with sharded embedding "
          "tables\n",
          PACKAGE_VERSION);
  fprintf(f, "usage: [mpirun -n RANKS] tessera COMMAND ...\n\n");
  for (const ts_command *c = ts_commands; c->name; c++)
    fprintf(f, "  %-11s %s\n", c->name, c->help);
  fprintf(f, "tessera COMMAND --help lists its options, tessera help deck all "
             "keys.\n");
}

/* Before MPI is started only the launcher knows: errors of the command line
 * and commands for one rank are for the first rank to print. */
static bool mpi_started;

static bool is_first(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                      "PMI_RANK", "MPI_LOCALRANKID"};
  const char *rank = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !rank; i++)
    rank = getenv(names[i]);
  return mpi_started ? ts_mpi_rank() == 0 : !rank || !strcmp(rank, "0");
}

static ts_err unknown_command(const char *name) {
  const char *near = NULL;
  for (const ts_command *c = ts_commands; c->name; c++)
    if (ts_str_distance(c->name, name) <= 2 && !near) near = c->name;
  return ts_fail(TS_ERR_USAGE, "no command \"%s\"%s%s%s", name,
                 near ? "; did you mean \"" : "", near ? near : "",
                 near ? "\"?" : "; tessera help lists them");
}

static ts_err too_many(const ts_command *c, const char *word) {
  if (c->n_words && strchr(word, '='))
    return ts_fail(TS_ERR_USAGE,
                   "tessera %s takes no word \"%s\"; --set %s overrides a key "
                   "of the deck",
                   c->name, word, word);
  return ts_fail(TS_ERR_USAGE,
                 "tessera %s takes no word \"%s\"; usage: "
                 "tessera %s %s",
                 c->name, word, c->name, c->usage);
}

static ts_err parse(ts_args *a, const ts_command *c, int argc, char **argv) {
  int n = 0; /* words */
  TS_DO(ts_mem_array(&a->sets, argc, sizeof *a->sets, TS_TAG_MISC));
  for (int i = 2; i < argc; i++) {
    if (argv[i][0] == '-' && argv[i][1])
      TS_DO(ts_option_read(a, argv, &i));
    else if (++n > c->n_words)
      TS_DO(too_many(c, argv[i]));
    else if (!a->target)
      a->target = argv[i];
    else
      a->more[a->n_more++] = argv[i];
  }
  return TS_OK;
}

static const ts_command *find(const char *name) {
  for (const ts_command *c = ts_commands; c->name; c++)
    if (!strcmp(c->name, name)) return c;
  return NULL;
}

static ts_err run(const ts_command *c, const ts_args *a, int *argc,
                  char ***argv) {
  ts_err err = TS_OK;
  if (c->run == ts_cmd_train || c->run == ts_cmd_import)
    TS_TRY(ts_signals_block());
  if (c->mpi) TS_TRY(ts_mpi_start(argc, argv));
  mpi_started = c->mpi;
  ts_log_rank(ts_mpi_rank());
  TS_TRY(ts_fault_set(getenv("TESSERA_FAULT"), ts_mpi_rank()));
  ts_log_quiet(a->quiet);
  /* Commands for one rank say the same on all: the first one does it. */
  if (c->mpi || is_first()) TS_TRY(c->run(a));
done:
  if (mpi_started && ts_mpi_size() > 1 && ts_err_is_own(err))
    ts_watch_fail(err);
  return err;
}

static void print_help(const ts_command *c) {
  printf("usage: tessera %s %s\n  %s\n", c->name, c->usage, c->help);
  if (c->run == ts_cmd_bench) ts_bench_list(stdout);
  ts_options_print(stdout, c->name);
}

/* Help on C is asked for.  A benchmark knows its own keys. */
static bool asks_help(const ts_command *c, int argc, char **argv) {
  for (int i = 2; i < argc; i++)
    if (!strcmp(argv[i], "--help")) return c->run != ts_cmd_bench || i == 2;
  return false;
}

/* Answers what needs no command to run (--help, --version).  The exit code, or
 * -1 where there is a command. */
static int answer(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  const bool help = !strcmp(word, "help");
  const bool of = help && argc > 2 && strcmp(argv[2], "--help") != 0;
  const ts_command *c = find(of ? argv[2] : word);
  if (c && !of && !asks_help(c, argc, argv)) c = NULL;
  if (c && is_first()) print_help(c);
  if (c) return 0;
  if (argc > 1 && strcmp(word, "--help") != 0 && !(help && argc < 3)) return -1;
  if (is_first()) print_usage(argc < 2 ? stderr : stdout);
  return argc < 2 && is_first() ? ts_err_exit_code(TS_ERR_USAGE) : 0;
}

/* Training goes on without its terminal; what is asked for on stdout has to
 * arrive there. */
static ts_err lost_output(const ts_args *a) {
  if (a->command && !strcmp(a->command, "train")) return TS_OK;
  const ts_err err =
      ts_fail(TS_ERR_IO, "stdout can't be written: the output is incomplete");
  if (is_first()) ts_log_error(ts_err_message());
  return err;
}

int main(int argc, char **argv) {
  ts_args args = {.began = ts_now()};
  ts_err err = TS_OK;
  const ts_command *c = NULL;
  /* Pipes and files that take no more are errors by errno, not signals. */
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  const int answered = answer(argc, argv);
  if (answered >= 0) return answered;
  args.command = !strcmp(argv[1], "--version") ? "version" : argv[1];
  c = find(args.command);
  err = c ? parse(&args, c, argc, argv) : unknown_command(argv[1]);
  if (err == TS_OK) err = run(c, &args, &argc, &argv);
  if (err != TS_OK && err != TS_ERR_STOPPED && is_first())
    ts_log_error(*ts_err_message() ? ts_err_message() : ts_err_name(err));
  ts_mem_free(args.sets);
  ts_mpi_stop();
  if ((fflush(stdout) != 0 || ferror(stdout)) && err == TS_OK)
    err = lost_output(&args);
  fflush(NULL);
#ifdef TS_DEBUG
  if (ts_mem_leaks() && err == TS_OK) return 1;
#endif
  /* A launcher kills all at the first code that is not 0: without MPI that
   * has to be the one whose message counts. */
  return mpi_started || is_first() ? ts_err_exit_code(err) : 0;
}
