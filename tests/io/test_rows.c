/* test_rows.c - rows that data need of the tables: what files say of
 * themselves, what a sample shows, and what can't be known.  ranks: 1 2 */
#include "io/rows.h"

#include "base/mem.h"
#include "io/deck.h"
#include "tests/support/folder.h"
#include "tests/support/hostile_files.h"

static const char deck[] =
    "run = { steps = 1; };\n"
    "data = { train = \"in.h5\"; global_batch = 4; };\n"
    "tables = ( { name = \"u\"; rows = 100; dim = 4; features = \"u\"; },\n"
    "  { name = \"w\"; rows = 4; dim = 4; features = [\"v\", \"w\"]; } );\n"
    "model = { dense_features = 2; dense_arch = [4]; over_arch = [1]; };\n";

static void put_max(hid_t file, const char *name, int64_t max_id) {
  const hid_t group = H5Gopen2(file, name, H5P_DEFAULT);
  ck_assert_int_ge(group, 0);
  ck_assert_ok(ts_hdf5_put_attr(group, "max_id", H5T_NATIVE_INT64, &max_id,
                                TS_ERR_DATA));
  H5Gclose(group);
}

TS_EACH_TEST_BETWEEN(folder_start, folder_stop)

/* Ids of all features are 0 to 7; SAID: of u and v the file says so. */
static void make_file(const char *name, bool said, int64_t u, int64_t v) {
  char path[96];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  if (f.rank == 0) {
    const hid_t file = hostile_make(path, false);
    hostile_put(file, "sparse/v/values", H5T_STD_I64LE, 1, N, 0);
    hostile_put(file, "sparse/w/values", H5T_STD_I64LE, 1, N, 0);
    if (said) put_max(file, "sparse/u", u);
    if (said) put_max(file, "sparse/v", v);
    if (said) put_max(file, "sparse/w", 7);
    H5Fclose(file);
  }
  ck_assert_ok(ts_comm_barrier(f.comm));
}

static ts_err open_it(ts_config **c, ts_source **s, const char *const *sets,
                      int n_sets) {
  *s = NULL;
  ck_assert_ok(ts_deck_parse(c, deck, dir, sets, n_sets));
  return ts_source_open(s, *c, TS_SPLIT_TRAIN, NULL, f.comm);
}

static const char *const autos[] = {"tables.u.rows=auto", "tables.w.rows=auto",
                                    "data.eval=eval.h5", "data.format=dataset"};

TS_TEST(what_files_say) {
  ts_config *c;
  ts_source *s;
  make_file("in.h5", true, 7, 20);
  ck_assert_ok(open_it(&c, &s, autos, 2));
  ck_assert_int_eq(c->tables[0].rows, 8);
  ck_assert_int_eq(c->tables[1].rows, 21); /* the feature that needs most */
  ts_source_close(s);
  ts_deck_destroy(c);
  make_file("eval.h5", true, 12, -1);
  ck_assert_ok(open_it(&c, &s, autos, 3));
  ck_assert_int_eq(c->tables[0].rows, 13);
  ck_assert_int_eq(c->tables[1].rows, 21);
  ts_source_close(s);
  ts_deck_destroy(c);
  ck_assert_ok(open_it(&c, &s, autos, 1)); /* ids beyond are met when read */
  ck_assert_int_eq(c->tables[1].rows, 4);
  ts_source_close(s);
  ts_deck_destroy(c);
}

static void refused(const char *const *sets, int n_sets, const char *words) {
  ts_config *c;
  ts_source *s;
  ck_assert_int_eq(open_it(&c, &s, sets, n_sets), TS_ERR_DECK);
  ck_assert_msg(strstr(ts_err_message(), words) != NULL, "%s",
                ts_err_message());
  ts_err_clear();
  ts_deck_destroy(c);
}

TS_TEST(what_nothing_says) {
  static const char *const synthetic[] = {"data.format=synthetic",
                                          "tables.w.rows=auto"};
  static const char *const log[] = {"data.format=criteo_tsv",
                                    "tables.w.rows=auto",
                                    "model.dense_features=13"};
  make_file("in.h5", false, 0, 0);
  refused(autos, 2,
          "table u: rows = \"auto\" is not known: a file does not "
          "say its largest id: tessera convert writes one that does; "
          "or give a number\ntable w: rows = \"auto\" is not known");
  refused(synthetic, 2,
          "table w: rows = \"auto\" is for data that need a "
          "number of rows: ids of format synthetic");
  refused(log, 3,
          "table w: rows = \"auto\" is not known: ids that are hashed, or "
          "modulo the rows, fit any number of them; or give a number");
  make_file("in.h5", true, INT64_C(4000000000000000000), 7);
  refused(autos, 1,
          "table u: rows = \"auto\" is not known: its ids are larger "
          "than any table");
}

TS_TEST(what_a_sample_shows) {
  ts_config *c;
  ts_source *s;
  ts_need needs[2] = {{0}};
  make_file("in.h5", false, 0, 0);
  ck_assert_ok(open_it(&c, &s, NULL, 0));
  ck_assert_ok(ts_rows_needed(needs, s, true));
  ck_assert_int_eq(needs[0].rows, 8);
  ck_assert(needs[0].sampled && needs[1].sampled && needs[1].plain);
  ck_assert_int_eq(ts_rows_take(c, needs, true), TS_ERR_DATA);
  ck_assert_ptr_nonnull(strstr(ts_err_message(),
                               "feature v has 7 or more as its largest id and "
                               "needs 8 rows; table w has 4"));
  ck_assert_ptr_null(strstr(ts_err_message(), "table u"));
  ts_err_clear();
  ck_assert_ok(ts_rows_take(c, needs, false));
  ts_source_close(s);
  ts_deck_destroy(c);
}
