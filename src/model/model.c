/* model.c - the table of models.  To add one: one file, one line. */
#include "model/model.h"

#include <string.h>

extern const ts_model_ops ts_model_dlrm, ts_model_dcnv2, ts_model_deepfm,
    ts_model_sparsenn;

static const ts_model_ops *const table[] = {
    &ts_model_dlrm, &ts_model_dcnv2, &ts_model_deepfm, &ts_model_sparsenn};

const ts_model_ops *ts_model_find(const char *kind) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i]->kind, kind)) return table[i];
  return NULL;
}

const char *ts_model_kinds(void) {
  return "dlrm, dcnv2, deepfm, sparsenn";
}
