/* export.c - `tessera export DECK --out FOLDER`: a checkpoint's weights for
 * PyTorch; with --format serve what libtessera_serve scores by. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "commands/commands.h"
#include "commands/export_serve.h"
#include "io/checkpoint.h"
#include "io/deck.h"
#include "sparse/row_optim.h"
#include "train/forward.h"
#include "train/trainer.h"

#define BAGS "sparse_arch.embedding_bag_collection.embedding_bags.*.weight"
#define BELOW "dense_arch.model._mlp.[0-9]*._linear.*"
#define ABOVE "over_arch.model.0._mlp.[0-9]*._linear.*", "over_arch.model.1.*"

/* The names of TorchRec's state_dicts, which are those of these models here:
 * what init_from reads, export writes. */
static const struct {
  const char *kind, *whose;
  const char *names[6];
} torchrec[] = {
    {"dlrm", "DLRM", {BAGS, BELOW, ABOVE}},
    {"dcnv2", "DLRM_DCN", {BAGS, BELOW, "inter_arch.crossnet.*", ABOVE}},
    {"deepfm",
     "SimpleDeepFMNN",
     {BAGS, "dense_arch.model.[02].*", "inter_arch.deep_fm.dense_module.0.*",
      "over_arch.model.0.*"}}};

/* ---- what is asked for --------------------------------------------------- */

static ts_err take_names(ts_ckpt_export *e, const ts_config *c,
                         const char *names) {
  const char *kind = c->model.kind ? c->model.kind : "";
  if (!names || !strcmp(names, "own")) return TS_OK;
  if (strcmp(names, "torchrec") != 0)
    return ts_fail(TS_ERR_USAGE, "--names %s is none of own, torchrec", names);
  for (size_t i = 0; i < sizeof torchrec / sizeof *torchrec; i++)
    if (!strcmp(torchrec[i].kind, kind)) {
      e->names = torchrec[i].names;
      e->whose = torchrec[i].whose;
    }
  if (e->names && strcmp(kind, "deepfm") != 0) return TS_OK;
  if (e->names && !strcmp(c->model.deepfm_fm, "flat")) return TS_OK;
  return ts_fail(TS_ERR_USAGE,
                 "--names torchrec is for model.kind dlrm, dcnv2, and deepfm "
                 "with deepfm.fm = \"flat\", which TorchRec has, too: --names "
                 "own takes any model");
}

static ts_err take_size(ts_ckpt_export *e, const char *text) {
  char *end;
  const double x = text ? strtod(text, &end) : 5e9;
  if (text && (end == text || *end || !(x >= 1 && x < 9e18)))
    return ts_fail(TS_ERR_USAGE,
                   "--max-file %s is no number of bytes from 1 on, as 5e9",
                   text);
  e->max_file = (int64_t)x;
  return TS_OK;
}

static bool has_pt_names(const ts_args *a) {
  return a->format && !strcmp(a->format, "pt-names");
}

static ts_err check_format(const ts_args *a, bool serves) {
  if (a->format && !serves && !has_pt_names(a) &&
      strcmp(a->format, "safetensors") != 0)
    return ts_fail(TS_ERR_USAGE,
                   "--format %s is none of safetensors, pt-names, serve",
                   a->format);
  if (!serves && (a->tables || a->dense || a->base))
    return ts_fail(TS_ERR_USAGE,
                   "--tables, --dense and --base are for --format serve");
  if (serves && (a->names || a->state || a->averages || a->max_file))
    return ts_fail(TS_ERR_USAGE,
                   "--names, --state, --averages and --max-file are not for "
                   "--format serve");
  return TS_OK;
}

/* As ts_tbe_take_averages has it, of rows; pass 0: of one without a mean. */
static void average(const void *arg, float *w, const float *mean, float pass,
                    int64_t dim, int64_t step) {
  const ts_config *c = arg;
  ts_row_take_mean(w, mean, pass, dim, c->optimizer.ema, step);
}

static ts_err take_averages(ts_ckpt_export *e, const ts_config *c) {
  if (!(c->optimizer.ema > 0))
    return ts_fail(TS_ERR_USAGE, "--averages: the deck has no optimizer.ema");
  if (e->state)
    return ts_fail(TS_ERR_USAGE,
                   "--averages and --state: the state is of the weights, not "
                   "of their means: export them to two folders");
  e->average = average;
  e->arg = c;
  return TS_OK;
}

/* ---- the newest ---------------------------------------------------------- */

static ts_err export_one(void *arg, const char *path, bool mirrored) {
  (void)mirrored;
  return ts_ckpt_export_to(arg, path);
}

static ts_err export_newest(ts_ckpt_export *e, const ts_config *c) {
  ts_str path = {0};
  ts_err err = ts_ckpt_use_newest(&path, c->checkpoint.dir, ts_mirror_of(c),
                                  export_one, e, NULL);
  if (err == TS_OK && !path.text) err = ts_forward_none(c);
  ts_str_reset(&path);
  return err;
}

ts_err ts_cmd_export(const ts_args *a) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_str best = {0};
  const char *path;
  ts_ckpt_export e = {.out = a->out, .state = a->state};
  ts_serve_export serve = {0};
  const bool serves = a->format && !strcmp(a->format, "serve");
  if (!a->target || !a->out || !*a->out)
    return ts_fail(TS_ERR_USAGE, "usage: tessera export DECK --out %s",
                   serves ? "FILE" : "FOLDER");
  TS_DO(check_format(a, serves));
  TS_TRY(ts_deck_read_all(&c, a->target, a->sets, a->n_sets));
  TS_TRY(ts_deck_spare(c, "--out", a->out));
  TS_TRY(take_names(&e, c, has_pt_names(a) ? "torchrec" : a->names));
  TS_TRY(take_size(&e, a->max_file));
  if (a->averages) TS_TRY(take_averages(&e, c));
  if (serves) {
    TS_TRY(ts_serve_export_begin(&serve, &e, c, a));
    if (c->optimizer.ema > 0) e.average = average, e.arg = c;
  }
  TS_TRY(ts_forward_checkpoint(&path, &best, c, a->checkpoint));
  TS_TRY(path ? ts_ckpt_export_to(&e, path) : export_newest(&e, c));
done:
  ts_serve_export_end(&serve);
  ts_str_reset(&best);
  ts_deck_destroy(c);
  return err;
}
