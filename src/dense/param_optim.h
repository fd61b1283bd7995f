/* param_optim.h - which optimizer each dense parameter has: the deck's; what
 * the model says of the parameter (ts_param.optimizer, .l2); the last override
 * that matches its name.  Each takes what it does not say from the one before
 * it.
 *
 * Tables whose optimizer is "none" are among those names: the deck's optimizer
 * trains them, too (shard/dense_rows.c).  All of it is Local. */
#pragma once

#include "base/str.h"
#include "dense/optim.h"

typedef struct ts_param_optims ts_param_optims;

/* DECK errors: options that a kind does not have, both ways of clipping,
 * overrides that match neither a parameter nor a table of optimizer "none".
 * Local. */
ts_err ts_param_optims_create(ts_param_optims **, const ts_params *,
                              const ts_config *);
void ts_param_optims_destroy(ts_param_optims *);
const ts_optim_config *ts_param_optims_of(const ts_param_optims *,
                                          const ts_param *);

/* The optimizer of a parameter, checked and filled. */
ts_err ts_param_optim(ts_optim_config *, const ts_config *, const ts_param *);
/* Its states: none where it is frozen. */
int ts_param_n_states(const ts_optim_config *, const ts_param *);
/* The optimizer of the table whose weights are NAME. */
ts_err ts_param_optim_named(ts_optim_config *, const ts_config *,
                            const char *name);
/* Name of a table's weights, as in checkpoints. */
ts_err ts_param_table_name(ts_str *, const ts_table_config *);
/* The table's rows are trained by the deck's optimizer. */
bool ts_param_is_table(const ts_table_config *);
