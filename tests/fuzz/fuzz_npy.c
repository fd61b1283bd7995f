/* fuzz_npy.c - NumPy's arrays in an .npz: a right one, edited.  The first byte
 * says whether members are deflated; then four bytes an edit: which of the
 * arrays, whose checksum then comes right, or the archive from its start or its
 * end; where, in two bytes; and what is there then. */
#include <string.h>
#include <zlib.h>

#include "io/deck.h"
#include "tests/fuzz/fuzz.h"

static const char deck[] =
    "run = { steps = 1; };\n"
    "data = { train = \"in.npz\"; format = \"npy\"; global_batch = 7; };\n"
    "tables = ( { name = \"u\"; rows = 100; dim = 4; features = \"u\"; },\n"
    "  { name = \"v\"; rows = 100; dim = 4; features = \"v\"; },\n"
    "  { name = \"w\"; rows = 100; dim = 4; features = \"w\";\n"
    "    weighted = true; } );\n"
    "model = { dense_features = 2; dense_arch = [4]; over_arch = [1]; };\n";

/* Eight samples. */
static const struct {
  const char *name, *type, *shape;
  int size, n;
} arrays[] = {
    {"labels", "<i4", "(8, 1)", 4, 8},  {"dense", "<f4", "(8, 2)", 4, 16},
    {"u", "<i8", "(8, 3)", 8, 24},      {"v_values", "|u1", "(8,)", 1, 8},
    {"v_offsets", "<u2", "(9,)", 2, 9}, {"w_values", "<i2", "(8,)", 2, 8},
    {"w_lengths", "|i1", "(8,)", 1, 8}, {"w_weights", "<f8", "(8,)", 8, 8}};

enum { N = sizeof arrays / sizeof *arrays, ROOM = 1024, ARCHIVE = 16384 };

typedef struct archive {
  uint8_t bytes[ARCHIVE];
  size_t n;
} archive;

static void put(archive *a, uint64_t x, int n) {
  for (int i = 0; i < n; i++) a->bytes[a->n++] = (uint8_t)(x >> 8 * i);
}

static void put_bytes(archive *a, const void *x, size_t n) {
  memcpy(a->bytes + a->n, x, n);
  a->n += n;
}

/* Numbers are 0 and 1 in turns, lengths 1, offsets rising. */
static size_t make_array(uint8_t *to, int k) {
  int n = snprintf((char *)to + 10, ROOM - 10,
                   "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                   arrays[k].type, arrays[k].shape);
  memcpy(to, "\223NUMPY\1", 8);
  to[8] = (uint8_t)n;
  to[9] = 0;
  n += 10;
  for (int i = 0; i < arrays[k].n; i++) {
    const int x = k == 4 ? i : k == 6 ? 1 : i & 1;
    if (arrays[k].type[1] != 'f') to[n] = (uint8_t)x;
    n += arrays[k].size;
  }
  return (size_t)n;
}

static void edit(uint8_t *to, size_t n, const uint8_t *e) {
  const size_t at = e[1] | (size_t)e[2] << 8;
  if (n) to[at % n] = e[3];
}

/* Local headers and members; then the entries of the directory go to TO. */
static void add(archive *a, archive *to, int k, const uint8_t *x, size_t n,
                bool deflated) {
  uint8_t packed[2 * ROOM];
  z_stream s = {.next_in = (uint8_t *)(uintptr_t)x,
                .avail_in = (uInt)n,
                .next_out = packed,
                .avail_out = sizeof packed};
  const size_t at = a->n, n_name = strlen(arrays[k].name) + 4;
  if (deflated) {
    FUZZ_CHECK(deflateInit2(&s, 1, Z_DEFLATED, -15, 8, 0) == Z_OK);
    FUZZ_CHECK(deflate(&s, Z_FINISH) == Z_STREAM_END);
    deflateEnd(&s);
  } else {
    memcpy(packed, x, n);
    s.total_out = n;
  }
  archive *const both[] = {a, to};
  for (int i = 0; i < 2; i++) {
    put_bytes(both[i], i ? "PK\1\2\24" : "PK\3\4", i ? 6 : 4);
    put(both[i], 20, 2);
    put(both[i], 0, 2);
    put(both[i], deflated ? 8 : 0, 2);
    put(both[i], 0, 4);
    put(both[i], crc32(0, x, (uInt)n), 4);
    put(both[i], s.total_out, 4);
    put(both[i], n, 4);
    put(both[i], n_name, 2);
    put(both[i], 0, i ? 8 : 2);
    if (i) put(both[i], 0, 4), put(both[i], at, 4);
    put_bytes(both[i], arrays[k].name, n_name - 4);
    put_bytes(both[i], ".npy", 4);
  }
  put_bytes(a, packed, s.total_out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ts_config *c;
  archive a = {.n = 0}, entries = {.n = 0};
  if (!c) c = fuzz_deck(deck, NULL, 0);
  const uint8_t *end = data + size;
  for (int k = 0; k < N; k++) {
    uint8_t x[ROOM] = {0};
    const size_t n = make_array(x, k);
    for (const uint8_t *e = data + 1; size && e + 4 <= end; e += 4)
      if (e[0] % (N + 2) == k) edit(x, n, e);
    add(&a, &entries, k, x, n, size && (data[0] & 1));
  }
  const size_t from = a.n;
  put_bytes(&a, entries.bytes, entries.n);
  put_bytes(&a, "PK\5\6\0\0\0", 8);
  put(&a, N, 2);
  put(&a, N, 2);
  put(&a, entries.n, 4);
  put(&a, from, 4);
  put(&a, 0, 2);
  for (const uint8_t *e = data + 1; size && e + 4 <= end; e += 4) {
    if (e[0] % (N + 2) == N) edit(a.bytes, a.n, e);
    if (e[0] % (N + 2) == N + 1) edit(a.bytes + from, a.n - from, e);
  }
  fuzz_file("in.npz", a.bytes, a.n);
  const ts_err err = fuzz_read(c, NULL, NULL);
  FUZZ_CHECK(size > 4 || err == TS_OK);
  FUZZ_CHECK(err == TS_OK || err == TS_ERR_DATA);
  ts_err_clear();
  return 0;
}
