/* fuzz_criteo.c - Criteo TSV.  The first byte: h hashes ids, d drops bad
 * records. */
#include "io/deck.h"
#include "tests/fuzz/fuzz.h"

static const char deck[] =
    "run = { steps = 1; };\n"
    "data = { train = \"in.tsv\"; format = \"criteo_tsv\"; global_batch = 7;\n"
    "  max_bad = 5; };\n"
    "tables = ( { name = \"t{0..25}\"; rows = 1000; dim = 4;\n"
    "  features = [\"C{1..26}\"]; } );\n"
    "model = { dense_features = 13; dense_arch = [4]; over_arch = [1]; };\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *const sets[] = {"data.categorical=hash",
                              "data.on_bad_record=skip"};
  static ts_config *kept[3];
  if (!size) return 0;
  fuzz_file("in.tsv", data + 1, size - 1);
  const int k = *data == 'd' ? 2 : *data == 'h';
  if (!kept[k]) kept[k] = fuzz_deck(deck, sets + (k == 2), k > 0);
  (void)fuzz_read(kept[k], NULL, NULL);
  ts_err_clear();
  return 0;
}
