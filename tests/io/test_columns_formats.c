/* test_columns_formats.c - data.columns of data sets and of Criteo's logs.
 * ranks: 1 2 */
#include "io/columns.h"

#include "tests/io/columns_rig.h"
#include "tests/support/hostile_files.h"

TS_EACH_TEST_BETWEEN(folder_start, folder_stop)

/* ---- data sets ----------------------------------------------------------- */

/* Texts of one size, or as h5py writes them. */
typedef enum { UNNAMED, FIXED, VARIABLE } name_form;

static void put_names(hid_t file, name_form form) {
  const char *const names[] = {"id", "age"};
  const hsize_t two = 2;
  const hid_t text = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &two, 0);
  H5Tset_size(text, form == FIXED ? 3 : H5T_VARIABLE);
  if (form == VARIABLE) H5Tset_cset(text, H5T_CSET_UTF8);
  const hid_t dense = H5Dopen2(file, "dense", H5P_DEFAULT);
  const hid_t attr = H5Acreate2(dense, "names", text, space, H5P_DEFAULT, 0);
  ck_assert_int_ge(
      H5Awrite(attr, text,
               form == FIXED ? (const void *)"id\0age" : (const void *)names),
      0);
  H5Aclose(attr);
  H5Tclose(text);
  H5Sclose(space);
  H5Dclose(dense);
}

/* Labels and ids are 0 to 7, dense numbers (0, 1), (2, 3) to (6, 7), then 8 and
 * zeros. */
static void make_dataset(name_form form, double weight) {
  char path[96];
  ck_assert_ok(ts_comm_barrier(f.comm));
  snprintf(path, sizeof path, "%s/a.h5", dir);
  if (f.rank == 0) {
    const hid_t file = hostile_make(path, false);
    hostile_put(file, "sparse/bags/values", H5T_STD_I64LE, 1, N, 0);
    hostile_put(file, "sparse/bags/offsets", H5T_STD_I64LE, 1, N + 1, 0);
    hostile_put(file, "importance", H5T_IEEE_F32LE, 1, N, 0);
    const double weights[N] = {weight, 1, 2, 3, 4, 5, 6, 7};
    const hid_t set = H5Dopen2(file, "importance", H5P_DEFAULT);
    ck_assert_int_ge(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL,
                              H5P_DEFAULT, weights),
                     0);
    H5Dclose(set);
    if (form != UNNAMED) put_names(file, form);
    H5Fclose(file);
  }
  ck_assert_ok(ts_comm_barrier(f.comm));
}

#define HDF "train = \"a.h5\"; format = \"dataset\";"
#define BAGS(more) "{ name = \"v\"; kind = \"ids\"; from = \"bags\"; " more " }"

static void dataset_reads(const char *columns, int n_dense,
                          const char *wanted) {
  ck_assert_ok(take_deck(HDF, columns, TABLE(3, "v"), n_dense));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), wanted);
  const int64_t two[] = {7, 1};
  ck_assert_ok(s->ops->gather(s, b, two, 2)); /* the same ones */
  const ts_batch *x = ts_batch_store_batch(b);
  ck_assert(n_dense == 0 || x->dense[0] == 0);
  ck_assert(n_dense == 0 || x->dense[n_dense] == (n_dense == 1 ? 3 : 2));
  ck_assert(!x->weights || x->weights[1] == 1);
  close_it();
}

TS_TEST(datasets) {
  make_dataset(FIXED, 0.5);
  dataset_reads(BAGS("encoding = \"modulo\";"), 2,
                "0 0 1 (0); 1 2 3 (1); 2 4 5 (2); 3 6 7 (0); 4 8 0 (1); 5 0 0 "
                "(2); 6 0 0 (0); 7 0 0 (1)");
  for (name_form form = FIXED; form <= VARIABLE; form++) {
    make_dataset(form, 0.5);
    dataset_reads(
        BAGS("encoding = \"modulo\";") ", { name = \"x\"; kind = "
                                       "\"dense\"; from = \"age\"; }, { name = "
                                       "\"w\"; kind = "
                                       "\"weight\"; from = \"importance\"; }",
        1,
        "0 *0.5 1 (0); 1 *1 3 (1); 2 *2 5 (2); 3 *3 7 (0); 4 *4 0 "
        "(1); 5 *5 0 (2); 6 *6 0 (0); 7 *7 0 (1)");
  }
}

