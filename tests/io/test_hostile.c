/* test_hostile.c - HDF5 files that lead out of themselves, or that say of
 * themselves what would take all memory: refused before anything of it is
 * read or asked for, with a message that names file and dataset; as data sets
 * (code 3) and as checkpoints (code 4).  ranks: 1 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"
#include "tests/support/folder.h"
#include "tests/support/hostile_files.h"
#include "tests/support/walk.h"
#include "io/checkpoint.h"
#include "io/dataset_write.h"
#include "io/deck.h"
#include "io/source.h"
#include "train/metrics.h"

enum { MEMORY_MAX = 32 << 20 };

static char file_path[96];

static const char deck[] =
    "run = { steps = 1; };\n"
    "data = { train = \"in.h5\"; format = \"dataset\"; global_batch = 4; };\n"
    "tables = ( { name = \"u\"; rows = 100; dim = 4; features = \"u\"; } );\n"
    "model = { dense_features = 2; dense_arch = [4]; over_arch = [1]; };\n";

static void start(void) {
  folder_start();
  snprintf(file_path, sizeof file_path, "%s/in.h5", dir);
}

/* ---- reading ------------------------------------------------------------- */

static ts_err read_deck(const char *const *sets, int n_sets) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_source *s = NULL;
  ts_batch_store *store = NULL;
  TS_TRY(ts_deck_parse(&c, deck, dir, sets, n_sets));
  TS_TRY(ts_source_open(&s, c, TS_SPLIT_TRAIN, NULL, f.comm));
  TS_TRY(ts_batch_store_create(&store, c, NULL));
  TS_TRY(s->ops->read(s, store, 0, N));
done:
  ts_batch_store_destroy(store);
  ts_source_close(s);
  ts_deck_destroy(c);
  return err;
}

static ts_err read_checkpoint(void) {
  ts_err err = TS_OK;
  float x[N];
  ts_ckpt c = {0};
  ts_ckpt_item *item;
  TS_TRY(ts_ckpt_add_item(&c, "model/w", TS_F32, N, 0, &item));
  TS_TRY(ts_ckpt_add_piece(item, false, true, 0, N, x));
  TS_TRY(ts_ckpt_load(&c, file_path, false, NULL, f.comm));
done:
  ts_ckpt_reset(&c);
  return err;
}

static ts_err read_file(bool checkpoint) {
  return checkpoint ? read_checkpoint() : read_deck(NULL, 0);
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

TS_EACH_TEST_BETWEEN(start, folder_stop)

/* Names and first bytes of files, and what data.format = "auto" makes of them.
 */
TS_TEST(formats_are_known_by_sight) {
#define TABS12 "\t\t\t\t\t\t\t\t\t\t\t\t"
  static const char *const files[][3] = {{"a", "0" TABS12 "\t\n", "criteo_tsv"},
                                         {"a", "1" TABS12 "\t", "criteo_tsv"},
                                         {"a", "0" TABS12, "none"},
                                         {"a", "2" TABS12 "\t", "none"},
                                         {"a", "/" TABS12 "\t", "none"},
                                         {"a", "0x" TABS12 "\t", "none"},
                                         {"tsv.gz", "", "criteo_tsv"},
                                         {"a.gz", "", "none"},
                                         {"tsv", "", "none"},
                                         {"a.csv", "", "csv"},
                                         {"a.csv.gz", "", "csv"},
                                         {"a", "\211HDF\r\n\032\n", "dataset"},
                                         {"a", "\211HDF\r\n\032", "none"},
                                         {"a", "\223NUMPY", "npy"},
                                         {"a.npz", "PK\3\4", "none"}};
  char path[96], format[] = "auto";
  const ts_config c = {.data.format = format};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, files[i][0]);
    FILE *to = fopen(path, "w");
    ck_assert(fputs(files[i][1], to) >= 0 && fclose(to) == 0);
    const ts_source_ops *ops = ts_source_of(&c, path);
    ck_assert_msg(!strcmp(ops ? ops->format : "none", files[i][2]), "%zu", i);
  }
  ck_assert_ptr_null(ts_source_of(&c, NULL));
  ck_assert_ptr_null(ts_source_of(&c, "/nowhere"));
}

TS_TESTS(right_files_are_read, 0, 2) {
  H5Fclose(hostile_make(file_path, _i));
  ck_assert_ok(read_file(_i));
}

/* ---- errors that only a full machine has --------------------------------- */

#ifdef TS_FAULTS
/* Reads a batch of the deck's data, with the sets ARG, and writes all of it as
 * a data set and as lines. */
