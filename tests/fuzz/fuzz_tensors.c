/* fuzz_tensors.c - safetensors, .npy, text of words and their vectors, and an
 * index of a file with the tensor a.weight: by the first byte.  Of safetensors
 * the length of the header comes right, unless the first byte is 3, so that
 * what is thought up is the header.  A file that is taken has all of its
 * tensors within. */
#include <string.h>

#include "base/mem.h"
#include "io/tensors.h"
#include "io/vectors.h"
#include "tests/fuzz/fuzz.h"

static const char part[] = "\x40\0\0\0\0\0\0\0"
                           "{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],"
                           "\"data_offsets\":[0,8]}} "
                           "12345678";

static void read_tensors(const char *path) {
  ts_tensors *f;
  const ts_tensor *rows;
  if (ts_tensors_open(&f, path) != TS_OK) return;
  for (int32_t i = 0; i < f->n; i++) {
    const ts_tensor *t = &f->item[i];
    FUZZ_CHECK(t->at >= 0 && t->n_bytes >= 0 && t->at <= t->of->size &&
               t->n_bytes <= t->of->size - t->at);
    char shape[256];
    FUZZ_CHECK(strlen(ts_tensor_shape(shape, t)) < sizeof shape);
    (void)ts_tensors_find(f, "sparse_arch.embedding_bags.a.weight", true);
  }
  if (ts_tensors_rows(f, &rows) == TS_OK)
    FUZZ_CHECK(rows->n_bytes == rows->dims[0] * rows->dims[1] *
                                    (int64_t)ts_dtype_bytes(rows->dtype));
  ts_tensors_close(f);
}

static void read_vectors(const char *path) {
  ts_vectors *v;
  const char *word;
  float x[3];
  if (ts_vectors_open(&v, path, 3) != TS_OK) return;
  while (ts_vectors_next(v, &word) == TS_OK && word) {
    FUZZ_CHECK(*word);
    if (ts_vectors_numbers(v, x) != TS_OK) break;
  }
  ts_vectors_close(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const int three = size ? data[0] & 7 : 0,
            kind = three > 4 ? three & 3 : three;
  static const char *const names[] = {"in.safetensors", "in.npy", "in.txt",
                                      "in.safetensors",
                                      "in.safetensors.index.json"};
  uint8_t *file;
  if (!size) return 0;
  data++, size--;
  const size_t n_data = size ? data[size - 1] : 0; /* behind the header */
  const size_t before = kind ? 0 : 8, after = kind ? 0 : n_data;
  FUZZ_CHECK((file = calloc(before + size + after + 1, 1)) != NULL);
  for (size_t i = 0; i < before; i++) file[i] = (uint8_t)(size >> 8 * i);
  if (size) memcpy(file + before, data, size);
  if (kind == 4) fuzz_file("in.safetensors", part, sizeof part - 1);
  const char *path = fuzz_file(names[kind], file, before + size + after);
  free(file);
  if (kind == 2)
    read_vectors(path);
  else
    read_tensors(path);
  ts_err_clear();
  return 0;
}
