/* fuzz_parquet.c - Parquet, and Arrow's own files, by io/parquet.cc: the input
 * is the file.  Arrow's library is as it came; what of its memory is read here
 * is watched, as it is of the system's pool. */
#include "io/parquet.h"
#include "tests/fuzz/fuzz.h"

static const char deck[] =
    "run = { steps = 1; threads = 1; };\n"
    "data = { train = \"in\"; format = \"parquet\"; global_batch = 7;\n"
    "  columns = ( { name = \"y\"; kind = \"label\"; },\n"
    "    { name = \"x\"; kind = \"dense\"; transform = \"standardise\"; },\n"
    "    { name = \"u\"; kind = \"ids\"; encoding = \"none\"; },\n"
    "    { name = \"w\"; kind = \"ids\"; encoding = \"vocabulary\"; },\n"
    "    { name = \"b\"; kind = \"ids\"; encoding = \"hash\"; },\n"
    "    { name = \"p\"; kind = \"ids\"; encoding = \"hash\"; } ); };\n"
    "tables = ( { name = \"u\"; rows = 100; dim = 4; features = \"u\"; },\n"
    "  { name = \"w\"; rows = 100; dim = 4; features = \"w\"; },\n"
    "  { name = \"b\"; rows = 100; dim = 4; features = \"b\"; },\n"
    "  { name = \"p\"; rows = 100; dim = 4; features = \"p\";\n"
    "    weighted = true; } );\n"
    "model = { dense_features = 1; dense_arch = [4]; over_arch = [1]; };\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ts_config *c;
  char why[TS_PARQUET_WHY];
  if (!c) {
    setenv("ARROW_DEFAULT_MEMORY_POOL", "system", 1);
    FUZZ_CHECK(ts_parquet_is_there(why));
    c = fuzz_deck(deck, NULL, 0);
  }
  fuzz_file("in", data, size);
  (void)fuzz_read(c, NULL, NULL);
  ts_err_clear();
  return 0;
}
