/* graph.h - a model made of the deck's layers (doc/models.md).
 *
 *   graph_names.c   what `in` and the outputs stand for
 *   graph_parts.c   tables that are trained as parts
 *   graph_tokens.c  which values have a row for each token, and of what
 *   graph_plan.c    layers in running order, shapes, checks; creates nothing
 *   graph_items.c   outputs over items: candidates and their loss, and which
 *                   layers make items' vectors
 *   graph_last.c    rows of tokens that nobody reads without training
 *   graph_outputs.c the logits, what nobody reads, the order
 *   graph_half.c    which values are bf16
 *   graph_rows.c    which lie in the row that joins them
 *   graph_memory.c  which values lie where, by lifetime
 *   graph.c         the model: create, forward, backward
 *   graph_print.c   the table of train --check
 *
 * Values that a layer wants side by side are put so by a layer of their own,
 * of kind concat, which the graph adds.  Layers that embeddings do not reach
 * stand first: they run while embeddings travel, their gradients come last.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "model/layer.h"
#include "model/named.h"
#include "runtime/comm.h"

typedef struct ts_graph {
  ts_model base;
  ts_model_spec spec;
  ts_layer_list list;   /* the deck's, or .. */
  ts_layer_list made;   /* .. what model.kind stands for; and */
  ts_layer_list parts;  /* .. before them, layers of tables' parts */
  const char **task_in; /* (n_tasks) what `in` of outputs is called then;
                           NULL: as the deck says */
  void **kept;          /* (n_kept) names, and lists of them */
  int32_t n_kept;
  ts_device *device;  /* NULL: a plan alone */
  ts_layer **layers;  /* (n) in running order, with those the graph adds */
  int32_t n, n_below; /* the first n_below run before embeddings are there */
  ts_value dense;     /* the input */
  int32_t *n_reads;   /* (n_features) names in `in` that mean it */
  ts_value **emb;     /* (n_emb) sets of embeddings that are read */
  int32_t n_emb;
  ts_tokens **tokens; /* (n_tokens) of each feature that is read so */
  int32_t n_tokens;
  const char **skipped; /* (n_skipped) layers whose inputs are all left out */
  int32_t n_skipped;
  ts_layer_config **added; /* (n_added) of the layers that the graph adds */
  int32_t n_added;
  ts_value *logits; /* (B, n_tasks): dx is over_backward's argument */
  float *slab;      /* of values */
  int64_t slab_floats;
  ts_comm *comm; /* of layers that add over ranks; NULL: none does */
  ts_arrays arrays;
  ts_emb_views views;        /* of the pass under way */
  const ts_layer *last_look; /* ts_graph_keep_last; NULL: none */
} ts_graph;

/* Layers with shapes, from the deck.  DECK errors.  ts_graph_reset gives all
 * of it back. */
ts_err ts_graph_plan(ts_graph *, const ts_model_spec *);
void ts_graph_reset(ts_graph *);
/* The logits; layers in running order; DECK errors for what nobody reads. */
ts_err ts_graph_outputs(ts_graph *);
/* Values that are bf16: from one layer to the next, where both say so. */
void ts_graph_halve(ts_graph *);
/* Values that lie in the row of the one layer that reads them (ts_value.row),
 * once it is known which are bf16. */
ts_err ts_graph_rows(ts_graph *);
/* The layer that reads V, as input *AT; NULL: none, or more than one do. */
const ts_layer *ts_graph_reader(const ts_graph *, const ts_value *v,
                                int32_t *at);
/* slab_floats, and with a device the slab and the places of values and their
 * gradients in it. */
ts_err ts_graph_place(ts_graph *);
/* Floats of the slab as things stand. */
ts_err ts_graph_size(ts_graph *, int64_t *floats);

/* The value NAME of layer L's role, NULL and a DECK error where there is
 * none; *SKIP: "dense?" without dense features. */
ts_err ts_graph_find(ts_graph *, const ts_layer *l, const char *name,
                     ts_value **, bool *skip);
/* V is one of feature F, whose table has pooling "none".  DECK error for L,
 * which reads it, where nothing says how many tokens a batch has at most. */
ts_err ts_graph_of_tokens(ts_graph *, const ts_layer *l, ts_value *v,
                          int32_t f);
/* What L gives has MORE tokens a sample than what it reads: a group of its
 * own. */
