/* deck_text.h - a deck as text, and decks that are refused. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "tests/support/harness.h"
#include "io/deck.h"

/* A deck without faults: line 1 is the run, line 4 the table u. */
static const char *const good =
    "run = { name = \"t\"; steps = 3; };\n"
    "data = { format = \"synthetic\"; batch_per_rank = 8; };\n"
    "tables = ( { name = \"t{0..2}\"; rows = [10, 20, 30]; dim = 8;\n"
    "  features = [\"C{1..3}\", \"D{7..9}\"]; },\n"
    "  { name = \"u\"; rows = \"1k\"; features = [\"E{1..2}\", \"F\"]; } );\n"
    "table_defaults = { dim = 16; dtype = \"bf16\"; optimizer = { lr = 1; }; "
    "};\n"
    "model = { dense_features = 13.0; over_arch = [8, 1]; };\n"
    "optimizer = { overrides = ( { match = \"over*\"; lr = 0.5; } ); };\n";

static inline ts_err parse(ts_config **c, const char *text, const char *set) {
  *c = NULL;
  return ts_deck_parse(c, text, "/tmp", &set, set ? 1 : 0);
}

/* TEXT is refused with code 2; the message has WORDS in it. */
static inline void refused(const char *text, const char *set,
                           const char *words) {
  ts_config *c;
  ts_err_clear();
  const ts_err err = parse(&c, text, set);
  ck_assert_msg(err == TS_ERR_DECK, "taken: %.80s %s", text, set ? set : "");
  ck_assert_msg(strstr(ts_err_message(), words) != NULL, "\"%s\" is not in: %s",
                words, ts_err_message());
  ck_assert_int_eq(ts_err_exit_code(err), 2);
  ts_err_clear();
}

/* The good deck with LINE as its ninth. */
static inline void line_refused(const char *line, const char *words) {
  char text[4096];
  snprintf(text, sizeof text, "%s%s", good, line);
  refused(text, NULL, words);
}