static void dataset_refused(const char *columns, int n_dense, int code,
                            const char *words) {
  ts_err err = take_deck(HDF, columns, TABLE(8, "v"), n_dense);
  if (err == TS_OK) err = open_it(TS_SPLIT_TRAIN);
  if (err == TS_OK) err = read_all();
  ck_assert_msg(err != TS_OK, "taken: %s", columns);
  ck_assert_msg(strstr(ts_err_message(), words), "\"%s\" is not in: %s", words,
                ts_err_message());
  ck_assert_int_eq(ts_err_exit_code(err), code);
  ts_err_clear();
  close_it();
}

TS_TEST(datasets_that_lack_it) {
  make_dataset(VARIABLE, -2);
  dataset_refused("{ name = \"importance\"; kind = \"weight\"; }, " BAGS(""), 2,
                  3, "sample 0: its weight is no number from 0 on: -2");
  dataset_refused("{ name = \"w\"; kind = \"weight\"; }, " BAGS(""), 2, 3,
                  "a.h5: has no w");
  dataset_refused(BAGS("") ", " NUMBER("size"), 1, 3,
                  "the attribute \"names\" of /dense has no \"size\"");
  dataset_refused(BAGS("list_separator = \"|\";"), 2, 2,
                  "column \"v\" has list_separator, which data of format "
                  "dataset");
  dataset_refused("{ name = \"v\"; kind = \"ids\"; from = \"other\"; }", 2, 3,
                  "has no feature \"other\"");
  dataset_refused("{ name = \"label\"; kind = \"label\"; }, " BAGS(""), 2, 3,
                  "sample 2: label \"label\" is 2, neither 0 nor 1");
  dataset_refused("{ name = \"label\"; kind = \"label\"; from = "
                  "\"importance\"; label = \"soft\"; }, " BAGS(""),
                  2, 3,
                  "sample 0: label \"label\" is -2, no number from 0 to 1");
  make_dataset(UNNAMED, 1);
  dataset_refused(BAGS("") ", " NUMBER("age"), 1, 3,
                  "/dense has 2 columns without names (its attribute "
                  "\"names\"), data.columns lists 1");
}

/* The first ids of bags of two and more. */
TS_TEST(datasets_with_long_bags) {
  char path[96];
  make_dataset(UNNAMED, 1);
  snprintf(path, sizeof path, "%s/a.h5", dir);
  if (f.rank == 0) {
    const int64_t ends[N + 1] = {0, 3, 3, 5, 5, 8, 8, 8, 8};
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, "sparse/bags/offsets", H5P_DEFAULT);
    ck_assert_int_ge(
        H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, ends),
        0);
    H5Dclose(set);
    H5Fclose(file);
  }
  ck_assert_ok(ts_comm_barrier(f.comm));
  ck_assert_ok(take_deck(HDF, BAGS("max_length = 2;"), TABLE(8, "v"), 2));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "0 0 1 (0,1); 1 2 3 (); 2 4 5 (3,4); 3 6 7 (); 4 8 "
                            "0 (5,6); 5 0 0 (); 6 0 0 (); 7 0 0 ()");
  close_it();
  ck_assert_ok(take_deck(HDF, BAGS("max_length = 2; truncate = \"oldest\";"),
                         TABLE(8, "v"), 2));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "0 0 1 (1,2); 1 2 3 (); 2 4 5 (3,4); 3 6 7 (); 4 8 "
                            "0 (6,7); 5 0 0 (); 6 0 0 (); 7 0 0 ()");
  close_it();
}

#define WORDS "encoding = \"vocabulary\"; "

/* Numbers are words as they are written, in that order; those that the
 * train part does not have are row 0; with CSV's they are the same. */
TS_TEST(datasets_of_words) {
  make_dataset(UNNAMED, 1);
  one_set = "run.valid_every=1";
  ck_assert_ok(
      take_deck(HDF "eval = \"a.h5\"; split = { valid = 0.4; by = \"tail\"; };",
                BAGS(WORDS), TABLE("auto", "v"), 2));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_str_eq(words_of(0), "0*1 1*1 2*1 3*1");
  ck_assert_int_eq(c->tables[0].rows, 5);
  open_again();
  ck_assert_str_eq(said.text, "V 4 v\n0\n1\n2\n3\nN 4 v\n1\n1\n1\n1\n");
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "0 0 1 (1); 1 2 3 (2); 2 4 5 (3); 3 6 7 (4); 4 8 0 "
                            "(0); 5 0 0 (0); 6 0 0 (0); 7 0 0 (0)");
  const int64_t two[] = {7, 1};
  ck_assert_ok(s->ops->gather(s, b, two, 2));
  ck_assert_int_eq(ts_batch_store_batch(b)->kjt.features[0].ids[1], 2);
  ts_source_close(s);
  ck_assert_ok(ts_source_open(&s, c, TS_SPLIT_EVAL,
                              "V 3 v\n-5\n12345678901234567890\n6\n", f.comm));
  ck_assert_ok(s->ops->read(s, b, 5, 2));
  ck_assert_str_eq(batch(), "5 0 0 (0); 6 0 0 (3)");
  close_it();
  one_set = NULL;
  dataset_refused(BAGS(WORDS "min_count = 2; group = \"g\"; part = \"hour\";"),
                  2, 2, "column \"v\" has part, which data of format dataset");
}

