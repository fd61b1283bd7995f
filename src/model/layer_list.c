/* layer_list.c - layers that the program makes: those of models with keys of
 * their own (named.c), and of tables' parts (graph_parts.c). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "model/layer_ops.h"
#include "model/named.h"

void ts_layer_list_reset(ts_layer_list *list) {
  for (int32_t i = 0; i < list->n; i++) {
    ts_layer_config *l = &list->item[i];
    const ts_layer_ops *ops = ts_layer_find(l->kind);
    for (size_t k = 0; l->options && k < ops->n_keys; k++)
      if (ops->keys[k].kind == TS_KEY_INTS)
        ts_mem_free(
            ((ts_ints *)((char *)l->options + ops->keys[k].offset))->item);
    for (int32_t k = 0; k < l->in.n; k++) ts_mem_free(l->in.item[k]);
    ts_mem_free_all(l->options, l->in.item);
  }
  ts_mem_free(list->item);
  *list = (ts_layer_list){0};
}

ts_err ts_layer_list_add(ts_layer_list *list, ts_layer_config **out,
                         const char *name, const char *kind) {
  static const ts_optim_config decks = {.lr = NAN,
                                        .eps = NAN,
                                        .beta1 = NAN,
                                        .beta2 = NAN,
                                        .momentum = NAN,
                                        .eta = NAN,
                                        .weight_decay = NAN};
  const ts_layer_ops *ops = ts_layer_find(kind);
  TS_DO(ts_mem_extend(&list->item, list->n, list->n + 1, sizeof *list->item,
                      TS_TAG_MISC));
  ts_layer_config *l = &list->item[list->n];
  *l = (ts_layer_config){
      .name = (char *)name, .kind = (char *)kind, .optimizer = decks};
  list->n++;
  if (ops->options_bytes)
    TS_DO(ts_mem_alloc(&l->options, ops->options_bytes, TS_TAG_MISC));
  *out = l;
  return TS_OK;
}

ts_err ts_layer_reads(ts_layer_config *l, const char *name) {
  TS_DO(ts_mem_extend(&l->in.item, l->in.n, l->in.n + 1, sizeof *l->in.item,
                      TS_TAG_MISC));
  TS_DO(ts_mem_strdup(&l->in.item[l->in.n], name));
  l->in.n++;
  return TS_OK;
}

void *ts_layer_option(const ts_layer_config *l, const char *key) {
  const ts_layer_ops *ops = ts_layer_find(l->kind);
  size_t k = 0;
  while (strcmp(ops->keys[k].path, key) != 0) k++; /* it is there */
  return (char *)l->options + ops->keys[k].offset;
}
