/* state_impl.h - inside of what is served at a time; private to state.c and
 * state_keys.c.  Local. */
#pragma once

#include "serve/state.h"

/* A CKPT error: F's part NAME is not as the deck says. */
ts_err ts_serve_wrong(const ts_serve_file *f, const char *name);
/* state_keys.c: the keys of dynamic table number T, whose rows, NAME, are part
 * ALL of the file; *ROWS are these as they are served. */
ts_err ts_serve_take_keys(ts_serve_state *, int32_t t, const char *name,
                          const ts_serve_entry *all, const void **rows);
/* A delta has other ids than the file of dynamic table number T. */
bool ts_serve_has_others(const ts_serve_state *, int32_t t);
