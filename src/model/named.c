/* named.c - see named.h.  b, the MLP over dense features, is left out where
 * there are none. */
#include "model/named.h"

#include <math.h>
#include <string.h>

#include "base/features.h"
#include "base/kinds.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/layers/cross_forms.h"
#include "model/mlp_options.h"

/* ---- lists of layers ----------------------------------------------------- */

static void set(const ts_layer_config *l, const char *key, int32_t value) {
  *(int32_t *)ts_layer_option(l, key) = value;
}

/* Linear layers with ReLU, behind the last one where not LAST_LINEAR. */
static ts_err add_mlp(ts_layer_list *list, ts_layer_config **out,
                      const char *name, const int64_t *units, int32_t n,
                      bool last_linear) {
  ts_layer_config *l;
  TS_DO(ts_layer_list_add(list, &l, name, "mlp"));
  ts_ints *to = ts_layer_option(l, "units");
  TS_DO(ts_mem_array(&to->item, n, sizeof *units, TS_TAG_MISC));
  memcpy(to->item, units, (size_t)n * sizeof *units);
  to->n = n;
  set(l, "activation", TS_ACTIVATION_RELU);
  if (last_linear) set(l, "last_activation", 1 + TS_ACTIVATION_LINEAR);
  *out = l;
  return TS_OK;
}

/* ---- what they have in common -------------------------------------------- */

static ts_err check(const ts_config *c) {
  const ts_ints *over = &c->model.over_arch;
  for (int32_t t = 0; t < c->n_tables; t++)
    if (c->tables[t].group && *c->tables[t].group)
      return ts_fail(TS_ERR_DECK,
                     "table %s: model.kind = \"%s\" takes all tables alike: "
                     "its tables of group \"%s\" are read by model.layers "
                     "alone",
                     c->tables[t].name, c->model.kind, c->tables[t].group);
  for (int32_t t = 0; t < c->n_tables; t++)
    if (c->tables[t].pooling == TS_POOL_NONE)
      return ts_fail(TS_ERR_DECK,
                     "table %s: pooling \"none\" gives sequences, which "
                     "model %s does not take",
                     c->tables[t].name, c->model.kind);
  if (!over->n || over->item[over->n - 1] != c->model.n_tasks)
    return ts_fail(TS_ERR_DECK,
                   "model.over_arch ends with %lld, but there are %d tasks: "
                   "one output each",
                   over->n ? (long long)over->item[over->n - 1] : 0LL,
                   c->model.n_tasks);
  return TS_OK;
}

/* b, where there are dense features. */
static ts_err add_bottom(ts_layer_list *list, const ts_config *c) {
  const ts_ints *units = &c->model.dense_arch;
  ts_layer_config *l;
  if (!c->model.dense_features) return TS_OK;
  if (!units->n)
    return ts_fail(TS_ERR_DECK,
                   "model.dense_arch is empty, but there are %d dense features",
                   c->model.dense_features);
  TS_DO(add_mlp(list, &l, "bottom", units->item, units->n, false));
  l->parameters = (char *)"dense_arch.model._mlp.{i}._linear";
  l->parameter_group = (char *)"dense_arch";
  return ts_layer_reads(l, "dense");
}

/* The MLP that ends with the logits; what it reads is the caller's to say. */
static ts_err add_over(ts_layer_list *list, ts_layer_config **out,
                       const ts_config *c) {
  const ts_ints *units = &c->model.over_arch;
  TS_DO(add_mlp(list, out, "over", units->item, units->n, true));
  (*out)->parameters = (char *)"over_arch.model.0._mlp.{i}._linear";
  (*out)->last_parameters = (char *)"over_arch.model.1";
  (*out)->parameter_group = (char *)"over_arch";
  return TS_OK;
}

/* b and the embeddings. */
static ts_err reads_all(ts_layer_config *l, const ts_config *c) {
  if (c->model.dense_features) TS_DO(ts_layer_reads(l, "bottom"));
  return ts_layer_reads(l, "embeddings");
}

/* ---- dlrm ---------------------------------------------------------------- */