static ts_err read_and_write(void *arg) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_source *s = NULL;
  ts_loader *l = NULL;
  ts_batch *b;
  const char *const *sets = arg;
  const double pooling = 1;
  const ts_loader_options o = {.global_batch = 4,
                               .max_steps = 2,
                               .n_ranks = 1,
                               .depth = 1,
                               .serial = true,
                               .pooling = &pooling};
  ts_str state = {0};
  char out[96];
  snprintf(out, sizeof out, "%s/out", dir);
  TS_TRY(ts_deck_parse(&c, deck, dir, sets, 4));
  TS_TRY(ts_source_open(&s, c, TS_SPLIT_TRAIN, NULL, f.comm));
  TS_TRY(ts_loader_create(&l, s, &o, NULL));
  TS_TRY(ts_loader_next(l, &b));
  if (s->ops->state_save) TS_TRY(s->ops->state_save(s, &state));
  TS_TRY(ts_dataset_write(out, s, f.comm));
  TS_TRY(ts_criteo_write(out, s, f.comm));
done:
  ts_str_reset(&state);
  ts_loader_destroy(l);
  ts_source_close(s);
  ts_deck_destroy(c);
  return err;
}

static const char *const formats[][4] = {
    {"data.format=dataset", "data.input=kjt", "run.seed=1", "run.seed=2"},
    {"data.format=csv", "data.train=in.csv",
     "data.csv={label=\"y\";encoding=\"vocabulary\";"
     "dense_transform=\"standardise\";}",
     "data.csv.dense=[\"a\",\"b\"]"},
    {"data.format=criteo_tsv", "data.train=in.tsv.gz", "run.seed=1",
     "model.dense_features=13"},
    {"data.format=synthetic", "data.synthetic.samples=8",
     "data.synthetic.pooling=1", "data.input=columns"},
};

TS_TESTS(errors_come_out_and_nothing_stays, 0, 4) {
  char path[128];
  H5Fclose(hostile_make(file_path, false));
  snprintf(path, sizeof path, "%s/in.csv", dir);
  FILE *csv = fopen(path, "w");
  ck_assert(csv && fputs("y,u,a,b\n1,x,1,2\n0,y,2,\n", csv) >= 0);
  ck_assert_int_eq(fclose(csv), 0);
  snprintf(path, sizeof path, "%s/in.tsv.gz", dir);
  gzFile tsv = gzopen(path, "w");
  ck_assert(tsv && gzputs(tsv, "1\t3\n0\t4\n") > 0);
  ck_assert_int_eq(gzclose(tsv), Z_OK);
  for (int i = 0; i < (_i ? 4 : 5); i++) {
    static const struct {
      const char *what;
      unsigned codes;
    } points[] = {{"alloc", 1 << TS_ERR_NOMEM},
                  {"open", 1 << TS_ERR_IO | 1 << TS_ERR_DATA},
                  {"write", 1 << TS_ERR_IO},
                  {"hdf5", 1 << TS_ERR_IO | 1 << TS_ERR_DATA},
                  {"read", 1 << TS_ERR_DATA}};
    walk(read_and_write, (void *)(uintptr_t)formats[_i], points[i].what,
         points[i].codes);
  }
}
#endif

TS_TESTS(edited_files_are_refused, 0, 2 * hostile_n_edits) {
  const bool checkpoint = _i >= hostile_n_edits;
  const hid_t file = hostile_make(file_path, checkpoint);
  hostile_edits[_i % hostile_n_edits].edit(file);
  H5Fclose(file);
  ts_mem_forget_peaks();
  refused(read_file(checkpoint), checkpoint,
          hostile_edits[_i % hostile_n_edits].words);
}

/* Columns that would be cut to 32 bits and fit then: of dense features. */
TS_TEST(columns_are_not_cut) {
  const hsize_t dims[] = {0, ((hsize_t)1 << 32) + 2};
  const hid_t file = hostile_make(file_path, false);
  const int64_t none = 0;
  hostile_set = "dense";
  hostile_replace(file, H5T_IEEE_F32LE, 2, dims, H5Pcreate(H5P_DATASET_CREATE));
  H5Adelete(file, "num_samples");
  ck_assert_ok(ts_hdf5_put_attr(file, "num_samples", H5T_NATIVE_INT64, &none,
                                TS_ERR_DATA));
  H5Ldelete(file, "labels", H5P_DEFAULT);
  hostile_put(file, "labels", H5T_IEEE_F32LE, 1, 0, 0);
  H5Fclose(file);
  refused(read_deck(NULL, 0), false, "dense is not an array of (N) or");
}

/* A second file with one dense feature more, or one label more: the first
 * file's columns would be read from it. */
