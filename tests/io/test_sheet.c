/* test_sheet.c - files of rows: the bytes of CSV, whatever part of the rows
 * each rank has; an error of one rank is all's, and leaves no file. ranks: 1 2
 * 4 */
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "io/sheet.h"
#include "tests/support/folder.h"

TS_EACH_TEST_BETWEEN(folder_start, folder_stop)

enum { ROWS = 7, WIDTH = 8 };

static const char text[ROWS][WIDTH] = {"plain", "a,b",      "\"q\"", "",
                                       " x",    "12345678", "l\nl"};
static const int64_t number[ROWS] = {0, -1, 1LL << 62, 3, 4, 5, 6};
static const double real[ROWS] = {0.1, 0, -2, 1e300, 4, 5, 6};
static const float pair[2 * ROWS] = {0.5f, 1.0f / 3, 2, 3, 4, 5, 6,
                                     7,    8,        9, 1, 2, 3, 4};
static char second[] = "_b", first[] = "_a";
static char *const heads[] = {first, second};

static const ts_sheet_column columns[] = {
    {.name = "key, text", .kind = TS_SHEET_TEXT, .width = WIDTH, .n_cells = 1},
    {.name = "number", .kind = TS_SHEET_I64, .n_cells = 1},
    {.name = "hidden", .kind = TS_SHEET_F32, .n_cells = 2, .hdf5_only = true},
    {.name = "real", .kind = TS_SHEET_F64, .n_cells = 1},
    {.name = "pairs",
     .head = "p",
     .heads = heads,
     .kind = TS_SHEET_F32,
     .n_cells = 2},
    {.name = "nine", .kind = TS_SHEET_F32, .digits = 9, .n_cells = 2}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static const char want[] =
    "\"key, text\",number,real,p_a,p_b,nine0,nine1\n"
    "plain,0,0.10000000000000001,0.5,0.333333,0.5,0.333333343\n"
    "\"a,b\",-1,0,2,3,2,3\n"
    "\"\"\"q\"\"\",4611686018427387904,-2,4,5,4,5\n"
    ",3,1.0000000000000001e+300,6,7,6,7\n"
    "\" x\",4,4,8,9,8,9\n"
    "12345678,5,5,1,2,1,2\n"
    "\"l\nl\",6,6,3,4,3,4\n";

/* Rows [from, to) in parts of the ranks, some of them empty. */
static ts_err write_some(ts_sheet *r, int64_t from, int64_t to) {
  const int64_t n = to - from, w = f.size;
  const int64_t a = from + n * f.rank / w;
  const int64_t z = from + n * (f.rank + 1) / w;
  const void *data[COLUMNS] = {text + a, number + a,   pair + 2 * a,
                               real + a, pair + 2 * a, pair + 2 * a};
  return ts_sheet_write(r, a, z - a, data);
}

static ts_err write_all(const char *path, bool broken) {
  ts_sheet *r;
  TS_DO(ts_sheet_create(&r, path, ROWS, columns, COLUMNS, f.comm));
  ts_err err = write_some(r, 0, 2);
  if (err == TS_OK) err = write_some(r, 2, ROWS);
  /* The last rank has an error of its own. */
  if (err == TS_OK && broken && f.rank == f.size - 1)
    err = ts_fail(TS_ERR_DATA, "broken");
  return ts_sheet_finish(r, err);
}

static bool exists(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return access(path, F_OK) == 0;
}

TS_TEST(formats_are_by_the_name) {
  ck_assert_int_eq(ts_sheet_format_of("a.csv"), TS_SHEET_CSV);
  ck_assert_int_eq(ts_sheet_format_of("a.csv.gz"), TS_SHEET_CSV);
  ck_assert_int_eq(ts_sheet_format_of("-"), TS_SHEET_CSV);
  ck_assert_int_eq(ts_sheet_format_of("a.h5"), TS_SHEET_HDF5);
  ck_assert_int_eq(ts_sheet_format_of("a.csv.hdf5"), TS_SHEET_HDF5);
  ck_assert_int_eq(ts_sheet_format_of("csv"), TS_SHEET_NONE);
  ck_assert_int_eq(ts_sheet_format_of("a.h5.gz"), TS_SHEET_NONE);
}

TS_TEST(csv_is_the_same_on_any_ranks) {
  char path[128];
  ts_str have = {0};
  snprintf(path, sizeof path, "%s/a.csv", dir);
  ck_assert_ok(write_all(path, false));
  ck_assert_ok(ts_file_read(&have, path));
  ck_assert_str_eq(have.text, want);
  ck_assert(!exists("a.csv.part"));
  ts_str_reset(&have);
}

TS_TESTS(an_error_of_one_rank_leaves_no_file, 0, 3) {
  static const char *const names[] = {"b.csv", "b.csv.gz", "b.h5"};
  char path[128], part[128];
  snprintf(path, sizeof path, "%s/%s", dir, names[_i]);
  snprintf(part, sizeof part, "%s.part", names[_i]);
  ck_assert_int_eq(write_all(path, true), TS_ERR_DATA);
  ts_err_clear();
  ck_assert_ok(ts_comm_barrier(f.comm));
  ck_assert_all(!exists(names[_i]) && !exists(part));
}

TS_TESTS(a_folder_that_is_not_there_is_an_error_of_all, 0, 2) {
  char path[128];
  snprintf(path, sizeof path, "%s/none/a.%s", dir, _i ? "h5" : "csv");
  ck_assert_int_eq(write_all(path, false), TS_ERR_IO);
  ts_err_clear();
}
