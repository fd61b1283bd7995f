/* saves_check.c - what keys of checkpoints need of each other. */
#include <string.h>

#include "io/deck_impl.h"
#include "io/tensors.h"

/* State is what a checkpoint of ours has. */
static void check_state(ts_deck *d, const config_setting_t *root) {
  const char *from = d->config->checkpoint.init_from;
  if (d->config->checkpoint.init_state &&
      (!*from || ts_path_is_safetensors(from)))
    ts_deck_error(d, ts_deck_at(root, "checkpoint.init_state"),
                  "checkpoint.init_state needs checkpoint.init_from, a "
                  "checkpoint of a run, its folder of them, or one of export "
                  "--state");
}

/* Weights to go back to have to be somewhere. */
static void check_best(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const bool restores = c->run.stop.patience > 0 && c->run.stop.restore &&
                        !strcmp(c->run.stop.restore, "best");
  const config_setting_t *dir = ts_deck_at(root, "checkpoint.dir");
  const char *text = dir ? config_setting_get_string(dir) : NULL;
  if (!text || strcmp(text, "none") != 0) return;
  if (c->checkpoint.best)
    ts_deck_error(d, ts_deck_at(root, "checkpoint.best"),
                  "checkpoint.best needs a folder: checkpoint.dir is \"none\"");
  if (restores)
    ts_deck_error(d, dir,
                  "run.stop.restore = \"best\" needs checkpoint.dir; \"last\" "
                  "does not");
}

static void check_deltas(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  if (!c->checkpoint.delta_state && !c->checkpoint.delta_every)
    ts_deck_error(d, ts_deck_at(root, "checkpoint.delta_state"),
                  "checkpoint.delta_state = false is of deltas: give "
                  "checkpoint.delta_every");
  else if (!c->checkpoint.delta_state && !c->checkpoint.every)
    ts_deck_error(d, ts_deck_at(root, "checkpoint.delta_state"),
                  "checkpoint.delta_state = false: a run could go on from full "
                  "checkpoints alone: give checkpoint.every");
  if (!c->checkpoint.delta_state && c->optimizer.ema > 0)
    ts_deck_error(d, ts_deck_at(root, "checkpoint.delta_state"),
                  "checkpoint.delta_state = false leaves out running means "
                  "(optimizer.ema), which eval and predict go by");
}

void ts_saves_check(ts_deck *d, const config_setting_t *root) {
  check_deltas(d, root);
  check_best(d, root);
  check_state(d, root);
}
