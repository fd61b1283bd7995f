/* bench_table.h - what benchmarks print: records of named values, each a line
 * of text, in columns where it has headings, and a line of JSON if asked for.
 * Rank 0 alone prints. */
#pragma once

#include "commands/commands.h"

typedef struct ts_bench_table {
  const char *name; /* "table" in JSON */
  /* "{key|format|head}{key|format|head}": the name in JSON (none: in the text
   * alone); the text around a value and how it is printed, %f or %g a number,
   * %C one as in 23,411, %B bytes as in 1.5 MiB, %s a text (empty or "s": a
   * number or a text in JSON alone); the heading of a column, of one line or
   * two, where it is one. */
  const char *fields;
} ts_bench_table;

/* JSON to --out FILE, or with --json to stdout instead of the text.
 * Collective. */
ts_err ts_bench_open(const ts_args *);
/* Local, as are those below. */
ts_err ts_bench_close(void);
void ts_bench_heads(const ts_bench_table *);
/* A value for each field: a text or a double, as its format says.  Without a
 * value (NULL, NAN) a column has "-", and a part of a sentence is left out.
 * Local. */
void ts_bench_print(const ts_bench_table *, ...);
