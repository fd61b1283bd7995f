/* checkpoint_newest.c - which checkpoint is loaded: the newest that is not
 * damaged, of a folder and of its mirror. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"

/* One of a folder's or of its mirror's. */
typedef struct ts_found {
  char path[4400]; /* "": there are no more */
  bool mirrored;
} ts_found;

/* Newest first; of equal steps the folder's own comes before the mirror's. */
static void pick(ts_found *found, const char *const dirs[2],
                 char **const names[2], const int n[2], int number) {
  int at[2] = {0, 0};
  for (int i = 0; i <= number && (at[0] < n[0] || at[1] < n[1]); i++) {
    const int which =
        at[0] == n[0] ||
        (at[1] < n[1] && ts_ckpt_compare(names[1][at[1]], names[0][at[0]]) > 0);
    const char *name = names[which][at[which]++];
    if (i < number) continue;
    snprintf(found->path, sizeof found->path, "%.4000s/%.255s", dirs[which],
             name);
    found->mirrored = which;
  }
}

/* A mirror that can't be read is missed where the folder has none itself. */
static ts_err look(ts_found *found, const char *dir, const char *mirror,
                   int number) {
  ts_err err = TS_OK;
  const char *const dirs[2] = {dir, mirror};
  char **names[2] = {NULL, NULL};
  int n[2] = {0, 0};
  for (int k = 0; k < 2 && dirs[k]; k++) {
    err = ts_ckpt_list(dirs[k], &names[k], &n[k]);
    if (err == TS_ERR_CKPT && n[0] > 0) {
      ts_warn("the mirror: %s: what it has is not looked at", ts_err_message());
      ts_err_clear();
      err = TS_OK;
    }
    TS_TRY(err);
    ts_ckpt_sort(names[k], n[k]);
  }
  pick(found, dirs, names, n, number);
done:
  ts_ckpt_list_free(names[0], n[0]);
  ts_ckpt_list_free(names[1], n[1]);
  return err;
}

/* Rank 0's view for all. */
static ts_err nth_newest(ts_str *path, bool *mirrored, const char *dir,
                         const char *mirror, int number, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_found found = {.path = ""};
  if (!comm || ts_comm_rank(comm) == 0) err = look(&found, dir, mirror, number);
  if (comm) {
    TS_DO(ts_agree(comm, err));
    TS_DO(ts_comm_bcast(comm, &found, sizeof found, 0));
  }
  TS_DO(err);
  *mirrored = found.mirrored;
  ts_str_reset(path);
  if (*found.path) TS_DO(ts_str_append(path, "%s", found.path));
  return TS_OK;
}

ts_err ts_ckpt_newest(ts_str *path, const char *dir, const char *mirror,
                      ts_comm *comm) {
  bool mirrored;
  return nth_newest(path, &mirrored, dir, mirror, 0, comm);
}

ts_err ts_ckpt_newest_seen(ts_str *path, const char *dir, const char *mirror,
                           int number) {
  ts_found found = {.path = ""};
  TS_DO(look(&found, dir, mirror, number));
  return *found.path ? ts_str_append(path, "%s", found.path) : TS_OK;
}

static void forget_values(ts_ckpt *c) {
  for (int32_t i = 0; i < c->n_values; i++) {
    ts_mem_free_all(c->values[i].path, c->values[i].ptr);
  }
  ts_mem_free(c->values);
  c->values = NULL;
  c->n_values = 0;
}

/* Tries number 0, 1, .. */
typedef struct ts_search {
  int number, n_gone;
} ts_search;

/* So often a search begins again as the file that it met has gone. */
enum { SEARCHES = 20 };

/* *AGAIN: TRIED has gone, as rank 0 sees it; else the error stays. */
static ts_err begin_again(ts_search *s, const char *tried, bool *again,
                          ts_comm *comm) {
  ts_err_record fault;
  ts_err_take(&fault);
  int64_t gone = !comm || ts_comm_rank(comm) == 0 ? access(tried, F_OK) : 0;
  if (comm) TS_DO(ts_comm_bcast(comm, &gone, sizeof gone, 0));
  *again = gone && ++s->n_gone <= SEARCHES;
  if (*again)
    s->number = -1;
  else
    ts_err_put(&fault);
  return TS_OK;
}

static void say_back(const char *tried, const char *why, const char *path) {
  if (strstr(why, tried))
    ts_warn("%s; going back to the checkpoint before: %s", why, path);
  else
    ts_warn("%s builds on what is not whole: %s; going back to the checkpoint "
            "before: %s",
            tried, why, path);
}

ts_err ts_ckpt_use_newest(ts_str *path, const char *dir, const char *mirror,
                          ts_ckpt_use *use, void *arg, ts_comm *comm) {
  ts_err err = TS_OK;
  bool mirrored, again;
  char tried[4400] = "";
  for (ts_search s = {0};; s.number++) {
    ts_err_record fault;
    const ts_err before = err;
    ts_err_take(&fault);
    TS_DO(nth_newest(path, &mirrored, dir, mirror, s.number, comm));
    if (!path->text) { /* no more */
      if (before != TS_OK) ts_err_put(&fault);
      return before;
    }
    if (before != TS_OK) say_back(tried, fault.text, path->text);
    snprintf(tried, sizeof tried, "%s", path->text);
    err = use(arg, path->text, mirrored);
    if (err != TS_ERR_CKPT) return err;
    TS_DO(begin_again(&s, tried, &again, comm));
    if (again) err = TS_OK;
  }
}

typedef struct ts_loading {
  ts_ckpt *ckpt;
  const char *dir;
  ts_ckpt_use *also;
  void *arg;
  ts_comm *comm;
} ts_loading;

static ts_err load(void *arg, const char *path, bool mirrored) {
  const ts_loading *l = arg;
  forget_values(l->ckpt);
  TS_DO(ts_ckpt_load(l->ckpt, path, false, NULL, l->comm));
  if (mirrored)
    ts_note("%s is taken from the mirror: %s has none as new that is whole",
            path, l->dir);
  return l->also ? l->also(l->arg, path, mirrored) : TS_OK;
}

ts_err ts_ckpt_load_newest(ts_ckpt *c, ts_str *path, const char *dir,
                           const char *mirror, ts_ckpt_use *also, void *arg,
                           ts_comm *comm) {
  ts_loading l = {c, dir, also, arg, comm};
  return ts_ckpt_use_newest(path, dir, mirror, load, &l, comm);
}
