/* test_bench.c - `tessera bench`: tables as text, tenths of times, keys.
 * ranks: 1 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "commands/bench.h"
#include "commands/bench_table.h"
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