ts_err ts_graph_more_tokens(ts_graph *, ts_layer *l, int32_t more);
/* L asks when its tokens were.  DECK error where they are not events alone. */
ts_err ts_graph_time_tokens(const ts_layer *l);
/* How many tokens groups with more than their features have, once it is known
 * of the features. */
void ts_graph_size_tokens(ts_graph *);
/* Whether L can read VALUES (n) as far as tokens go; it is of theirs then. */
ts_err ts_graph_take_tokens(ts_layer *l, ts_role, ts_value *const *values,
                            int32_t n);
/* Rows of V and of what L works on, at most. */
int64_t ts_graph_most_rows(const ts_graph *, const ts_value *v);
ts_err ts_graph_place_tokens(ts_graph *);
/* Where the tokens of the batch that the views have lie.  Enqueues. */
ts_err ts_graph_find_tokens(ts_graph *, int32_t batch, ts_lane *);
void ts_graph_free_tokens(ts_graph *);

/* Layers of the tables' parts come before the list's, which read them in the
 * tables' place. */
ts_err ts_graph_parts(ts_graph *);
/* The name that output K reads; NULL or "": it reads the last layer. */
const char *ts_graph_task_in(const ts_graph *, int32_t k);
/* The group of the inputs that NAME, "embeddings" or "fields", with ":GROUP" or
 * without, stands for; NULL: another name. */
const char *ts_graph_group_of(const char *name);
/* Counts n_reads. */
ts_err ts_graph_count_reads(ts_graph *);
/* One layer of CONFIG, behind the others: inputs, shape. */
ts_err ts_graph_add(ts_graph *, const ts_layer_config *);
/* The layer that reads VALUES side by side, there already or added.  FIELDS:
 * as fields, where their widths allow. */
ts_err ts_graph_join(ts_graph *, const ts_layer *reader,
                     ts_value *const *values, int32_t n, bool fields,
                     ts_value **);

/* A layer of the graph's own, called NAME, of OPTIONS, which reads two values:
 * vectors or tokens, and embeddings as they come; *OUT, which may be where
 * they are, is its first output. */
ts_err ts_graph_add_own(ts_graph *, const ts_layer_ops *, const char *name,
                        const void *options, ts_value *const pair[2],
                        ts_value **out);
/* *V becomes the loss of output K over items, which reads it: (B, 1). */
ts_err ts_graph_add_items(ts_graph *, int32_t k, ts_value **v);
/* Which layers make what outputs over items read as items: they, and the tokens
 * that they read, get of_items.  Layers are in their order. */
void ts_graph_mark_items(ts_graph *);
/* A layer of them reads feature F; the deck's dense features, where F is -1. */
bool ts_graph_items_read(const ts_model *, int32_t f);
/* Finds the layer behind which an output over items reads, without training,
 * the last tokens of samples alone (last_look): once values have places. */
void ts_graph_keep_last(ts_graph *);
/* Before and behind layer L in a forward pass: from last_look on tokens are
 * those that are kept.  Enqueues. */
ts_err ts_graph_keep_begin(const ts_graph *, const ts_layer *l,
                           const ts_layer_run *);
ts_err ts_graph_keep_end(const ts_graph *, const ts_layer *l,
                         const ts_layer_run *);
/* Samples have no more targets than rows, and one at most where a vector that
 * layers make of the sample is its item.  DATA errors. */
ts_err ts_graph_check_targets(const ts_graph *, const ts_kjt *, bool training,
                              ts_slices);

/* An output of TASK's layer over items, one row a sample, (batch_max, stride)
 * in device memory; NULL where TASK is not over items.  A forward pass writes
 * it, and it holds until the next one:
 *   LOSS     the mean loss of the sample's targets (1)
 *   FIGURES  what kernel target_figures gives (5)
 *   QUERY    the sample's last row as it is scored (dim), without training
 * And an input of that layer, where layers make it:
 *   ITEMS    items' vectors (dim), not normed: a row for each sample, or for
 *            each target; it holds until the next pass where that is of
 *            items_only; NULL where items are rows of a table */
enum { TS_TASK_LOSS, TS_TASK_FIGURES, TS_TASK_QUERY, TS_TASK_ITEMS };
const ts_value *ts_graph_task_value(const ts_model *, int32_t task, int which);

/* The value called NAME of a graph, NULL where there is none. */
const ts_value *ts_graph_value(const ts_model *, const char *name);
/* The table of a graph's layers in running order: what each gives, its
 * parameters, multiplications and bytes of a sample, what it reads. */
ts_err ts_graph_print(ts_str *, const ts_model *);
