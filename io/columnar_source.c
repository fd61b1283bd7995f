/* columnar_source.c - Parquet and Arrow's own files as data: rows of the same
 * columns that CSV has (data.columns, data.csv), by the same code. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "io/columnar_write.h"
#include "io/csv_impl.h"
#include "io/keys.h"

static bool begins(const char *path, const char *magic) {
  char head[8] = {0};
  FILE *f = fopen(path, "rb");
  const size_t n = strlen(magic), got = f ? fread(head, 1, n, f) : 0;
  if (f) fclose(f);
  return got == n && !memcmp(head, magic, n);
}

static bool probe_parquet(const char *path) {
  return begins(path, "PAR1") || ts_str_ends(path, ".parquet");
}

static bool probe_arrow(const char *path) {
  return begins(path, "ARROW1") || ts_str_ends(path, ".arrow") ||
         ts_str_ends(path, ".feather");
}

extern const ts_source_ops ts_source_parquet, ts_source_arrow;

static ts_err open_parquet(ts_source **out, const ts_config *c, ts_split split,
                           const char *state, const ts_strings *paths,
                           ts_comm *comm) {
  return ts_csv_open(out, &ts_source_parquet, c, split, state, paths, true,
                     comm);
}

static ts_err open_arrow(ts_source **out, const ts_config *c, ts_split split,
                         const char *state, const ts_strings *paths,
                         ts_comm *comm) {
  return ts_csv_open(out, &ts_source_arrow, c, split, state, paths, true, comm);
}

#define COLUMNAR                                                               \
  .has_where = true, .has_items = true, .needs = ts_csv_needs,                 \
  .learn = ts_csv_learn, .close = ts_csv_close, .read = ts_csv_read,           \
  .gather = ts_csv_gather, .lengths = ts_csv_lengths,                          \
  .state_save = ts_source_save_learnt, .keys = ts_keys_of_columnar

const ts_source_ops ts_source_parquet = {.format = "parquet",
                                         .probe = probe_parquet,
                                         .open = open_parquet,
                                         .write = ts_columnar_write,
                                         COLUMNAR};

const ts_source_ops ts_source_arrow = {.format = "arrow",
                                       .probe = probe_arrow,
                                       .open = open_arrow,
                                       .write = ts_columnar_write_arrow,
                                       COLUMNAR};
