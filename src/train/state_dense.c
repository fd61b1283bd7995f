/* state_dense.c - the dense parameters of a checkpoint. */
#include "train/state_dense.h"

#include <string.h>

#include "base/log.h"
#include "dense/param_optim.h"

static ts_err add_array(ts_trainer *t, ts_ckpt *ckpt, const ts_param *p,
                        const ts_param_piece *piece, const char *prefix,
                        const char *suffix, float *data) {
  ts_err err = TS_OK;
  ts_str name = {0};
  ts_ckpt_item *item;
  TS_TRY(ts_str_append(&name, "%s/%s%s%s", prefix, p->name, suffix ? "/" : "",
                       suffix ? suffix : ""));
  TS_TRY(ts_ckpt_add_item(ckpt, name.text, TS_F32, p->rows, p->cols, &item));
  if (t->rank == 0 || !piece->replicated)
    TS_TRY(
        ts_ckpt_add_piece(item, true, false, piece->row0, piece->n_rows, data));
  TS_TRY(
      ts_ckpt_add_piece(item, false, true, piece->row0, piece->n_rows, data));
done:
  ts_str_reset(&name);
  return err;
}

/* Averages; where nothing is trained they take the weights' place. */
static ts_err add_average(ts_trainer *t, ts_ckpt *ckpt, const ts_param *p,
                          const ts_param_piece *piece, bool with_state) {
  if (!(t->config->optimizer.ema > 0) || p->frozen) return TS_OK;
  if (t->training && !with_state) return TS_OK;
  TS_DO(add_array(t, ckpt, p, piece, "ema", NULL,
                  t->training ? p->ema : piece->w));
  ckpt->items[ckpt->n_items - 1].optional = true;
  return TS_OK;
}

ts_err ts_state_look_averages(ts_trainer *t, const ts_ckpt *ckpt,
                              const char *path) {
  int32_t n = 0, n_absent = 0;
  for (int32_t i = 0; i < ckpt->n_items; i++) {
    const ts_ckpt_item *item = &ckpt->items[i];
    const bool row = !strncmp(item->name, "optim/", 6);
    const bool dense = !strncmp(item->name, "ema/", 4);
    if (!item->optional || !(row ? item->cols > 0 : dense)) continue;
    n++;
    if (!item->absent) continue;
    n_absent++;
    if (t->training && !row) /* a row's begins at its next update */
      TS_DO(ts_parallel_start_averages(
          t->dense, ts_params_find(&t->params, item->name + strlen("ema/")),
          t->compute));
  }
  if (n_absent)
    ts_note("%s lacks averages of %d of %d parameters (optimizer.ema): "
            "%s",
            path, n_absent, n,
            t->training ? "they begin as its weights"
                        : "their weights are taken");
  else if (n && !t->training)
    ts_info("weights: their averages (optimizer.ema = %g)",
            t->config->optimizer.ema);
  return TS_OK;
}

ts_err ts_state_dense(ts_trainer *t, ts_ckpt *ckpt, bool with_state) {
  const ts_params *params = &t->params;
  for (int32_t i = 0; i < params->n; i++) {
    ts_param *p = params->item[i];
    const ts_param_piece piece = ts_parallel_piece(t->dense, p);
    TS_DO(add_array(t, ckpt, p, &piece, "model", NULL, piece.w));
    TS_DO(add_average(t, ckpt, p, &piece, with_state));
    if (!with_state) continue;
    const ts_optim_config *c = ts_parallel_optim(t->dense, p);
    for (int k = 0; k < ts_param_n_states(c, p); k++)
      TS_DO(add_array(t, ckpt, p, &piece, "optim",
                      ts_dense_optim_state_name(c, k), piece.state[k]));
  }
  for (int32_t i = 0; i < t->model->buffers.n; i++) { /* all ranks' alike */
    ts_param *p = t->model->buffers.item[i];
    const ts_param_piece piece = {.replicated = true, .n_rows = p->rows};
    TS_DO(add_array(t, ckpt, p, &piece, "model", NULL, p->w));
  }
  return TS_OK;
}
