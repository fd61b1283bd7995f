/* checkpoint_newest.c - which checkpoint of a folder is loaded: the newest that
 * is not damaged. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"

/* Newest first, rank 0's view for all: PATH NUMBER of the folder, "" after
 * the last. */
static ts_err nth_newest(ts_str *path, const char *dir, int number,
                         ts_comm *comm) {
  ts_err err = TS_OK;
  char name[256] = "";
  if (ts_comm_rank(comm) == 0) {
    char **names;
    int n;
    ts_ckpt_list(dir, &names, &n);
    ts_ckpt_sort(names, n);
    if (number < n) snprintf(name, sizeof name, "%s", names[number]);
    ts_ckpt_list_free(names, n);
  }
  TS_TRY(ts_comm_bcast(comm, name, sizeof name, 0));
  ts_str_reset(path);
  if (*name) TS_TRY(ts_str_append(path, "%s/%s", dir, name));
done:
  return err;
}

ts_err ts_ckpt_newest(ts_str *path, const char *dir, ts_comm *comm) {
  return nth_newest(path, dir, 0, comm);
}

static void forget_values(ts_ckpt *c) {
  for (int32_t i = 0; i < c->n_values; i++) {
    ts_mem_free(c->values[i].path);
    ts_mem_free(c->values[i].ptr);
  }
  ts_mem_free(c->values);
  c->values = NULL;
  c->n_values = 0;
}

ts_err ts_ckpt_load_newest(ts_ckpt *c, ts_str *path, const char *dir,
                           ts_comm *comm) {
  ts_err err = TS_OK;
  for (int number = 0;; number++) {
    ts_err_record fault;
    const ts_err before = err;
    ts_err_take(&fault);
    err = nth_newest(path, dir, number, comm);
    if (err != TS_OK) return err;
    if (!path->text) { /* no more */
      if (before != TS_OK) ts_err_put(&fault);
      return before;
    }
    if (before != TS_OK)
      ts_warn("%s; going back to the checkpoint before: %s", fault.text,
              path->text);
    forget_values(c);
    err = ts_ckpt_load(c, path->text, false, NULL, comm);
    if (err == TS_OK || err != TS_ERR_CKPT) return err;
  }
}