/* Ids beyond 32 bits, and below 0. */
TS_TEST(large_ids) {
  char path[96];
  make_dataset(UNNAMED, 1);
  snprintf(path, sizeof path, "%s/a.h5", dir);
  if (f.rank == 0) {
    const int64_t ids[N] = {INT64_MAX, -5, INT64_MAX, 17, INT64_MIN, -5, 17, 2};
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, "sparse/bags/values", H5P_DEFAULT);
    ck_assert_int_ge(
        H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, ids), 0);
    H5Dclose(set);
    H5Fclose(file);
  }
  ck_assert_ok(ts_comm_barrier(f.comm));
  ck_assert_ok(
      take_deck(HDF, BAGS(WORDS "min_count = 2;"), TABLE("auto", "v"), 2));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_str_eq(words_of(0), "-5*2 17*2 9223372036854775807*2");
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "0 0 1 (3); 1 2 3 (1); 2 4 5 (3); 3 6 7 (2); 4 8 0 "
                            "(0); 5 0 0 (1); 6 0 0 (2); 7 0 0 (0)");
  close_it();
}

/* ---- Criteo's logs --------------------------------------------------------
 */

#define LOG "train = \"a.tsv\"; format = \"criteo_tsv\";"

static void criteo_refused(const char *columns, int n_dense,
                           const char *words) {
  ck_assert_ok(take_deck(LOG, columns, TABLE(8, "u"), n_dense));
  ck_assert_int_eq(open_it(TS_SPLIT_TRAIN), TS_ERR_DECK);
  ck_assert_msg(strstr(ts_err_message(), words), "\"%s\" is not in: %s", words,
                ts_err_message());
  ts_err_clear();
  close_it();
}

TS_TEST(criteo) {
  write_file("a.tsv",
             "1\t0\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\ta\tb\tc\n"
             "0\t0\t1\t2\t9\t4\t5\t6\t7\t8\t9\t10\t11\t12\ta\tb\t12\n");
  ck_assert_ok(take_deck(LOG,
                         NUMBER("I4") ", { name = \"x\"; kind = \"dense\"; "
                                      "from = \"I1\"; }, { name = \"u\"; kind "
                                      "= \"ids\"; from = \"C3\"; }",
                         TABLE(8, "u"), 2));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "1 1.3863 0 (4); 0 2.3026 0 (2)");
  close_it();
  /* Words, in hex; a missing one is row 0; of groups. */
  write_file("a.tsv",
             "1\t0\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\tff"
             "\t68fd1e64\tc\n0\t0\t1\t2\t9\t4\t5\t6\t7\t8\t9\t10\t11\t"
             "12\t\t68FD1E64\t00\n1\t0\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t"
             "11\t12\tc\n");
  ck_assert_ok(take_deck(
      LOG "eval = \"a.tsv\";",
      "{ name = \"u\"; kind = \"ids\"; from = \"C1\"; group = \"g\"; " WORDS
      "}, { name = \"v\"; kind = \"ids\"; from = \"C3\"; group = \"g\"; " WORDS
      "}, { name = \"w\"; kind = \"ids\"; from = \"C2\"; " WORDS "}",
      TABLE("auto", "u") ", " TABLE(4, "v") ", " TABLE("auto", "w"), 0));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  for (int i = 0; i < 2; i++) {
    ck_assert_str_eq(words_of(0), "00000000*1 0000000c*2 000000ff*1");
    ck_assert_str_eq(words_of(2), "68fd1e64*2");
    ck_assert_ok(read_all());
    ck_assert_str_eq(batch(), "1 (3) (2) (1); 0 (0) (1) (1); 1 (2) (0) (0)");
    ts_batch_store_destroy(b);
    open_again();
  }
  b = NULL;
  close_it();
  criteo_refused("{ name = \"w\"; kind = \"weight\"; }", 0, "have no weights");
  criteo_refused(NUMBER("I14"), 1, "these are I1 to I13");
  criteo_refused("{ name = \"u\"; kind = \"ids\"; }", 0, "takes C1 to C26");
}
