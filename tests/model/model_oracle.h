/* model_oracle.h - the models written out in double, one sample at a time,
 * with parameters found by their full names. */
#pragma once

#include "model/model.h"

typedef struct ts_oracle {
  const ts_config *config;
  const ts_params *params;
  double **w;   /* (params->n) their values */
  double **emb; /* (n_features) (batch, dim of its table) */
  int32_t n_features, batch;
  const float *dense;  /* (batch, dense_features) */
  const float *labels; /* (batch, n_tasks) */
} ts_oracle;

/* Mean over samples of the sum over tasks of weight * cross entropy. */
double ts_oracle_loss(const ts_oracle *);
