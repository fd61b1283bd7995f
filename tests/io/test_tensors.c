/* test_tensors.c - files of tensors: what types become in pieces and columns of
 * any memory, by which names they are found, tensors beyond 2 GiB, and files
 * that nobody should believe.  On the fake device unless TESSERA_BACKEND says
 * otherwise.  ranks: 1 2 */
#include "io/tensors.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/checkpoint.h"
#include "tests/support/folder.h"

enum { ROWS = 300, COLS = 5, MEMORY_MAX = 4 << 20 };

static ts_device *device;
static char file_path[96];

static void start(void) {
  folder_start();
  ck_assert_ok(ts_test_device(&device, false, 1));
  snprintf(file_path, sizeof file_path, "%s/in.safetensors", dir);
}

static void stop(void) {
  ts_device_destroy(device);
  folder_stop();
}

TS_EACH_TEST_BETWEEN(start, stop)

/* ---- files --------------------------------------------------------------- */

/* N bytes of DATA at AT of a file that has SIZE, or as many as that takes. */
static void put(const char *path, int64_t at, const void *data, size_t n,
                int64_t size) {
  ck_assert_ok(ts_comm_barrier(f.comm)); /* others may read it yet */
  if (f.rank == 0) {
    const int fd = open(path, O_RDWR | O_CREAT, 0666);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, data, n, at), (ssize_t)n);
    if (size >= 0) ck_assert_int_eq(ftruncate(fd, size), 0);
    close(fd);
  }
  ck_assert_ok(ts_comm_barrier(f.comm));
}

/* A header that says LENGTH of itself, and the file's SIZE.  Returns where the
 * data begin. */
static int64_t put_header(const char *text, uint64_t length, int64_t size) {
  unsigned char bytes[4096];
  const size_t n = strlen(text);
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(length >> 8 * i);
  memcpy(bytes + 8, text, n);
  put(file_path, 0, bytes, 8 + n, size);
  return (int64_t)(8 + n);
}

static double value(int64_t row, int col) {
  return (double)(row * 31 % 97) / 7 - col * 1e-3;
}

/* (ROWS, COLS) values as type _I of the safetensors. */
static const char *const names[] = {"F32", "F64", "F16", "BF16"};
static const ts_dtype dtypes[] = {TS_F32, TS_F64, TS_F16, TS_BF16};

static void put_values(int type, int64_t at) {
  static unsigned char bytes[ROWS * COLS * sizeof(double)];
  const size_t size = ts_dtype_bytes(dtypes[type]);
  for (int i = 0; i < ROWS * COLS; i++) {
    const double x = value(i / COLS, i % COLS);
    const float narrow = (float)x;
    if (dtypes[type] == TS_F64)
      memcpy(bytes + (size_t)i * size, &x, size);
    else
      ts_from_f32(bytes + (size_t)i * size, &narrow, dtypes[type], 1);
  }
  put(file_path, at, bytes, ROWS * COLS * size, -1);
}

/* The value as type FROM, as type TO has it. */
static float expected(int64_t row, int col, ts_dtype from, ts_dtype to) {
  float x = (float)value(row, col);
  uint16_t half[2];
  if (from != TS_F64) ts_from_f32(half, &x, from, 1);
  if (from != TS_F64) ts_to_f32(&x, half, from, 1);
  ts_from_f32(half, &x, to, 1);
  ts_to_f32(&x, half, to, 1);
  return x;
}

/* ---- values -------------------------------------------------------------- */

/* Items of the file's array: rows of it, and columns, of this rank. */
typedef struct content {
  ts_ckpt c;
  ts_buffer rows, columns;
  int64_t from, n;
  int32_t col0, n_cols;
} content;

