/* test_bench.c - `tessera bench`: tables as text, tenths of times, keys.
 * ranks: 1 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "commands/bench.h"
#include "commands/bench_table.h"
#include "commands/commands.h"
#include "tests/support/harness.h"

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

/* The K-th tenth of sorted times: the least that K tenths do not pass; and the
 * middle one. */
TS_TEST(tenths) {
  static const double x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  ck_assert_double_eq(ts_bench_tenth(x, 10, 1), 1);
  ck_assert_double_eq(ts_bench_tenth(x, 10, 5), 5);
  ck_assert_double_eq(ts_bench_tenth(x, 10, 10), 10);
  ck_assert_double_eq(ts_bench_tenth(x, 11, 1), 2);
  ck_assert_double_eq(ts_bench_tenth(x, 11, 9), 10);
  ck_assert_double_eq(ts_bench_tenth(x, 1, 0), 1);
  double y[] = {3, 1, 2, 5};
  ck_assert_double_eq(ts_bench_median(y, 0), 0);
  ck_assert_double_eq(ts_bench_median(y, 3), 2);
  ck_assert_double_eq(ts_bench_median(y, 4), 3);
}

TS_TEST(keys) {
  static double number;
  static int whole, choice;
  static const char *word;
  static const ts_bench_key keys[] = {
      {.name = "n", .number = &number, .least = 2, .most = 4},
      {.name = "whole", .whole = &whole, .most = 9},
      {.name = "of", .choice = &choice, .choices = "a|ab|b"},
      {.name = "word", .word = &word}};
  ts_args a = {.more = {"DECK", "n=2", "whole=3.9", "of=ab", "word=x=y"},
               .n_more = 5};
  ck_assert_ok(ts_bench_keys(&a, 1, keys, 4));
  ck_assert(number == 2 && whole == 3 && choice == 1);
  ck_assert_str_eq(word, "x=y");
  a = (ts_args){.more = {"n=4", "whole=0", "of=b"}, .n_more = 3};
  ck_assert_ok(ts_bench_keys(&a, 0, keys, 4));
  ck_assert(number == 4 && whole == 0 && choice == 2);
}

