/* parquet_none.c - no Parquet: a build without Arrow's library. */
#include <stdio.h>

#include "io/parquet.h"

bool ts_parquet_is_there(void) {
  return false;
}

static bool no_arrow(char why[TS_PARQUET_WHY]) {
  snprintf(
      why, TS_PARQUET_WHY,
      "this build has no Apache Arrow, which reads and writes Parquet: pip "
      "install pyarrow, or the packages libarrow-dev and libparquet-dev, "
      "then configure --with-arrow=DIR and make");
  return false;
}

bool ts_parquet_open(ts_parquet **out, const char *path, bool parallel,
                     char why[TS_PARQUET_WHY]) {
  (void)out;
  (void)path;
  (void)parallel;
  return no_arrow(why);
}

void ts_parquet_close(ts_parquet *p) {
  (void)p;
}

const struct ArrowSchema *ts_parquet_schema(const ts_parquet *p) {
  (void)p;
  return NULL;
}

int32_t ts_parquet_n_groups(const ts_parquet *p) {
  (void)p;
  return 0;
}

int64_t ts_parquet_rows(const ts_parquet *p, int32_t group) {
  (void)p;
  (void)group;
  return 0;
}

bool ts_parquet_read(ts_parquet *p, int32_t group, const int32_t *columns,
                     int32_t n, struct ArrowArray *to,
                     char why[TS_PARQUET_WHY]) {
  (void)p;
  (void)group;
  (void)columns;
  (void)n;
  (void)to;
  return no_arrow(why);
}

bool ts_parquet_create(ts_parquet_out **out, int fd, struct ArrowSchema *schema,
                       char why[TS_PARQUET_WHY]) {
  (void)out;
  (void)fd;
  (void)schema;
  return no_arrow(why);
}

bool ts_parquet_write(ts_parquet_out *out, struct ArrowArray *rows,
                      char why[TS_PARQUET_WHY]) {
  (void)out;
  (void)rows;
  return no_arrow(why);
}

bool ts_parquet_finish(ts_parquet_out *out, char why[TS_PARQUET_WHY]) {
  (void)out;
  return no_arrow(why);
}