TS_TESTS(files_have_the_same_columns, 0, 2) {
  static const char *const words[] = {
      "more.h5: has 3 dense features and 1 labels, the file before 2 and 1",
      "more.h5: has 2 dense features and 2 labels, the file before 2 and 1"};
  const char *const sets[] = {"data.train=[\"in.h5\", \"more.h5\"]"};
  snprintf(file_path, sizeof file_path, "%s/more.h5", dir);
  const hid_t file = hostile_make(file_path, false);
  const char *wider = _i ? "labels" : "dense";
  H5Ldelete(file, wider, H5P_DEFAULT);
  hostile_put(file, wider, H5T_IEEE_F32LE, 2, N, _i ? 2 : 3);
  H5Fclose(file);
  snprintf(file_path, sizeof file_path, "%s/in.h5", dir);
  H5Fclose(hostile_make(file_path, false));
  const ts_err err = read_deck(sets, 1);
  ck_assert_int_eq(ts_err_exit_code(err), 3);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), words[_i]));
  ts_err_clear();
}

/* Four samples of a file and four of the next. */
TS_TEST(files_follow_each_other) {
  const char *const sets[] = {"data.train=[\"in.h5\", \"more.h5\"]"};
  ts_config *c;
  ts_source *s;
  ts_batch_store *store;
  H5Fclose(hostile_make(file_path, false));
  snprintf(file_path, sizeof file_path, "%s/more.h5", dir);
  H5Fclose(hostile_make(file_path, false));
  snprintf(file_path, sizeof file_path, "%s/in.h5", dir);
  ck_assert_ok(ts_deck_parse(&c, deck, dir, sets, 1));
  ck_assert_ok(ts_source_open(&s, c, TS_SPLIT_TRAIN, NULL, f.comm));
  ck_assert_ok(ts_batch_store_create(&store, c, NULL));
  ck_assert_ok(s->ops->read(s, store, N / 2, N));
  const ts_batch *b = ts_batch_store_batch(store);
  for (int i = 0; i < N; i++) {
    ck_assert_float_eq(b->labels[i], (float)((i + N / 2) % N));
    ck_assert_int_eq(b->kjt.features[0].ids[i], (i + N / 2) % N);
  }
  ts_batch_store_destroy(store);
  ts_source_close(s);
  ts_deck_destroy(c);
}

/* A value of a checkpoint from another file: inspect would print it. */
TS_TEST(values_are_of_the_file) {
  const hsize_t dims[] = {100};
  ts_ckpt c = {0};
  const hid_t file = hostile_make(file_path, true),
              p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(p, "/etc/passwd", 0, 100);
  hostile_set = "meta/plan";
  hostile_replace(file, H5T_STD_U8LE, 1, dims, p);
  H5Fclose(file);
  refused(ts_ckpt_peek(&c, file_path), true,
          "meta/plan has its data in other files");
  ts_ckpt_reset(&c);
}

/* Metrics of a size that only the file's word stands for. */
TS_TEST(windows_are_looked_up_first) {
  const int64_t total = (int64_t)1 << 40;
  const uint8_t byte = 1;
  ts_metrics *m;
  ts_ckpt c = {0};
  const hid_t file = hostile_make(file_path, true);
  hostile_put(file, "metrics/a/window", H5T_IEEE_F32LE, 2, N, 3);
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
}

/* What a checkpoint says that was learnt from other files. */
TS_TESTS(vocabularies_end_early, 0, 5) {
  static const char *const states[] = {"V 5\na\nb\n", "V 1\n", "V 9000", "",
                                       "V 1\nlast"};
  static const char text[] =
      "run = { steps = 1; };\n"
      "data = { train = \"in.csv\"; format = \"csv\"; global_batch = 4;\n"
      "  csv = { label = \"y\"; encoding = \"vocabulary\"; }; };\n"
      "tables = ( { name = \"u\"; rows = 9; dim = 4; features = \"u\"; } );\n"
      "model = { over_arch = [1]; };\n";
  ts_config *c = NULL;
  ts_source *s = NULL;
  char path[128];
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
}

/* Code is loaded from nowhere, whatever the environment says. */
TS_TEST(no_plugins) {
  unsigned state = 1;
  ts_hdf5_lock();
  ck_assert_int_ge(H5PLget_loading_state(&state), 0);
  ts_hdf5_unlock();
  ck_assert_uint_eq(state, 0);
  ck_assert_int_eq(H5Zfilter_avail(32000), 0);
}

TS_TESTS(pipes_are_no_files, 0, 2) {
  unlink(file_path);
  ck_assert_int_eq(mkfifo(file_path, 0600), 0);
  refused(read_file(_i), _i, "is not a file");
  ck_assert_int_eq(unlink(file_path), 0);
}
