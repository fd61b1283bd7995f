/* param_optim.h - which optimizer each dense parameter has: the deck's, or that
 * of the last override that matches its name. */
#ifndef TS_DENSE_PARAM_OPTIM_H
#define TS_DENSE_PARAM_OPTIM_H

#include "dense/optim.h"

typedef struct ts_param_optims ts_param_optims;

/* DECK errors: options that a kind does not have, matches of nothing.
 * CONFIG must stay.  Local. */
ts_err ts_param_optims_create(ts_param_optims **, const ts_params *,
                              const ts_config *);
void ts_param_optims_destroy(ts_param_optims *);
const ts_optim_config *ts_param_optims_of(const ts_param_optims *,
                                          const ts_param *);

#endif
