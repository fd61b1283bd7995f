/* loss_tasks.h - the losses that the deck's tasks have. */
#pragma once

#include "base/config.h"
#include "base/err.h"
#include "dense/kernels.h"

/* *OUT (n_tasks), to be freed, once the graph is made; NULL where all of it is
 * one task of bce and weight 1 (ts_loss_args.tasks).  Local. */
ts_err ts_task_losses_create(ts_task_loss **out, const ts_config *);