/*   X = [b, e_1 .. e_F];  logits = MLP(b, x_i . x_j for i < j) */
static ts_err dlrm(ts_layer_list *list, const ts_config *c) {
  const ts_ints *units = &c->model.dense_arch;
  const int32_t dim = ts_table_whole(&c->tables[0])->dim;
  const bool dense = c->model.dense_features > 0;
  ts_layer_config *l;
  TS_DO(check(c));
  if (dense && (!units->n || units->item[units->n - 1] != dim))
    return ts_fail(TS_ERR_DECK,
                   "model.dense_arch ends with %lld, but table %s has dim "
                   "%d: the two must be equal",
                   units->n ? (long long)units->item[units->n - 1] : 0LL,
                   c->tables[0].name, dim);
  if (ts_feature_count(c) < 2 && !dense)
    return ts_fail(
        TS_ERR_DECK,
        "model.kind = \"dlrm\" takes products of pairs of features; one "
        "feature and no model.dense_features make no pair");
  TS_DO(add_bottom(list, c));
  TS_DO(ts_layer_list_add(list, &l, "interaction", "dot"));
  TS_DO(reads_all(l, c));
  TS_DO(add_over(list, &l, c));
  return ts_layer_reads(l, "interaction");
}

/* ---- dcnv2 --------------------------------------------------------------- */

/*   x_0 = [b, e_1 .. e_F];  x_(l+1) = x_0 * (W_l (V_l x_l) + b_l) + x_l
 *   logits = MLP(x_L) */
static ts_err dcnv2(ts_layer_list *list, const ts_config *c) {
  ts_layer_config *l;
  TS_DO(check(c));
  TS_DO(add_bottom(list, c));
  TS_DO(ts_layer_list_add(list, &l, "cross", "cross"));
  set(l, "form", c->model.dcn_rank ? TS_CROSS_LOW_RANK : TS_CROSS_FULL);
  set(l, "layers", c->model.dcn_layers);
  set(l, "rank", c->model.dcn_rank);
  set(l, "experts", 1);
  l->parameters = (char *)"inter_arch.crossnet";
  l->parameter_group = (char *)"cross";
  TS_DO(reads_all(l, c));
  TS_DO(add_over(list, &l, c));
  return ts_layer_reads(l, "cross");
}

/* ---- deepfm -------------------------------------------------------------- */

/* Its layers have keys of their own: those of other models would be ignored. */
static ts_err check_deepfm(const ts_config *c) {
  TS_DO(check(c));
  if (c->model.over_arch.n > 1)
    return ts_fail(
        TS_ERR_DECK,
        "model.over_arch: deepfm has one linear layer there, give [%d]",
        c->model.n_tasks);
  if (c->model.dense_arch.n)
    return ts_fail(
        TS_ERR_DECK,
        "model.dense_arch: deepfm's layers are [model.deepfm.hidden, "
        "dim], leave it empty ([])");
  return TS_OK;
}

/* A list of TorchRec's that counts ReLUs, too. */
static ts_err add_counted(ts_layer_list *list, ts_layer_config **out,
                          const char *name, const int64_t *units, int32_t n,
                          const char *parameters, const char *group) {
  TS_DO(add_mlp(list, out, name, units, n, false));
  (*out)->parameters = (char *)parameters;
  (*out)->parameter_group = (char *)group;
  return TS_OK;
}

/*   b = ReLU(L2 ReLU(L0 dense)), of width dim
 *   all = [b, e_1 .. e_F];  deep = ReLU(L all)
 *   fm = ((sum all)^2 - sum all^2) / 2: over all numbers ("flat"), or per
 *        coordinate of the vectors and then summed ("field"), as in
 *        H. Guo et al., "DeepFM", IJCAI 2017
 *   logits = L [b, deep, fm]
 * The last layer reads b out of `all`: so gradients are added up in the order
 * in which earlier versions did. */