static void describe(content *t, const char *const item[2], ts_dtype to) {
  ts_ckpt_item *rows, *columns;
  const size_t size = ts_dtype_bytes(to);
  *t = (content){.from = ROWS * f.rank / f.size, .col0 = f.rank ? 2 : 0};
  t->n = ROWS * (f.rank + 1) / f.size - t->from;
  t->n_cols = f.size == 1 ? COLS : f.rank ? 3 : 2;
  ck_assert_ok(ts_ckpt_on(&t->c, device));
  ck_assert_ok(ts_buffer_create(&t->rows, device, (size_t)t->n * COLS * size,
                                TS_SPACE_DEVICE, TS_TAG_TABLES));
  ck_assert_ok(ts_buffer_create(&t->columns, device,
                                ROWS * (size_t)t->n_cols * size,
                                TS_SPACE_DEVICE, TS_TAG_TABLES));
  ck_assert_ok(ts_ckpt_add_item(&t->c, item[0], to, ROWS, COLS, &rows));
  ck_assert_ok(
      ts_ckpt_add_piece(rows, false, true, t->from, t->n, t->rows.ptr));
  ck_assert_ok(ts_ckpt_add_item(&t->c, item[1], to, ROWS, COLS, &columns));
  for (int r = 0; r < f.size; r++)
    ck_assert_ok(ts_ckpt_add_columns(
        columns, (ts_ckpt_columns){r, 0, ROWS, r ? 2 : 0,
                                   f.size == 1 ? COLS
                                   : r         ? 3
                                               : 2,
                                   r == f.rank ? t->columns.ptr : NULL}));
}

static void release(content *t) {
  ts_buffer_reset(&t->rows);
  ts_buffer_reset(&t->columns);
  ts_ckpt_reset(&t->c);
}

/* Both parts hold the file's values. */
static void check_values(const content *t, ts_dtype from, ts_dtype to) {
  const size_t size = ts_dtype_bytes(to);
  char *rows = ts_test_borrow(device, t->rows.ptr, (size_t)t->n * COLS * size);
  char *columns =
      ts_test_borrow(device, t->columns.ptr, ROWS * (size_t)t->n_cols * size);
  float x;
  bool good = true;
  for (int64_t r = 0; r < ROWS; r++)
    for (int c = 0; c < COLS; c++) {
      const float want = expected(r, c, from, to);
      const bool mine = r >= t->from && r < t->from + t->n;
      ts_to_f32(&x, rows + (size_t)(mine ? (r - t->from) * COLS + c : 0) * size,
                to, 1);
      good &= !mine || x == want;
      if (c < t->col0 || c >= t->col0 + t->n_cols) continue;
      ts_to_f32(&x, columns + (size_t)(r * t->n_cols + c - t->col0) * size, to,
                1);
      good &= x == want;
    }
  ts_test_return(device, t->rows.ptr, rows, (size_t)t->n * COLS * size, false);
  ts_test_return(device, t->columns.ptr, columns,
                 ROWS * (size_t)t->n_cols * size, false);
  ck_assert_all(good);
}

static ts_err load(content *t, ts_str *missing, ts_listing *left) {
  return ts_ckpt_load_tensors(&t->c, file_path, missing, left, f.comm);
}

/* Each type of the file as each type of a table; the second tensor begins
 * beyond 4 GiB. */
TS_TESTS(types_and_places, 0, 12) {
  static const char *const items[] = {"model/rows", "model/columns"};
  const int type = _i % 4;
  const ts_dtype to = (ts_dtype)(_i / 4); /* TS_F32, TS_BF16, TS_F16 */
  const long long n = ROWS * COLS * (long long)ts_dtype_bytes(dtypes[type]);
  const long long far = (5LL << 30) + 3;
  char text[512];
  content t;
  ts_str missing = {0};
  ts_listing left = {0};
  snprintf(text, sizeof text,
           "{\"columns\":{\"dtype\":\"%s\",\"shape\":[300,5],\"data_offsets\":"
           "[%lld,%lld]},\"rows\":{\"dtype\":\"%s\",\"shape\":[300,5],\"data_"
           "offsets\":[0,%lld]}}  ",
           names[type], far, far + n, names[type], n);
  const int64_t data = put_header(text, strlen(text), -1);
  put_values(type, data);
  put_values(type, data + far);
  describe(&t, items, to);
  ck_assert_ok(load(&t, &missing, &left));
  ck_assert(!missing.text && left.n == 0);
  check_values(&t, dtypes[type], to);
  release(&t);
}

