/* test_hostile.c - HDF5 files that lead out of themselves, or that say of
 * themselves what would take all memory: refused before anything of it is
 * read or asked for, with a message that names file and dataset; as data sets
 * (code 3) and as checkpoints (code 4).  ranks: 1 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/checkpoint.h"
#include "io/deck.h"
#include "io/hdf5.h"
#include "io/source.h"
#include "tests/harness.h"
#include "train/metrics.h"

enum { N = 8, MEMORY_MAX = 32 << 20 };

static char dir[64], file_path[96];

static const char deck[] =
    "run = { steps = 1; };\n"
    "data = { train = \"in.h5\"; format = \"dataset\"; global_batch = 4; };\n"
    "tables = ( { name = \"u\"; rows = 100; dim = 4; features = \"u\"; } );\n"
    "model = { dense_features = 2; dense_arch = [4]; over_arch = [1]; };\n";

static void start(void) {
  strcpy(dir, "/tmp/tessera-hostile-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(dir));
  snprintf(file_path, sizeof file_path, "%s/in.h5", dir);
}

static void stop(void) {
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  ck_assert_int_eq(system(command), 0);
}

/* ---- right files --------------------------------------------------------- */

static void put(hid_t file, const char *name, hid_t type, int rank,
                hsize_t rows, hsize_t cols) {
  const int64_t values[4 * N] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const hsize_t dims[2] = {rows, cols};
  ck_assert_ok(ts_hdf5_make_groups(file, name, TS_ERR_DATA));
  const hid_t space = H5Screate_simple(rank, dims, NULL);
  const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT,
                               H5P_DEFAULT, H5P_DEFAULT);
  ck_assert_int_ge(
      H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
      0);
  H5Dclose(set);
  H5Sclose(space);
}

static void put_head(hid_t file, const char *format, const char *count,
                     int64_t n) {
  const int64_t one = 1;
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, strlen(format) + 1);
  ck_assert_ok(ts_hdf5_put_attr(file, "format", text, format, TS_ERR_DATA));
  ck_assert_ok(
      ts_hdf5_put_attr(file, "version", H5T_NATIVE_INT64, &one, TS_ERR_DATA));
  ck_assert_ok(
      ts_hdf5_put_attr(file, "complete", H5T_NATIVE_INT64, &one, TS_ERR_DATA));
  ck_assert_ok(
      ts_hdf5_put_attr(file, count, H5T_NATIVE_INT64, &n, TS_ERR_DATA));
  H5Tclose(text);
}

/* Both kinds of file have "set", which the edits are about: the labels of a
 * data set, the weights of a checkpoint. */
static const char *set_name;

