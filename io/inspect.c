/* inspect.c - what a checkpoint or a data set holds. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"

typedef struct ts_inspection {
  const char *path;
  int fd;
  bool verify;
  char *block;
  int64_t n_sets, n_bytes, n_damaged, n_unchecked;
} ts_inspection;

static void print_shape(const char *name, const ts_stored *s) {
  char size[32], shape[64];
  ts_shape_text(shape, s->rows, s->cols);
  printf("  %-72s %-20s %-5s %10s\n", name, shape, ts_dtype_name(s->dtype),
         ts_str_bytes(size, ts_item_bytes(s->dtype, s->rows, s->cols)));
}

/* Every block against its checksum; damaged ones are named. */
static void verify(ts_inspection *i, const ts_stored *s, const char *name) {
  const int64_t n = ts_blocks(ts_item_bytes(s->dtype, s->rows, s->cols));
  if (!s->crc || s->at < 0) {
    i->n_unchecked++;
    return;
  }
  for (int64_t b = 0; b < n; b++)
    if (ts_stored_block(s, i->fd, i->path, name, b, i->block) != TS_OK) {
      printf("  DAMAGED: %s\n", ts_err_message());
      ts_err_clear();
      i->n_damaged++;
    }
}

static herr_t look_at(hid_t file, const char *name, const H5O_info_t *info,
                      void *arg) {
  ts_inspection *i = arg;
  ts_stored s;
  if (info->type != H5O_TYPE_DATASET || !strncmp(name, "check/", 6)) return 0;
  if (ts_stored_open(&s, file, i->path, name) != TS_OK) {
    const bool text = strstr(ts_err_message(), "checksums") != NULL;
    if (!text) printf("  DAMAGED or unknown: %s\n", ts_err_message());
    ts_err_clear();
    /* Small values have no checksums of their own. */
    i->n_damaged += !text;
    ts_stored_reset(&s);
    return 0;
  }
  i->n_sets++;
  i->n_bytes += ts_item_bytes(s.dtype, s.rows, s.cols);
  print_shape(name, &s);
  if (i->verify) verify(i, &s, name);
  ts_stored_reset(&s);
  return 0;
}

/* Prints a text of the file; characters that could steer the terminal become
 * '?'. */
static void print_text(const ts_ckpt *c, const char *path, const char *head) {
  const ts_ckpt_value *v = ts_ckpt_value_of(c, path);
  if (!v || v->dtype != TS_U8) return;
  printf("%s\n", head);
  for (const unsigned char *p = v->ptr; *p; p++)
    putchar((*p < ' ' && *p != '\n' && *p != '\t') || *p == 127 ? '?' : *p);
  putchar('\n');
}

static void print_number(const ts_ckpt *c, const char *path, const char *head) {
  const ts_ckpt_value *v = ts_ckpt_value_of(c, path);
  int64_t x;
  if (!v || v->dtype != TS_I64 || v->n != 1) return;
  memcpy(&x, v->ptr, sizeof x);
  printf("%s %lld\n", head, (long long)x);
}

/* How many ids dynamic tables have: where the last of their parts ends. */
static void print_ids(const ts_ckpt *c) {
  static const char head[] = "meta/dynamic/";
  for (int32_t i = 0; i < c->n_values; i++) {
    const ts_ckpt_value *v = &c->values[i];
    int64_t n;
    if (strncmp(v->path, head, strlen(head)) != 0) continue;
    if (v->dtype != TS_I64 || v->n < 1) continue;
    memcpy(&n, (const int64_t *)v->ptr + v->n - 1, sizeof n);
    printf("ids of table %s: %lld\n", v->path + strlen(head), (long long)n);
  }
}

static void print_kind(const ts_ckpt *c) {
  if (c->kind == TS_CKPT_FULL)
    printf("checkpoint of step %lld\n", (long long)c->step);
  else
    printf("%s of step %lld: rows that have changed since step %lld\n",
           c->kind == TS_CKPT_DELTA ? "delta" : "weights", (long long)c->step,
           (long long)c->parent.step);
}

static ts_err print_values(const char *path) {
  ts_ckpt c = {0};
  ts_err err = ts_ckpt_peek(&c, path);
  if (err == TS_OK) {
    print_kind(&c);
    print_number(&c, "meta/ranks", "written by ranks:");
    print_number(&c, "meta/seed", "seed:");
    print_number(&c, "loader/epoch", "epoch:");
    print_number(&c, "loader/next_sample", "next sample:");
    print_ids(&c);
    print_text(&c, "meta/versions", "versions:");
    print_text(&c, "meta/plan", "plan:");
  }
  ts_ckpt_reset(&c);
  return err;
}

static bool is_dataset(hid_t file) {
  bool found = false;
  ts_hdf5_lock();
  found = H5Lexists(file, "labels", H5P_DEFAULT) > 0 &&
          H5Lexists(file, "model", H5P_DEFAULT) <= 0;
  ts_hdf5_unlock();
  return found;
}

static ts_err list(ts_inspection *i, hid_t file, ts_err code) {
  char size[32];
  ts_hdf5_lock();
  const herr_t rc = H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, look_at, i);
  ts_hdf5_unlock();
  printf("%lld datasets, %s\n", (long long)i->n_sets,
         ts_str_bytes(size, i->n_bytes));
  if (rc < 0) return ts_fail(code, "%s: is damaged", i->path);
  if (i->n_damaged)
    return ts_fail(code, "%s: %lld damaged pieces", i->path,
                   (long long)i->n_damaged);
  if (i->verify)
    printf("verified%s\n", i->n_unchecked ? " (what has checksums)" : "");
  return TS_OK;
}

ts_err ts_inspect(const char *path, bool verify_all) {
  ts_err err = TS_OK;
  hid_t file = -1;
  ts_inspection i = {.path = path, .fd = -1, .verify = verify_all};
  TS_TRY(ts_hdf5_open(&file, path, TS_ERR_CKPT));
  const bool dataset = is_dataset(file);
  i.fd = ts_file_open(path, O_RDONLY);
  if (i.fd < 0) TS_THROW(TS_ERR_IO, "%s: can't be opened", path);
  TS_TRY(ts_mem_alloc(&i.block, TS_BLOCK_BYTES, TS_TAG_CHECKPOINT));
  printf("%s\n", path);
  if (!dataset) TS_TRY(print_values(path));
  TS_TRY(list(&i, file, dataset ? TS_ERR_DATA : TS_ERR_CKPT));
done:
  if (file >= 0) {
    ts_hdf5_lock();
    H5Fclose(file);
    ts_hdf5_unlock();
  }
  if (i.fd >= 0) close(i.fd);
  ts_mem_free(i.block);
  return err;
}
