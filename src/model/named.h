/* named.h - the models of model.kind that keys of their own describe,
 * TorchRec's dlrm, dcnv2, deepfm and sparsenn, as the layers that they are.
 * Parameters have TorchRec's names and initial values that go by their place,
 * as in all checkpoints that these models ever wrote. All of it is Local. */
#pragma once

#include "base/config.h"
#include "base/err.h"

/* Layers that the program makes (layer_list.c). */
typedef struct ts_layer_list {
  ts_layer_config *item; /* (n) */
  int32_t n;
} ts_layer_list;

/* One more layer NAME of KIND with the deck's optimizer and options of zeros;
 * NAME stays the caller's.  *OUT holds until the next one. */
ts_err ts_layer_list_add(ts_layer_list *, ts_layer_config **out,
                         const char *name, const char *kind);
/* One more name in its `in`. */
ts_err ts_layer_reads(ts_layer_config *, const char *name);
/* The address of KEY's value, one of its kind, among the layer's options. */
void *ts_layer_option(const ts_layer_config *, const char *key);
void ts_layer_list_reset(ts_layer_list *);

typedef struct ts_named {
  const char *kind;
  bool any_dims; /* tables may differ in dim */
  /* Weighted tables are a collection of their own in the names of checkpoints,
   * "weighted_embedding_bag_collection". */
  bool weighted_apart;
  /* Its layers grow so fast with the number of features that the planner counts
   * them, where they are large, instead of building them for a look. */
  bool grows;
  /* Adds the layers to an empty list; DECK errors for shapes that do not fit,
   * naming the keys. */
  ts_err (*layers)(ts_layer_list *, const ts_config *);
} ts_named;

/* That of model.kind; NULL where the deck has layers, or there is no such. */
const ts_named *ts_named_of(const ts_config *);
