/* face.c - inputs and outputs of what is served. */
#include "serve/face.h"

#include <string.h>

#include "base/mem.h"
#include "base/tasks.h"

void ts_face_reset(ts_face *f) {
  for (int32_t i = 0; f->feature && i < f->n_features; i++)
    ts_mem_free(f->feature[i]);
  for (int32_t i = 0; f->output && i < f->n_outputs; i++)
    ts_mem_free(f->output[i]);
  ts_mem_free_all(f->feature, f->dim, f->at, f->output, f->vector_dim,
                  f->tower);
  *f = (ts_face){0};
}

static ts_err face_outputs(ts_face *f, const ts_serve_state *s) {
  const ts_config *c = s->config;
  TS_DO(ts_mem_many(f->output, s->n_outputs, MISC));
  TS_DO(ts_mem_many(f->vector_dim, s->n_outputs, MISC));
  TS_DO(ts_mem_many(f->tower, s->n_outputs, MISC));
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const int32_t first = ts_tasks_width(c, k), end = ts_tasks_width(c, k + 1);
    for (int32_t i = first; i < end; i++)
      TS_DO(ts_mem_strdup(&f->output[i], c->model.tasks[k].name));
    f->vector_dim[first] = s->vector_dim[k];
    f->tower[first] =
        s->vector_dim[k] && ts_task_has_tower(c, &c->model.tasks[k]);
  }
  return TS_OK;
}

ts_err ts_face_take(ts_face *f, const ts_serve_state *s) {
  *f = (ts_face){.n_dense = s->config->model.dense_features,
                 .n_features = s->n_given,
                 .n_outputs = s->n_outputs};
  TS_DO(ts_mem_many(f->feature, s->n_given, MISC));
  TS_DO(ts_mem_many(f->dim, s->n_given, MISC));
  TS_DO(ts_mem_many(f->at, s->n_given, MISC));
  for (int32_t k = 0; k < s->n_features; k++) {
    const ts_serve_feature *x = &s->feature[k];
    if (!ts_table_is_first(x->table)) continue;
    TS_DO(ts_mem_strdup(&f->feature[x->given], x->name));
    f->dim[x->given] = ts_table_whole(x->table)->dim;
    f->at[x->given] = k;
  }
  return face_outputs(f, s);
}

bool ts_face_is_same(const ts_face *a, const ts_face *b) {
  bool same = a->n_dense == b->n_dense && a->n_features == b->n_features &&
              a->n_outputs == b->n_outputs;
  for (int32_t i = 0; same && i < a->n_features; i++)
    same = !strcmp(a->feature[i], b->feature[i]) && a->dim[i] == b->dim[i];
  for (int32_t i = 0; same && i < a->n_outputs; i++)
    same = !strcmp(a->output[i], b->output[i]) &&
           a->vector_dim[i] == b->vector_dim[i] && a->tower[i] == b->tower[i];
  return same;
}
