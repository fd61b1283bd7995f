/* fuzz_serve.c - a file to serve, edited: opened, scored with, and laid over
 * another as a delta.  Bytes of the input are edits: where, and what. */
#include <string.h>

#include "serve/tessera_serve.h"
#include "tests/fuzz/fuzz.h"
#include "tests/serve/small_model.h"

enum { N = 2 };

static void edit(ts_str *s, const uint8_t *data, size_t size) {
  for (size_t i = 0; i + 4 <= size; i += 4) {
    uint32_t at = data[i] | (uint32_t)data[i + 1] << 8;
    /* Half of them near the end, where the index is. */
    if (data[i + 2] & 1 && s->n_bytes > 4096)
      at = (uint32_t)s->n_bytes - 1 - at % 4096;
    if (at < s->n_bytes) s->text[at] = (char)data[i + 3];
  }
}

static void score(tserve_model *m) {
  static const char *const words[N] = {"apple", "none"};
  static const int64_t ids[N] = {3, 7};
  const float dense[2 * N] = {1, 2, 3, 4};
  const tserve_bags b[2] = {{.words = words, .n_ids = N},
                            {.ids = ids, .n_ids = N}};
  const tserve_batch batch = {.n = N, .dense = dense, .features = b};
  tserve_scorer *s = NULL;
  float out[64];
  if (tserve_n_features(m) == 2 && tserve_n_dense(m) == 2 &&
      tserve_n_outputs(m) <= 32 && !tserve_scorer_open(&s, m, N, 1))
    (void)tserve_score(s, &batch, out);
  tserve_scorer_close(s);
}

/* FIRST: of ids of a dynamic table; -1: it is none. */
static ts_str made(const char *name, const char *base, int64_t changed,
                   int64_t first) {
  ts_str bytes = {0};
  small_model m;
  char path[300];
  snprintf(path, sizeof path, "%.250s", fuzz_path(name));
  FUZZ_CHECK((first < 0 ? small_create(&m, 1)
                        : small_create_dynamic(&m, 1, first, 40)) == TS_OK);
  m.changed = changed;
  FUZZ_CHECK(small_write(&m, path, TS_ROWS_INT8, base) == TS_OK);
  FUZZ_CHECK(ts_file_read(&bytes, path) == TS_OK);
  small_destroy(&m);
  return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ts_str all[2], deltas[2]; /* of rows, of ids */
  static char base[2][300];
  tserve_model *m = NULL, *right = NULL;
  for (int k = 0; k < 2 && !all[k].text; k++) {
    snprintf(base[k], sizeof base[k], "%.250s", fuzz_path(k ? "ids" : "base"));
    all[k] = made(k ? "ids" : "base", NULL, -1, k - 1);
    deltas[k] = made("delta", base[k], 4, k ? 7 : -1);
  }
  const int ids = size && (data[0] & 8) != 0;
  const ts_str *of = size && data[0] & 1 ? &deltas[ids] : &all[ids];
  ts_str own = {0};
  FUZZ_CHECK(ts_str_append_bytes(&own, of->text, of->n_bytes) == TS_OK);
  edit(&own, data + (size > 0), size - (size > 0));
  if (size > 1 && data[0] & 2) small_seal_parts(own.text, own.n_bytes);
  if (size > 1 && data[0] & 4) small_seal(own.text, own.n_bytes);
  const char *path = fuzz_file("edited", own.text, own.n_bytes);
  if (tserve_open(&m, path) == TSERVE_OK) score(m);
  FUZZ_CHECK(size || m);
  tserve_close(m);
  FUZZ_CHECK(tserve_open(&right, base[ids]) == TSERVE_OK);
  if (tserve_update(right, path) == TSERVE_OK) score(right);
  tserve_close(right);
  ts_err_clear();
  ts_str_reset(&own);
  return 0;
}
