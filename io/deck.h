/* deck.h - reading decks.  The schema is one table, io/schema.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/config.h"
#include "base/err.h"
#include "base/str.h"

/* Reads PATH with the overrides "group.key=value"; all errors are reported
 * at once, in one message of one line each (file:line: text).  All ranks read
 * the same file and agree on the outcome: a deck that one node can't read ends
 * the run with one message.  *OUT may be set on an error (some rank's); it is
 * the caller's to destroy.  Collective. */
ts_err ts_deck_read_all(ts_config **, const char *path, const char *const *sets,
                        int n_sets);
/* A deck from text, paths relative to DIR; for deck.effective and tests. */
ts_err ts_deck_parse(ts_config **, const char *text, const char *dir,
                     const char *const *sets, int n_sets);
void ts_deck_destroy(ts_config *);

/* The deck in force: runs to the same result. */
ts_err ts_deck_print(ts_str *, const ts_config *);
/* Appends what OLD, text of ts_deck_print, sets otherwise than the deck C of
 * what is trained: "optimizer.lr 0.1 -> 0.01, ..."; nothing where all is the
 * same. */
ts_err ts_deck_differ(ts_str *, const char *old, const ts_config *c);
ts_err ts_deck_hash(uint64_t *, const ts_config *);

/* `help deck` (whole schema) and `help KEY`; unknown keys: USAGE error with a
 * "did you mean". */
ts_err ts_deck_help(ts_str *, const char *key);
/* `help model`: kinds of layers and graphs that come with the program; `help
 * layer KIND`: one kind's page and keys; all pages as sections of Texinfo,
 * doc/kinds.texi. */
ts_err ts_model_help(ts_str *);
ts_err ts_layer_help(ts_str *, const char *kind);
ts_err ts_layers_texinfo(ts_str *);
/* The whole schema as sections of Texinfo, doc/deck.texi. */
ts_err ts_deck_texinfo(ts_str *);

/* An error of usage where OUT, what OPTION ("--out") names, is a file that the
 * deck has read from: the deck itself, a data file.  Local. */
ts_err ts_deck_spare(const ts_config *, const char *option, const char *out);