static hid_t make(bool checkpoint) {
  ts_hdf5_lock();
  ts_hdf5_unlock();
  const hid_t file =
      H5Fcreate(file_path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ck_assert_int_ge(file, 0);
  if (checkpoint) {
    set_name = "model/w";
    put_head(file, "tessera-checkpoint", "step", 3);
    put(file, set_name, H5T_IEEE_F32LE, 1, N, 0);
    put(file, "meta/plan", H5T_STD_U8LE, 1, 4, 0);
    return file;
  }
  set_name = "labels";
  put_head(file, "tessera-dataset", "num_samples", N);
  put(file, "labels", H5T_IEEE_F32LE, 1, N, 0);
  put(file, "dense", H5T_IEEE_F32LE, 2, N, 2);
  put(file, "sparse/u/values", H5T_STD_I64LE, 1, N, 0);
  return file;
}

/* ---- edits --------------------------------------------------------------- */

/* A dataset in place of "set", of which nothing is written. */
static void replace(hid_t file, hid_t type, int rank, const hsize_t *dims,
                    hid_t storage) {
  const hid_t space = H5Screate_simple(rank, dims, NULL);
  ck_assert_int_ge(H5Ldelete(file, set_name, H5P_DEFAULT), 0);
  const hid_t set = H5Dcreate2(file, set_name, type, space, H5P_DEFAULT,
                               storage, H5P_DEFAULT);
  ck_assert_int_ge(set, 0);
  H5Dclose(set);
  H5Sclose(space);
  H5Pclose(storage);
}

static void external_link(hid_t file) {
  H5Ldelete(file, set_name, H5P_DEFAULT);
  ck_assert_int_ge(H5Lcreate_external("/etc/passwd", "/x", file, set_name,
                                      H5P_DEFAULT, H5P_DEFAULT),
                   0);
}

/* A link of the file's own that leads to one that leads out. */
static void soft_link_out(hid_t file) {
  H5Ldelete(file, set_name, H5P_DEFAULT);
  H5Lcreate_soft("/way/out", file, set_name, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t g =
      H5Gcreate2(file, "way", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("other.h5", "/x", g, "out", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(g);
}

static void group_in_itself(hid_t file) {
  const hid_t g =
      H5Gcreate2(file, "round", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(g, ".", g, "round", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(g);
}

static void external_storage(hid_t file) {
  const hsize_t dims[] = {N};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(p, "/etc/passwd", 0, 4 * N);
  replace(file, H5T_IEEE_F32LE, 1, dims, p);
}

static void virtual_storage(hid_t file) {
  const hsize_t dims[] = {N};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  const hid_t space = H5Screate_simple(1, dims, NULL);
  H5Pset_virtual(p, space, "other.h5", "/x", space);
  replace(file, H5T_IEEE_F32LE, 1, dims, p);
  H5Sclose(space);
}

static void plugin_filter(hid_t file) {
  const hsize_t dims[] = {N};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(p, 1, dims);
  H5Pset_filter(p, 32000, H5Z_FLAG_OPTIONAL, 0, NULL);
  replace(file, H5T_IEEE_F32LE, 1, dims, p);
}

static void nothing_behind(hid_t file) {
  const hsize_t dims[] = {(hsize_t)1 << 40};
  replace(file, H5T_IEEE_F32LE, 1, dims, H5Pcreate(H5P_DATASET_CREATE));
}

static void overflows(hid_t file) {
  const hsize_t dims[] = {(hsize_t)1 << 33, (hsize_t)1 << 32};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[] = {1, 1};
  H5Pset_chunk(p, 2, chunk);
  replace(file, H5T_IEEE_F32LE, 2, dims, p);
}

static void chunks_too_large(hid_t file) {
  const hsize_t dims[] = {(hsize_t)1 << 29};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(p, 1, dims);
  replace(file, H5T_IEEE_F32LE, 1, dims, p);
}

/* Zeros by the terabyte in a few chunks. */
static void packed(hid_t file) {
  const hsize_t dims[] = {(hsize_t)1 << 38}, chunk[] = {1 << 20};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(p, 1, chunk);
  H5Pset_deflate(p, 9);
  replace(file, H5T_IEEE_F32LE, 1, dims, p);
}

static void no_numbers(hid_t file) {
  const hsize_t dims[] = {N};
  const hid_t type = H5Tvlen_create(H5T_IEEE_F32LE);
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_layout(p, H5D_COMPACT);
  replace(file, type, 1, dims, p);
  H5Tclose(type);
}

/* An attribute of a thousand numbers where one is read: the header's room on
 * the stack is for one. */
static void long_attribute(hid_t file) {
  const hsize_t dims[] = {1000};
  int64_t ones[1000];
  for (int i = 0; i < 1000; i++) ones[i] = 1;
  H5Adelete(file, "version");
  const hid_t space = H5Screate_simple(1, dims, NULL);
  const hid_t a = H5Acreate2(file, "version", H5T_STD_I64LE, space, H5P_DEFAULT,
                             H5P_DEFAULT);
  ck_assert_int_ge(H5Awrite(a, H5T_NATIVE_INT64, ones), 0);
  H5Aclose(a);
  H5Sclose(space);
}

static const struct {
  void (*edit)(hid_t);
  const char *words;
} edits[] = {
    {external_link, "is an external link"},
    {soft_link_out, "out is an external link"},
    {group_in_itself, "round is deeper in groups"},
    {external_storage, "has its data in other files"},
    {virtual_storage, "is made of other datasets (virtual)"},
    {plugin_filter, "is packed by filter 32000"},
    {nothing_behind, "is larger than what the file holds of it"},
    {overflows, "has an impossible size"},
    {chunks_too_large, "has chunks over 1 GiB"},
    {packed, "is larger than what the file holds of it"},
    {no_numbers, ""},
    {long_attribute, "version 0"},
};
enum { N_EDITS = sizeof edits / sizeof *edits };

/* ---- reading ------------------------------------------------------------- */

static ts_err read_dataset(ts_comm *comm) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_source *s = NULL;
  ts_batch_store *store = NULL;
  TS_TRY(ts_deck_parse(&c, deck, dir, NULL, 0));
  TS_TRY(ts_source_open(&s, c, TS_SPLIT_TRAIN, NULL, comm));
  TS_TRY(ts_batch_store_create(&store, c, NULL));
  TS_TRY(s->ops->read(s, store, 0, N));
done:
  ts_batch_store_destroy(store);
  ts_source_close(s);
  ts_deck_destroy(c);
  return err;
}

static ts_err read_checkpoint(ts_comm *comm) {
  ts_err err = TS_OK;
  float x[N];
  ts_ckpt c = {0};
  ts_ckpt_item *item;
  TS_TRY(ts_ckpt_add_item(&c, "model/w", TS_F32, N, 0, &item));
  TS_TRY(ts_ckpt_add_piece(item, false, true, 0, N, x));
  TS_TRY(ts_ckpt_load(&c, file_path, false, NULL, comm));
done:
  ts_ckpt_reset(&c);
  return err;
}

static ts_err read_file(const ts_fixture *f, bool checkpoint) {
  return checkpoint ? read_checkpoint(f->comm) : read_dataset(f->comm);
}

/* ERR, of the right code, says PATH and WORDS; memory was not asked for. */
static void refused(ts_err err, bool checkpoint, const char *words) {
  ck_assert_int_eq(err, checkpoint ? TS_ERR_CKPT : TS_ERR_DATA);
  ck_assert_int_eq(ts_err_exit_code(err), checkpoint ? 4 : 3);
  ck_assert_msg(strstr(ts_err_message(), words) != NULL, "no \"%s\" in: %s",
                words, ts_err_message());
  ck_assert_msg(strstr(ts_err_message(), file_path) != NULL, "%s",
                ts_err_message());
  ck_assert_int_lt(ts_mem_total(TS_SPACE_HOST).peak_bytes, MEMORY_MAX);
  ts_err_clear();
}

START_TEST(right_files_are_read) {
  ts_fixture f;
  ts_fixture_start(&f, true, 1);
  H5Fclose(make(_i));
  ck_assert_ok(read_file(&f, _i));
  ts_fixture_stop(&f);
}
END_TEST

START_TEST(edited_files_are_refused) {
  const bool checkpoint = _i >= N_EDITS;
  ts_fixture f;
  ts_fixture_start(&f, true, 1);
  const hid_t file = make(checkpoint);
  edits[_i % N_EDITS].edit(file);
  H5Fclose(file);
  ts_mem_forget_peaks();
  refused(read_file(&f, checkpoint), checkpoint, edits[_i % N_EDITS].words);
  ts_fixture_stop(&f);
}
END_TEST

/* Columns that would be cut to 32 bits and fit then: of dense features. */
START_TEST(columns_are_not_cut) {
  const hsize_t dims[] = {0, ((hsize_t)1 << 32) + 2};
  ts_fixture f;
  ts_fixture_start(&f, true, 1);
  const hid_t file = make(false);
  const int64_t none = 0;
  set_name = "dense";
  replace(file, H5T_IEEE_F32LE, 2, dims, H5Pcreate(H5P_DATASET_CREATE));
  H5Adelete(file, "num_samples");
  ck_assert_ok(ts_hdf5_put_attr(file, "num_samples", H5T_NATIVE_INT64, &none,
                                TS_ERR_DATA));
  H5Ldelete(file, "labels", H5P_DEFAULT);
  put(file, "labels", H5T_IEEE_F32LE, 1, 0, 0);
  H5Fclose(file);
  refused(read_dataset(f.comm), false, "dense is not an array of (N) or");
  ts_fixture_stop(&f);
}
END_TEST

/* A value of a checkpoint from another file: inspect would print it. */
START_TEST(values_are_of_the_file) {
  const hsize_t dims[] = {100};
  ts_fixture f;
  ts_ckpt c = {0};
  ts_fixture_start(&f, true, 1);
  const hid_t file = make(true), p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(p, "/etc/passwd", 0, 100);
  set_name = "meta/plan";
  replace(file, H5T_STD_U8LE, 1, dims, p);
  H5Fclose(file);
  refused(ts_ckpt_peek(&c, file_path), true,
          "meta/plan has its data in other files");
  ts_ckpt_reset(&c);
  ts_fixture_stop(&f);
}
END_TEST

/* Metrics of a size that only the file's word stands for. */
START_TEST(windows_are_looked_up_first) {
  const int64_t total = (int64_t)1 << 40;
  const uint8_t byte = 1;
  ts_fixture f;
  ts_metrics *m;
  ts_ckpt c = {0};
  ts_fixture_start(&f, true, 1);
  const hid_t file = make(true);
  put(file, "metrics/a/window", H5T_IEEE_F32LE, 2, N, 3);
  H5Fclose(file);
  ck_assert_ok(ts_metrics_create(&m, 100, 1));
  ck_assert_ok(ts_ckpt_add_value(&c, "metrics/a/sums", TS_U8, 1, &byte));
  ck_assert_ok(
      ts_ckpt_add_value(&c, "metrics/a/window_samples", TS_I64, 1, &total));
  ts_mem_forget_peaks();
  refused(ts_metrics_load(m, &c, file_path, "metrics/a", f.comm), true,
          "metrics/a/window is (8, 3) in the file");
  ts_metrics_destroy(m);
  ts_ckpt_reset(&c);
  ts_fixture_stop(&f);
}
END_TEST

/* What a checkpoint says that was learnt from other files. */
START_TEST(vocabularies_end_early) {
  static const char *const states[] = {"V 5\na\nb\n", "V 1\n", "V 9000", "",
                                       "V 1\nlast"};
  static const char text[] =
      "run = { steps = 1; };\n"
      "data = { train = \"in.csv\"; format = \"csv\"; global_batch = 4;\n"
      "  csv = { label = \"y\"; encoding = \"vocabulary\"; }; };\n"
      "tables = ( { name = \"u\"; rows = 9; dim = 4; features = \"u\"; } );\n"
      "model = { over_arch = [1]; };\n";
  ts_fixture f;
  ts_config *c = NULL;
  ts_source *s = NULL;
  char path[128];
  ts_fixture_start(&f, true, 1);
  snprintf(path, sizeof path, "%s/in.csv", dir);
  FILE *csv = fopen(path, "w");
  ck_assert(csv && fputs("y,u\n1,a\n", csv) >= 0 && fclose(csv) == 0);
  ck_assert_ok(ts_deck_parse(&c, text, dir, NULL, 0));
  const ts_err err = ts_source_open(&s, c, TS_SPLIT_TRAIN, states[_i], f.comm);
  ck_assert_int_eq(err, _i < 4 ? TS_ERR_CKPT : TS_OK);
  if (_i < 4) ck_assert_ptr_nonnull(strstr(ts_err_message(), "vocabulary"));
  ts_err_clear();
  ts_source_close(s);
  ts_deck_destroy(c);
  ts_fixture_stop(&f);
}
END_TEST

/* Code is loaded from nowhere, whatever the environment says. */
START_TEST(no_plugins) {
  unsigned state = 1;
  ts_hdf5_lock();
  ck_assert_int_ge(H5PLget_loading_state(&state), 0);
  ts_hdf5_unlock();
  ck_assert_uint_eq(state, 0);
  ck_assert_int_eq(H5Zfilter_avail(32000), 0);
}
END_TEST

START_TEST(pipes_are_no_files) {
  ts_fixture f;
  ts_fixture_start(&f, true, 1);
  unlink(file_path);
  ck_assert_int_eq(mkfifo(file_path, 0600), 0);
  refused(read_file(&f, _i), _i, "is not a file");
  ck_assert_int_eq(unlink(file_path), 0);
  ts_fixture_stop(&f);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("hostile");
  TCase *t = tcase_create("hostile");
  tcase_add_unchecked_fixture(t, start, stop);
  tcase_add_loop_test(t, right_files_are_read, 0, 2);
  tcase_add_loop_test(t, edited_files_are_refused, 0, 2 * N_EDITS);
  tcase_add_test(t, columns_are_not_cut);
  tcase_add_test(t, values_are_of_the_file);
  tcase_add_test(t, windows_are_looked_up_first);
  tcase_add_loop_test(t, vocabularies_end_early, 0, 5);
  tcase_add_test(t, no_plugins);
  tcase_add_loop_test(t, pipes_are_no_files, 0, 2);
  suite_add_tcase(s, t);
  return s;
}

TS_TEST_MAIN(suite)
