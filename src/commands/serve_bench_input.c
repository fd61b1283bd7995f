/* serve_bench_input.c - batches of `tessera serve-bench`, and files of them for
 * other programs to score. */
#include "commands/serve_bench.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "commands/bench.h"

ts_err ts_serve_told(int code) {
  if (code == TSERVE_OK) return TS_OK;
  return ts_fail(code == TSERVE_MEMORY  ? TS_ERR_NOMEM
                 : code == TSERVE_INPUT ? TS_ERR_DATA
                                        : TS_ERR_CKPT,
                 "%s", tserve_error());
}

/* ---- batches ------------------------------------------------------------- */

/* N numbers in [LEAST, LEAST + 1). */
static void draw_numbers(float *x, int64_t n, float least, uint32_t key) {
  uint32_t r[4];
  for (int64_t i = 0; i < n; i++) {
    if (i % 4 == 0) ts_rng4(r, 1, TS_RNG_TEST, (uint64_t)i, key, 1);
    x[i] = least + ts_rng_unit(r[i % 4]);
  }
}

/* Ids of each feature of batch K, and what the batch is made of. */
static void draw_batch(ts_serve_inputs *in, int k) {
  const int32_t n_features = tserve_n_features(in->model);
  const int64_t each = (int64_t)in->n * in->n_ids;
  tserve_bags *bags = in->bags + (int64_t)k * n_features;
  for (int32_t f = 0; f < n_features; f++) {
    const int64_t first = ((int64_t)k * n_features + f) * each;
    const int64_t rows = tserve_rows(in->model, f);
    const int64_t most = rows < 1 ? 1 : rows < INT32_MAX ? rows : INT32_MAX;
    for (int64_t i = 0; i < each; i++)
      in->ids[first + i] =
          tserve_id(in->model, f,
                    ts_bench_draw(first + i, (uint32_t)in->n, most, in->alpha));
    bags[f] = (tserve_bags){.ids = in->ids + first,
                            .weights = in->weights + first,
                            .offsets = in->offsets,
                            .n_ids = each};
  }
  in->batch[k] = (tserve_batch){
      .n = in->n,
      .dense = in->dense + (int64_t)k * in->n * tserve_n_dense(in->model),
      .features = bags};
}

ts_err ts_serve_inputs_draw(ts_serve_inputs *in) {
  const int64_t n_features = tserve_n_features(in->model);
  const int64_t samples = (int64_t)TS_SERVE_BATCHES * in->n;
  const int64_t n_ids = samples * in->n_ids * n_features;
  const int64_t n_dense = samples * tserve_n_dense(in->model);
  TS_DO(ts_mem_many(in->bags, TS_SERVE_BATCHES * n_features, INPUT));
  TS_DO(ts_mem_many(in->ids, n_ids, INPUT));
  TS_DO(ts_mem_many(in->weights, n_ids, INPUT));
  TS_DO(ts_mem_many(in->offsets, (int64_t)in->n + 1, INPUT));
  TS_DO(ts_mem_many(in->dense, n_dense, INPUT));
  TS_DO(ts_mem_many(in->out, samples * tserve_n_outputs(in->model), INPUT));
  for (int64_t i = 0; i <= in->n; i++) in->offsets[i] = i * in->n_ids;
  draw_numbers(in->weights, n_ids, 0.5f, 1);
  draw_numbers(in->dense, n_dense, 0, 2);
  for (int k = 0; k < TS_SERVE_BATCHES; k++) draw_batch(in, k);
  return TS_OK;
}

void ts_serve_inputs_free(ts_serve_inputs *in) {
  ts_mem_free_all(in->bags, in->ids, in->weights, in->offsets, in->dense,
                  in->out);
  *in = (ts_serve_inputs){0};
}

/* ---- files --------------------------------------------------------------- */

/* NumPy's form, version 1.0. */
static ts_err write_npy(const char *folder, const char *name, int32_t n,
                        const char *type, const char *shape, const void *x,
                        int64_t bytes) {
  ts_err err = TS_OK;
  ts_str path = {0};
  char head[128];
  FILE *f = NULL;
  TS_TRY(ts_str_append(&path, "%s/%s_%d.npy", folder, name, n));
  memset(head, ' ', sizeof head);
  memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10); /* 0x76 bytes follow */
  const int used = snprintf(
      head + 10, sizeof head - 10,
      "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
  head[10 + used] = ' ';
  head[sizeof head - 1] = '\n';
  f = ts_file_stream(path.text, "wb");
  if (!f || fwrite(head, sizeof head, 1, f) != 1 ||
      (bytes && fwrite(x, (size_t)bytes, 1, f) != 1))
    err = ts_fail(TS_ERR_IO, "%s: %s", path.text, ts_file_why());
  if (f && ts_file_close(f) != 0 && err == TS_OK)
    err = ts_fail(TS_ERR_IO, "%s: %s", path.text, ts_file_why());
done:
  ts_str_reset(&path);
  return err;
}

static ts_err score_all(ts_serve_inputs *in) {
  tserve_scorer *s = NULL;
  const int64_t width = tserve_n_outputs(in->model);
  int code = tserve_scorer_open(&s, in->model, in->n, 1);
  for (int k = 0; k < TS_SERVE_BATCHES && code == TSERVE_OK; k++)
    code = tserve_score(s, &in->batch[k], in->out + k * width * in->n);
  const ts_err err = ts_serve_told(code);
  tserve_scorer_close(s);
  return err;
}

ts_err ts_serve_inputs_dump(ts_serve_inputs *in, const char *folder) {
  char of_ids[96], of_dense[96], of_out[96];
  const int32_t n = in->n, n_features = tserve_n_features(in->model);
  const int32_t n_dense = tserve_n_dense(in->model);
  const int32_t n_outputs = tserve_n_outputs(in->model);
  const int64_t samples = (int64_t)TS_SERVE_BATCHES * n;
  const int64_t n_ids = samples * n_features * in->n_ids;
  TS_DO(score_all(in));
  snprintf(of_ids, sizeof of_ids, "%d, %d, %d, %d", TS_SERVE_BATCHES,
           n_features, n, in->n_ids);
  snprintf(of_dense, sizeof of_dense, "%d, %d, %d", TS_SERVE_BATCHES, n,
           n_dense);
  snprintf(of_out, sizeof of_out, "%d, %d, %d", TS_SERVE_BATCHES, n, n_outputs);
  mkdir(folder, 0777); /* where it fails writing says so */
  TS_DO(write_npy(folder, "ids", n, "<i8", of_ids, in->ids, 8 * n_ids));
  TS_DO(write_npy(folder, "weights", n, "<f4", of_ids, in->weights, 4 * n_ids));
  TS_DO(write_npy(folder, "dense", n, "<f4", of_dense, in->dense,
                  4 * samples * n_dense));
  return write_npy(folder, "out", n, "<f4", of_out, in->out,
                   4 * samples * n_outputs);
}
