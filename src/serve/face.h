/* face.h - what callers count on, whatever is served: inputs and outputs.
 * Functions are Local. */
#pragma once

#include "serve/state.h"

typedef struct ts_face {
  int32_t n_dense, n_features, n_outputs;
  char **feature;      /* (n_features) */
  int32_t *dim;        /* (n_features) */
  int32_t *at;         /* (n_features) the state's; that of a first part */
  char **output;       /* (n_outputs) */
  int32_t *vector_dim; /* (n_outputs) 0: not over items */
  bool *tower;         /* (n_outputs) layers make its items */
} ts_face;

ts_err ts_face_take(ts_face *, const ts_serve_state *);
void ts_face_reset(ts_face *); /* after an error of take, too */
bool ts_face_is_same(const ts_face *, const ts_face *);