/* Which of the file's tensors a parameter takes, by their numbers in it. */
TS_TEST(names_of_others) {
#define BAGS "sparse_arch.embedding_bag_collection.embedding_bags."
  static const struct {
    const char *want, *has[3];
    int plain, alike;
  } cases[] = {
      {"a.weight", {"a.weight", "model.a.weight", "x"}, 0, 0},
      {"a.weight", {"x", "model.a.weight", "module.a.weight"}, -1, 1},
      {"model.a", {"x", "a", "module.a"}, -1, 1},
      {"a.weight", {"b.a.weight", "embeddings.a.weight", "aweight"}, -1, -1},
      {BAGS "a.weight", {"a.weight", "b.weight", "x"}, -1, 0},
      {BAGS "a.weight", {"a.weight", "embeddings.a.weight", "x"}, -1, 1},
      {BAGS "a.weight",
       {"a.weight", "embeddings.a.weight", "model.embedding_bags.a.weight"},
       -1,
       2},
      {BAGS "a.weight", {"module." BAGS "a.weight", "a.weight", "x"}, -1, 0},
      {BAGS "a.weight",
       {"module.embeddings.a.weight", "aa.weight", "x"},
       -1,
       0},
      {BAGS "a.weight", {"aa.weight", "a.weights", "x.a.weight"}, -1, -1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ts_tensor item[3] = {0};
    const ts_tensors file = {.item = item, .n = 3};
    for (int k = 0; k < 3; k++)
      item[k].name = (char *)(uintptr_t)cases[i].has[k];
    const ts_tensor *plain = ts_tensors_find(&file, cases[i].want, false);
    const ts_tensor *alike = ts_tensors_find(&file, cases[i].want, true);
    ck_assert_msg((plain ? plain - item : -1) == cases[i].plain, "%zu", i);
    ck_assert_msg((alike ? alike - item : -1) == cases[i].alike, "%zu", i);
    for (int k = 0; k < 3; k++) item[k].taken = true;
    ck_assert_ptr_null(ts_tensors_find(&file, cases[i].want, true));
  }
}

/* ---- hostile files ------------------------------------------------------- */

/* T: a tensor's members in a header. */
#define T(type, shape, offsets)                                                \
  "{\"dtype\":" type ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(type, shape, offsets) "{\"t\":" T(type, shape, offsets) "}"
#define F32_OF(shape, offsets) ONE("\"F32\"", shape, offsets)

static const struct {
  const char *header, *words;
  uint64_t length; /* that the file says, 0: the header's */
  int64_t n_data;
} hostile[] = {
    {"", "is no safetensors file, or its end is missing", UINT64_MAX, 0},
    {"{}", "is no safetensors file, or its end is missing", 3, 0},
    {"{}", "its header would have 9223372036854775808 bytes", UINT64_C(1) << 63,
     0},
    {"{}", "its header would have 100000001 bytes", 100000001, 200000000},
    {"", "the header is no JSON: ", 0, 0},
    {"{\"t\":", "the header is no JSON: ", 0, 8},
    {"{} x", "the header is no JSON: ", 0, 8},
    {"{\"a\":1,\"a\":2}", "the header is no JSON: duplicate object key", 0, 8},
    {"{\"a\":\"\xff\"}", "the header is no JSON: ", 0, 8},
    {"[1]", "the header is no JSON object of tensors", 0, 8},
    {"{\"t\":1}", "tensor t lacks its dtype, shape or data_offsets", 0, 8},
    {"{\"t\":{}}", "tensor t lacks its dtype", 0, 8},
    {ONE("1", "[2]", "[0,8]"), "tensor t lacks its dtype", 0, 8},
    {F32_OF("2", "[0,8]"), "tensor t lacks its dtype", 0, 8},
    {F32_OF("[2]", "[0]"), "tensor t lacks its dtype", 0, 8},
    {F32_OF("[2]", "[0,8,8]"), "tensor t lacks its dtype", 0, 8},
    {F32_OF("[NaN]", "[0,8]"), "the header is no JSON: ", 0, 8},
    {F32_OF("[null]", "[0,8]"), "the shape of tensor t is none", 0, 8},
    {F32_OF("[2.0]", "[0,8]"), "the shape of tensor t is none", 0, 8},
    {F32_OF("[\"2\"]", "[0,8]"), "the shape of tensor t is none", 0, 8},
    {F32_OF("[-2]", "[0,8]"), "the shape of tensor t is none", 0, 8},
    {F32_OF("[4294967296,4294967296]", "[0,8]"), "the shape of tensor t", 0, 8},
    {F32_OF("[99999999999999999999]", "[0,8]"), "too big integer", 0, 8},
    {F32_OF("[1,1,1,1,1,1,1,1,2]", "[0,8]"), "the shape of tensor t", 0, 8},
    {F32_OF("[2]", "[0,9]"), "is at bytes 0 to 9 of the data, which has 8", 0,
     8},
    {F32_OF("[2]", "[8,16]"), "is at bytes 8 to 16 of the data", 0, 15},
    {F32_OF("[2]", "[8,0]"), "is at bytes 8 to 0 of the data", 0, 8},
    {F32_OF("[2]", "[-8,0]"), "is at bytes -8 to 0 of the data", 0, 8},
    {F32_OF("[2]", "[0,8.0]"), "tensor t is at bytes", 0, 8},
    {F32_OF("[2]", "[9223372036854775800,9223372036854775807]"),
     "tensor t is at bytes", 0, 8},
    {F32_OF("[3]", "[0,8]"), "tensor t has 3 elements of type F32, and 8 bytes",
     0, 8},
    {F32_OF("[4611686018427387904]", "[0,8]"), "tensor t has 46116860184273879",
     0, 8},
    {"{\"a\":" T("\"F32\"", "[2]", "[0,8]") ",\"b\":" T("\"F16\"", "[2]",
                                                        "[6,10]") "}",
     "tensors a and b are at the same bytes", 0, 10},
    {"{\"a\":" T("\"F32\"", "[3]", "[0,12]") ",\"e\":" T(
         "\"F32\"", "[0]", "[4,4]") ",\"b\":" T("\"U8\"", "[1]", "[5,6]") "}",
     "tensors a and b are at the same bytes", 0, 12}};

/* Says so in one message, and takes no memory for it. */
static void refused(const char *path, const char *words) {
  ts_tensors *file;
  ts_mem_forget_peaks();
  const int64_t before = ts_mem_total(TS_SPACE_HOST).now_bytes;
  const ts_err err = ts_tensors_open(&file, path);
  ck_assert_int_eq(err, TS_ERR_CKPT);
  ck_assert_ptr_null(file);
  ck_assert_msg(strstr(ts_err_message(), words) != NULL, "no \"%s\" in: %s",
                words, ts_err_message());
  ck_assert_ptr_nonnull(strstr(ts_err_message(), path));
  ck_assert_int_eq(ts_mem_total(TS_SPACE_HOST).now_bytes, before);
  ck_assert_int_lt(ts_mem_total(TS_SPACE_HOST).peak_bytes - before, MEMORY_MAX);
  ts_err_clear();
}

TS_TESTS(headers_are_refused, 0, sizeof hostile / sizeof *hostile) {
  const char *text = hostile[_i].header;
  const size_t n = strlen(text);
  put_header(text, hostile[_i].length ? hostile[_i].length : n,
             (int64_t)(8 + n) + hostile[_i].n_data);
  refused(file_path, hostile[_i].words);
}

/* An index of the file in.safetensors, which has t. */
static const struct {
  const char *text, *words;
} indices[] = {
    {"{\"weight_map\":", "the header is no JSON: "},
    {"{\"weight_map\":{\"t\":\"a\",\"t\":\"b\"}}", "duplicate object key"},
    {"[1]", "is no index: it has no weight_map"},
    {"{\"weight_map\":[\"t\"]}", "is no index: it has no weight_map"},
    {"{\"weight_map\":{\"t\":1}}", "has no file for tensor t"},
    {"{\"weight_map\":{\"t\":\"x/in.safetensors\"}}", "is no file beside it"},
    {"{\"weight_map\":{\"t\":\"../in.safetensors\"}}", "is no file beside it"},
    {"{\"weight_map\":{\"t\":\"in.safetensors.index.json\"}}",
     "is no file beside it"},
    {"{\"weight_map\":{\"t\":\"in.npy\"}}", "is no file beside it"},
    {"{\"weight_map\":{\"t\":\"in.safetensors\",\"u\":\"in.safetensors\"}}",
     "tensor u is not in "}};

TS_TESTS(indices_are_refused, 0, sizeof indices / sizeof *indices) {
  static const char text[] = F32_OF("[2,1]", "[0,8]");
  char path[128];
  const char *index = indices[_i].text;
  put_header(text, strlen(text), (int64_t)(16 + strlen(text)));
  snprintf(path, sizeof path, "%s.index.json", file_path);
  put(path, 0, index, strlen(index), (int64_t)strlen(index));
  refused(path, indices[_i].words);
}

/* Cut anywhere: no end is taken for a whole. */
TS_TEST(cut_files_are_refused) {
  static const char text[] = F32_OF("[2,1]", "[0,8]");
  ts_tensors *file;
  const int64_t whole = (int64_t)(8 + strlen(text)) + 8;
  put_header(text, strlen(text), whole);
  ck_assert_ok(ts_tensors_open(&file, file_path));
  ck_assert(file->n == 1 && file->item[0].n_dims == 2);
  ck_assert(file->item[0].at == whole - 8 && file->item[0].n_bytes == 8);
  ts_tensors_close(file);
  for (int64_t n = whole - 1; n >= 0; n--) {
    put_header("", strlen(text), -1);
    put_header(text, strlen(text), n);
    refused(file_path, file_path);
  }
}

/* What nobody asks for may be anything, as long as it has its place. */
TS_TEST(other_types_are_left) {
  static const char text[] = "{\"__metadata__\":{\"a\":\"b\"},\"scalar\":" T(
      "\"I64\"", "[]", "[0,8]") ",\"new\":" T("\"F4\"", "[16]", "[8,16]") "}";
  ts_tensors *file;
  const ts_tensor *rows;
  put_header(text, strlen(text), (int64_t)(8 + strlen(text)) + 16);
  ck_assert_ok(ts_tensors_open(&file, file_path));
  ck_assert_int_eq(file->n, 2);
  ck_assert_int_eq(ts_tensor_check(file, &file->item[1]), TS_ERR_CKPT);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "tensor new is of type F4"));
  ts_err_clear();
  ck_assert_int_eq(ts_tensors_rows(file, &rows), TS_ERR_CKPT);
  ts_err_clear();
  ts_tensors_close(file);
}

