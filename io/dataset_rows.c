/* dataset_rows.c - rows that the ids of data sets need. */
#include "base/mem.h"
#include "io/dataset_impl.h"
#include "io/hdf5.h"

/* Ids of a feature that are looked at where a file doesn't say their range. */
enum { SAMPLE_IDS = 1 << 18 };

/* Files that this program writes say their largest id. */
void ts_dataset_read_max(const ts_dataset_file *f, ts_dataset_feature *x,
                         const char *name) {
  int64_t max_id;
  ts_hdf5_lock();
  const hid_t group = H5Gopen2(f->in.file, name, H5P_DEFAULT);
  if (group >= 0 &&
      ts_hdf5_get_number(group, "max_id", H5T_NATIVE_INT64, &max_id) &&
      max_id >= -1 && max_id < INT64_MAX / 2)
    x->rows = max_id < 0 ? 1 : max_id + 1;
  if (group >= 0) H5Gclose(group);
  ts_hdf5_unlock();
}

/* The largest of the first ids of a file that doesn't say it. */
static ts_err sample_ids(const ts_dataset_file *f, const ts_array *values,
                         int64_t *rows) {
  ts_err err = TS_OK;
  int64_t *ids = NULL;
  const int64_t n = values->rows < SAMPLE_IDS ? values->rows : SAMPLE_IDS;
  TS_TRY(ts_mem_many(ids, n, INPUT));
  TS_TRY(ts_array_read(&f->in, values, ids, 0, n));
  for (int64_t k = 0; k < n; k++)
    if (ids[k] >= *rows && ids[k] < INT64_MAX) *rows = ids[k] + 1;
done:
  ts_mem_free(ids);
  return err;
}

ts_err ts_dataset_needs(ts_source *src, ts_need *out, bool sample) {
  const ts_dataset *d = (const ts_dataset *)src;
  for (int32_t i = 0; i < d->n_features; i++) {
    out[i] = (ts_need){.rows = ts_scales_rows(src->scales, i)};
    if (out[i].rows) continue;
    out[i] = (ts_need){.plain = true, .rows = 1};
    if (d->ids[i].words) {
      ts_words words;
      (void)ts_source_words(src, i, &words);
      out[i] = (ts_need){.rows = words.n + 1};
      continue;
    }
    if (d->ids[i].hash || d->ids[i].modulo) {
      out[i] = (ts_need){.why = "ids that are hashed, or modulo the rows, fit "
                                "any number of them"};
      continue;
    }
    for (int32_t k = 0; k < d->n_files; k++) {
      const ts_dataset_feature *x = &d->files[k].features[i];
      out[i].sampled |= !x->rows;
      if (x->rows > out[i].rows) out[i].rows = x->rows;
      if (!x->rows && sample)
        TS_DO(sample_ids(&d->files[k], &x->values, &out[i].rows));
    }
    if (out[i].sampled)
      out[i].why = "a file does not say its largest id: tessera convert writes "
                   "one that does";
  }
  return TS_OK;
}
