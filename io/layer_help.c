/* layer_help.c - `tessera help model` and `tessera help layer KIND`; also as
 * part of the manual. */
#include <stdio.h>
#include <string.h>

#include "base/kinds.h"
#include "io/deck_impl.h"
#include "model/layer.h"
#include "model/zoo.h"

static const char *const intro =
    "A model is model.kind = NAME, or model.layers: a graph of layers.\n"
    "\n"
    "  model = {\n"
    "    layers = (\n"
    "      { name = \"deep\"; kind = \"mlp\"; in = \"embeddings\"; units = "
    "[64, "
    "32]; },\n"
    "      { name = \"click\"; kind = \"linear\"; in = \"deep\"; units = 1; } "
    ");\n"
    "  };\n"
    "\n"
    "A layer reads layers above it, or inputs: dense, dense? (left out "
    "without\n"
    "dense features), a feature, embeddings (all side by side), fields (the\n"
    "same, of one dim), embeddings:GROUP and fields:GROUP.  The last layer\n"
    "gives the logits, or model.outputs says which do.\n"
    "\n"
    "Graphs that come with the program (model.kind; model.change and --set\n"
    "model.LAYER.KEY=VALUE change their layers):\n";

/* The first line of a kind's page. */
static ts_err first_line(ts_str *s, const ts_layer_ops *ops) {
  const int n = (int)strcspn(ops->page, "\n");
  return ts_str_append(s, "  %-18s %.*s\n", ops->kind, n, ops->page);
}

ts_err ts_model_help(ts_str *s) {
  size_t column = 0;
  TS_DO(ts_str_append(s, "%s", intro));
  for (int k = 0; ts_zoo_name(k); k++) {
    const size_t n = strlen(ts_zoo_name(k));
    if (column + n > 70) column = 0;
    TS_DO(ts_str_append(s, "%s%s",
                        column ? " "
                        : k    ? "\n  "
                               : "  ",
                        ts_zoo_name(k)));
    column += n + 1;
  }
  TS_DO(ts_str_append(s,
                      "\n\nGraphs that model.kind and keys of its own make:\n"
                      "  %s\n\nOf model.outputs:\n",
                      TS_LISTED(TS_MODELS)));
  TS_DO(ts_deck_help_key(s, ts_schema_find(TS_SCOPE_OUTPUT, "loss"), ""));
  TS_DO(ts_str_append(s, "\nKinds of layers (tessera help layer KIND):\n"));
  for (int k = 0; ts_layer_kind(k); k++) TS_DO(first_line(s, ts_layer_kind(k)));
  return ts_str_append(s, "  %-18s %s\n", "block",
                       "layers that are repeated: repeat, layers = ( .. )");
}

ts_err ts_layer_help(ts_str *s, const char *kind) {
  const ts_layer_ops *ops = ts_layer_find(kind);
  if (!ops)
    return ts_fail(TS_ERR_USAGE, "no kind of layer \"%s\"; there are: %s", kind,
                   ts_layer_kinds());
  TS_DO(ts_str_append(s, "%s\n\n%s\n", kind, ops->page));
  for (size_t k = 0; k < ops->n_keys; k++)
    TS_DO(ts_deck_help_key(s, &ops->keys[k], ""));
  return ts_str_append(
      s, "%sKeys that all kinds have: tessera help model.layers\n",
      ops->n_keys ? "\n" : "");
}

/* ---- Texinfo ------------------------------------------------------------- */

static ts_err put_verbatim(ts_str *s, const char *text) {
  return ts_str_append(s, "@verbatim\n%s@end verbatim\n", text);
}

ts_err ts_layers_texinfo(ts_str *s) {
  ts_err err = TS_OK;
  ts_str page = {0};
  TS_TRY(ts_str_append(s, "@c Written by `tessera help model --texinfo`.\n"));
  for (int k = 0; ts_layer_kind(k); k++) {
    const char *kind = ts_layer_kind(k)->kind;
    ts_str_reset(&page);
    TS_TRY(ts_layer_help(&page, kind));
    TS_TRY(ts_str_append(s,
                         "\n@node Layer %s\n@subsection @code{%s}\n@kindex "
                         "%s\n\n",
                         kind, kind, kind));
    TS_TRY(put_verbatim(s, page.text + strlen(kind) + 2));
  }
done:
  ts_str_reset(&page);
  return err;
}
