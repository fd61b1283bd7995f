/* update.h - pieces of the dense kernels that are the same everywhere.
 * All of it is Local. */
#pragma once

#include "dense/optim.h"
#include "kernel_table.h"

ts_err ts_loss_host(const ts_loss_args *);