/* ---- .npy ---------------------------------------------------------------- */

#define NPY(descr, order, shape)                                               \
  "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

static const struct {
  const char *header, *words;
  int version, n_data;
} arrays[] = {
    {NPY("'<f4'", "False", "(2, 3)"), NULL, 1, 24},
    {NPY("'<f8'", "False", "(2, 3)"), NULL, 2, 48},
    {NPY("'<f2'", "False", "(2, 3)"), NULL, 3, 12},
    {NPY("'<f4'", "False", "(2, 3)"), "doesn't begin as one", 4, 24},
    {NPY("'<f4'", "False", "(2, 3)"), "(2, 3) elements of 4 bytes", 1, 23},
    {NPY("'<f4'", "True", "(2, 3)"), "fortran_order", 1, 24},
    {NPY("'>f4'", "False", "(2, 3)"), "its type is none of", 1, 24},
    {NPY("'<i8'", "False", "(2, 3)"), "its type is none of", 1, 48},
    {NPY("'<f4'", "False", "(nan, 3)"), "the header's shape is none", 1, 24},
    {NPY("'<f4'", "False", "(-2, 3)"), "the header's shape is none", 1, 24},
    {NPY("'<f4'", "False", "(2"), "the header's shape is none", 1, 24},
    {NPY("'<f4'", "False", "(4294967296, 4294967296)"),
     "more elements than there can be", 1, 24},
    {NPY("'<f4'", "False", "(99999999999999999999, 3)"), "shape is none", 1,
     24},
    {NPY("'<f4'", "False", "(1,1,1,1,1,1,1,1,6)"), "shape is none", 1, 24},
    {"{}", "the header has no shape", 1, 24},
    {"{'shape': 3}", "the header has no shape", 1, 24},
    {"{'shape': (2, 3), 'descr': '<f4'}", "fortran_order", 1, 24}};

TS_TESTS(arrays_of_numpy, 0, sizeof arrays / sizeof *arrays) {
  char bytes[256] = "\223NUMPY", path[96];
  const size_t n = strlen(arrays[_i].header);
  const size_t at = arrays[_i].version == 1 ? 10 : 12;
  ts_tensors *file;
  const ts_tensor *t;
  snprintf(path, sizeof path, "%s/in.npy", dir);
  bytes[6] = (char)arrays[_i].version;
  bytes[8] = (char)n;
  memcpy(bytes + at, arrays[_i].header, n);
  put(path, 0, bytes, at + n, (int64_t)(at + n) + arrays[_i].n_data);
  if (arrays[_i].words) {
    refused(path, arrays[_i].words);
    return;
  }
  ck_assert_ok(ts_tensors_open(&file, path));
  ck_assert_ok(ts_tensors_rows(file, &t));
  ck_assert(t->dims[0] == 2 && t->dims[1] == 3 && t->at == (int64_t)(at + n));
  ck_assert_int_eq((int)ts_dtype_bytes(t->dtype) * 6, arrays[_i].n_data);
  ts_tensors_close(file);
  put(path, 0, bytes, 0, (int64_t)n); /* within the header */
  refused(path, "its header is too long, or its end missing");
}