static ts_err deepfm(ts_layer_list *list, const ts_config *c) {
  const int32_t dim = ts_table_whole(&c->tables[0])->dim;
  const bool dense = c->model.dense_features > 0;
  const int64_t bottom[2] = {c->model.deepfm_hidden, dim};
  const int64_t deep[1] = {c->model.deepfm_fm_dim};
  ts_layer_config *l;
  TS_DO(check_deepfm(c));
  if (dense) {
    TS_DO(add_counted(list, &l, "bottom", bottom, 2, "dense_arch.model.{2i}",
                      "dense_arch"));
    TS_DO(ts_layer_reads(l, "dense"));
  }
  TS_DO(ts_layer_list_add(list, &l, "all", "stack"));
  TS_DO(reads_all(l, c));
  TS_DO(ts_layer_list_add(list, &l, "fm", "fm"));
  set(l, "over", strcmp(c->model.deepfm_fm, "field") != 0);
  *(bool *)ts_layer_option(l, "reduce") = true;
  TS_DO(ts_layer_reads(l, "all"));
  if (dense) {
    TS_DO(ts_layer_list_add(list, &l, "b", "slice"));
    set(l, "to", 1);
    TS_DO(ts_layer_reads(l, "all"));
  }
  TS_DO(add_counted(list, &l, "deep", deep, 1,
                    "inter_arch.deep_fm.dense_module.{2i}", "deep_fm"));
  TS_DO(ts_layer_reads(l, "all"));
  const int64_t over[1] = {c->model.n_tasks};
  TS_DO(add_counted(list, &l, "over", over, 1, "over_arch.model.{2i}",
                    "over_arch"));
  set(l, "last_activation", 1 + TS_ACTIVATION_LINEAR);
  if (dense) TS_DO(ts_layer_reads(l, "b"));
  TS_DO(ts_layer_reads(l, "deep"));
  return ts_layer_reads(l, "fm");
}

/* ---- sparsenn ------------------------------------------------------------ */

/* The features of all weighted tables, or of all others. */
static ts_err reads_tables(ts_layer_config *l, const ts_config *c,
                           bool weighted) {
  ts_err err = TS_OK;
  ts_str name = {0};
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++) {
      if (c->tables[t].weighted != weighted || c->tables[t].part) continue;
      ts_str_reset(&name);
      TS_TRY(ts_str_append(&name, "%s@%s", c->tables[t].features.item[i],
                           ts_table_whole(&c->tables[t])->name));
      TS_TRY(ts_layer_reads(l, name.text));
    }
done:
  ts_str_reset(&name);
  return err;
}

/* "@" and ":" have a meaning in what layers read. */
static ts_err check_names(const ts_config *c) {
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++) {
      const char *table = c->tables[t].name;
      const char *feature = c->tables[t].features.item[i];
      if (strpbrk(table, "@:") || strpbrk(feature, "@:"))
        return ts_fail(TS_ERR_DECK,
                       "feature %s of table %s: with weighted tables sparsenn "
                       "takes no \"@\" and \":\" in names",
                       feature, table);
    }
  return TS_OK;
}

/* TorchRec's benchmark model: one large linear layer reads all embeddings, so
 * tables, messages and the dense optimizer take nearly all of its time.
 *   X = [b, e_1 .. e_F, weighted e_1 .. e_G], each as wide as its table
 *   logits = MLP(X) */
static ts_err sparsenn(ts_layer_list *list, const ts_config *c) {
  ts_layer_config *l;
  bool any = false;
  TS_DO(check(c));
  TS_DO(add_bottom(list, c));
  TS_DO(add_over(list, &l, c));
  for (int32_t t = 0; t < c->n_tables; t++) any |= c->tables[t].weighted;
  if (!any) return reads_all(l, c);
  TS_DO(check_names(c));
  if (c->model.dense_features) TS_DO(ts_layer_reads(l, "bottom"));
  TS_DO(reads_tables(l, c, false));
  return reads_tables(l, c, true);
}

#define TS_NAMED(name, ...)                                                    \
  { .kind = #name, .layers = name, __VA_ARGS__ }
static const ts_named table[] = {
    TS_NAMED(dlrm, .grows = true), TS_NAMED(dcnv2, .any_dims = true),
    TS_NAMED(deepfm, .any_dims = false),
    TS_NAMED(sparsenn, .any_dims = true, .weighted_apart = true)};

const ts_named *ts_named_of(const ts_config *c) {
  for (size_t i = 0; !c->model.n_layers && i < sizeof table / sizeof *table;
       i++)
    if (!strcmp(table[i].kind, c->model.kind)) return &table[i];
  return NULL;
}