/* What is no key, and a choice that isn't one. */
TS_TEST(keys_refused) {
  static double number;
  static int choice;
  static const ts_bench_key keys[] = {
      {.name = "tables", .number = &number, .least = 2, .most = 4},
      {.name = "of", .choice = &choice, .choices = "a|ab|b"}};
  static const char *const bad[][2] = {
      {"tables", "bench: \"tables\" is not key=value"},
      {"tabel=3", "bench: unknown key \"tabel\"; did you mean \"tables\"?"},
      {"tbl=3", "bench: unknown key \"tbl\"; --help lists them"},
      {"a_name_of_over_thirty_one_characters=3",
       "bench: unknown key \"a_name_of_over_thirty_one_chara\"; --help "
       "lists them"},
      {"tables=", "bench: tables = \"\" is no number in 2 to 4"},
      {"tables=3x", "bench: tables = \"3x\" is no number in 2 to 4"},
      {"tables=nan", "bench: tables = \"nan\" is no number in 2 to 4"},
      {"of=abc", "bench: of = \"abc\" is none of a|ab|b"},
      {"of=", "bench: of = \"\" is none of a|ab|b"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const ts_args a = {.more = {bad[i][0]}, .n_more = 1};
    ts_err_clear();
    ck_assert_int_eq(ts_bench_keys(&a, 0, keys, 2), TS_ERR_USAGE);
    ck_assert_str_eq(ts_err_message(), bad[i][1]);
  }
}

/* Each number's bounds, as the manual has them. */
static const struct ts_bound {
  ts_err (*bench)(const ts_args *);
  const char *deck, *key;
  double least, most;
} bounds[] = {{ts_bench_attention, NULL, "length", 0, 1e6},
              {ts_bench_attention, NULL, "dim", 1, 1024},
              {ts_bench_attention, NULL, "heads", 1, 64},
              {ts_bench_attention, NULL, "tokens", 1, 1e7},
              {ts_bench_attention, NULL, "threads", 0, 1024},
              {ts_bench_attention, NULL, "iters", 1, 1000},
              {ts_bench_tbe, NULL, "tables", 1, 1000},
              {ts_bench_tbe, NULL, "rows", 1, 2e9},
              {ts_bench_tbe, NULL, "dim", 1, 8192},
              {ts_bench_tbe, NULL, "batch", 1, 1e6},
              {ts_bench_tbe, NULL, "pool", 1, 1e4},
              {ts_bench_tbe, NULL, "threads", 0, 1024},
              {ts_bench_tbe, NULL, "iters", 4, 1000},
              {ts_bench_tbe, NULL, "zipf", 0, 10},
              {ts_bench_cache, NULL, "tables", 1, 1000},
              {ts_bench_cache, NULL, "rows", 32, 2e9},
              {ts_bench_cache, NULL, "dim", 1, 8192},
              {ts_bench_cache, NULL, "batch", 1, 1e6},
              {ts_bench_cache, NULL, "pool", 1, 1e4},
              {ts_bench_cache, NULL, "threads", 0, 1024},
              {ts_bench_cache, NULL, "warm", 2, 1000},
              {ts_bench_cache, NULL, "iters", 2, 1000},
              {ts_bench_cache, NULL, "load", 0, 1},
              {ts_bench_cache, NULL, "zipf", 0, 10},
              {ts_bench_checkpoint, NULL, "mb", 1, 1e9},
              {ts_bench_checkpoint, NULL, "dim", 1, 1048576},
              {ts_bench_input, "deck", "scale", 1, 1024},
              {ts_bench_input, "deck", "iters", 4, 1e5},
              {ts_bench_input, "deck", "steps", 1, 1e5},
              {ts_bench_input, "deck", "rounds", 1, 1e5},
              {ts_bench_pipeline, "deck", "scale", 1e-6, 1e3},
              {ts_bench_pipeline, "deck", "steps", 1, 1000},
              {ts_bench_pipeline, "deck", "warm", 0, 1e5},
              {ts_bench_pipeline, "deck", "rounds", 1, 100},
              {ts_bench_step, "deck", "iters", 4, 1e9}};

TS_TESTS(bounds_of_numbers, 0, sizeof bounds / sizeof *bounds) {
  const struct ts_bound *b = &bounds[_i];
  const double beyond[] = {nextafter(b->least, -1), nextafter(b->most, 1e10)};
  for (int i = 0; i < 2; i++) {
    char word[64], expected[128];
    snprintf(word, sizeof word, "%s=%.17g", b->key, beyond[i]);
    const ts_args a = {.more = {b->deck ? b->deck : word, word},
                       .n_more = b->deck ? 2 : 1};
    snprintf(expected, sizeof expected,
             "bench: %s = \"%.17g\" is no number in %g to %g", b->key,
             beyond[i], b->least, b->most);
    ts_err_clear();
    ck_assert_int_eq(b->bench(&a), TS_ERR_USAGE);
    ck_assert_str_eq(ts_err_message(), expected);
  }
}

/* A:B, of --trace-steps and its like. */
TS_TEST(ranges) {
  static const char *const bad[] = {"",
                                    "3",
                                    "3:",
                                    ":3",
                                    "3:3",
                                    "5:3",
                                    "3:5x",
                                    "x3:5",
                                    "-1:5",
                                    "3;5",
                                    "3:9999999999999999999"};
  int64_t first = 7, end = 8;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_assert_int_eq(ts_args_range("--r", bad[i], &first, &end), TS_ERR_USAGE);
  ck_assert(first == 7 && end == 8);
  ck_assert_ok(ts_args_range("--r", "0:1", &first, &end));
  ck_assert(first == 0 && end == 1);
  ck_assert_ok(ts_args_range("--r", "10:20", &first, &end));
  ck_assert(first == 10 && end == 20);
}
