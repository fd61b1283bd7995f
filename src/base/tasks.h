/* tasks.h - what is asked of a task: an element of model.outputs, or of
 * model.tasks, where only name and weight are set.
 * All of it is Local. */
#pragma once

#include <string.h>

#include "base/config.h"

/* The column of its labels. */
static inline const char *ts_task_label(const ts_task_config *x) {
  return x->label && *x->label ? x->label : x->name;
}

/* Its predictions are probabilities, its labels 0, 1 or between. */
static inline bool ts_task_is_binary(const ts_task_config *x) {
  return !x->loss || !strcmp(x->loss, "bce");
}

/* Some samples don't count. */
static inline bool ts_task_has_where(const ts_task_config *x) {
  return x->where && *x->where;
}
