/* keys.c - keys of any format. */
#include "io/keys.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

ts_err ts_keys_columns(ts_keys *k, const ts_strings *names) {
  k->n = names->n;
  TS_DO(ts_mem_many(k->columns, k->n, INPUT));
  TS_DO(ts_mem_many(k->data, k->n, INPUT));
  TS_DO(ts_mem_many(k->capacity, k->n, INPUT));
  for (int32_t i = 0; i < k->n; i++)
    k->columns[i] = (ts_sheet_column){
        .name = names->item[i], .group = "keys", .width = 1, .n_cells = 1};
  return TS_OK;
}

ts_err ts_keys_open(ts_keys **out, const ts_config *c, ts_split split,
                    const ts_strings *names, ts_comm *comm) {
  ts_err err = TS_OK;
  const ts_source_ops *ops = NULL;
  ts_strings paths = {0};
  TS_TRY(ts_agree(comm, ts_source_files(&ops, &paths, c, split)));
  if (!ops->keys)
    TS_THROW(TS_ERR_USAGE, "--keys: data of format %s has no columns to name",
             ops->format);
  TS_TRY(ops->keys(out, c, &paths, names, comm));
done:
  ts_source_files_free(&paths);
  return err;
}

ts_err ts_keys_asked_by(const char *who, ts_err err) {
  static const char keys[] = "--keys";
  ts_err_record was, now;
  if (err == TS_OK) return err;
  ts_err_take(&was);
  now = was;
  const char *at = strstr(was.text, keys);
  if (at)
    snprintf(now.text, sizeof now.text, "%.*s%s%.3000s", (int)(at - was.text),
             was.text, who, at + strlen(keys));
  ts_err_put(&now);
  return err;
}

ts_err ts_keys_read(ts_keys *k, int64_t first, int64_t n) {
  for (int32_t i = 0; i < k->n; i++) {
    const int64_t cell =
        k->columns[i].kind == TS_SHEET_TEXT ? k->columns[i].width : 8;
    TS_DO(ts_mem_reserve(&k->data[i], &k->capacity[i], (size_t)(n * cell),
                         TS_TAG_INPUT));
  }
  return n ? k->read(k, first, n) : TS_OK;
}

void ts_keys_close(ts_keys *k) {
  if (!k) return;
  for (int32_t i = 0; k->data && i < k->n; i++) ts_mem_free(k->data[i]);
  ts_mem_free_all(k->data, k->capacity, k->columns);
  k->close(k);
}
