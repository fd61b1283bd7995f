/* fuzz_csv.c - CSV.  The first line says how the deck reads it: v vocabulary,
 * s standardise, l log1p, d bad records dropped, t tabs, n labels as numbers, b
 * lists, one of them with weights.
 * The file follows; after a line "%" what a checkpoint says that was learnt. */
#include <string.h>

#include "base/mem.h"
#include "io/deck.h"
#include "tests/fuzz/fuzz.h"

static const char deck[] =
    "run = { steps = 1; };\n"
    "data = { train = \"in.csv\"; format = \"csv\"; global_batch = 7;\n"
    "  max_bad = 5; csv = { label = \"y\"; missing = \"?\"; dense = [\"x\"]; "
    "}; "
    "};\n"
    "tables = ( { name = \"u\"; rows = 5; dim = 4; features = [\"u\"]; },\n"
    "  { name = \"v\"; rows = 100; dim = 4; features = [\"v\"]; } );\n"
    "model = { dense_features = 1; over_arch = [1]; };\n";

/* Kept: reading a deck takes longer than reading the file. */
static ts_config *make_deck(const char *flags) {
  static ts_config *kept[128];
  const char *sets[8];
  int n = 0, number = 0;
  for (int i = 0; i < 7; i++)
    number |= (strchr(flags, "vlsdtnb"[i]) != NULL) << i;
  if (kept[number]) return kept[number];
  const bool log = strchr(flags, 'l'), scale = strchr(flags, 's');
  if (strchr(flags, 'v')) sets[n++] = "data.csv.encoding=vocabulary";
  if (log && !scale) sets[n++] = "data.csv.dense_transform=log1p";
  if (scale && !log) sets[n++] = "data.csv.dense_transform=standardise";
  if (scale && log) sets[n++] = "data.csv.dense_transform=log1p_standardise";
  if (strchr(flags, 'd')) sets[n++] = "data.on_bad_record=skip";
  if (strchr(flags, 't')) sets[n++] = "data.csv.separator=tab";
  if (strchr(flags, 'b')) sets[n++] = "data.csv.list_separator=|";
  if (strchr(flags, 'b')) sets[n++] = "tables.v.weighted=true";
  if (!strchr(flags, 'n')) sets[n++] = "data.csv.label_true=[\"yes\"]";
  return kept[number] = fuzz_deck(deck, sets, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1), *saved = NULL;
  memcpy(text, data, size);
  text[size] = '\0';
  char *flags_end = memchr(text, '\n', size);
  if (flags_end) {
    *flags_end = '\0';
    char *file = flags_end + 1;
    char *state = memmem(file, (size_t)(text + size - file), "\n%\n", 3);
    const char *end = state ? state + 1 : text + size;
    fuzz_file("in.csv", file, (size_t)(end - file));
    ts_config *c = make_deck(text);
    if (fuzz_read(c, state ? state + 3 : NULL, &saved) == TS_OK && saved)
      FUZZ_CHECK(fuzz_read(c, saved, NULL) == TS_OK);
    ts_mem_free(saved);
  }
  ts_err_clear();
  free(text);
  return 0;
}
