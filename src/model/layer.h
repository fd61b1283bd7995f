/* layer.h - what a kind of layer is: one file in src/model/layers/ and one
 * line in base/kinds.h (TS_LAYERS).
 *
 * A graph (model/graph.h) is a list of layers.  Each reads inputs and gives
 * outputs, which are values: a row of floats for each sample of the batch, in
 * the device's memory.  The graph resolves names, joins what a kind wants
 * joined, holds the memory of values and of their gradients, and calls the
 * layers in their order and, in the backward pass, in the reverse order.
 *
 * A kind is made of linear layers (dense/linear.h, dense/mlp.h) and of the
 * kernels in model/kernels.h, for which layer_ops.h has short forms.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/key.h"
#include "dense/hooks.h"
#include "model/model.h"
#include "runtime/arrays.h"

typedef enum {
  TS_VECTOR, /* (B, n): fields is 1 */
  TS_FIELDS, /* (B, F, d): F vectors of d floats, one after the other */
  TS_TOKENS  /* (T, d): a row for each of a sample's tokens, sample after
                sample; fields is 1 */
} ts_form;

typedef struct ts_shape {
  ts_form form;
  int32_t fields, dim;
} ts_shape;

static inline int32_t ts_shape_width(ts_shape s) {
  return s.fields * s.dim;
}
static inline ts_shape ts_vector_of(int32_t n) {
  return (ts_shape){TS_VECTOR, 1, n};
}
static inline ts_shape ts_fields_of(int32_t fields, int32_t dim) {
  return (ts_shape){TS_FIELDS, fields, dim};
}
static inline ts_shape ts_tokens_of(int32_t dim) {
  return (ts_shape){TS_TOKENS, 1, dim};
}
/* "(B, 26, 16)", "(T, 50)". */
enum { TS_SHAPE_BYTES = 48 };
const char *ts_layer_shape_text(char buf[TS_SHAPE_BYTES], ts_shape);

/* Embeddings of some features, as the tables give them: not in one array. */
typedef struct ts_emb_set {
  int32_t *feature; /* (n) numbers in the deck's order */
  int32_t n;
} ts_emb_set;

/* Where the tokens of each sample lie: those of features whose tables have
 * pooling "none", and whose bags are equally long, as layers have joined them.
 * Or those, and before a sample's so many MORE that layers have made. */
typedef struct ts_tokens {
  struct ts_tokens *same; /* stands for it, too; NULL: nobody */
  struct ts_tokens *of;   /* without the more; NULL: there are no more */
  int32_t more;
  int32_t *feature; /* (n_features) numbers in the deck's order; 0 with more */
  int32_t n_features;
  ts_model_spec spec; /* of layers on them: batch_max is the most tokens */
  int32_t samples_max;
  int64_t longest; /* of a sample; 0: not known */
  bool timed;      /* some layer asks when they were */
  bool of_items;   /* a tower of items reads them (model/graph_items.c) */
  /* Of the batch under way, device memory (kernel tokens). */
  int64_t n, n_samples;
  int64_t *offsets;           /* (n_samples + 1) */
  int32_t *sample, *position; /* (n) */
  double *when, *asked;       /* (n) where timed: kernel token_times */
  /* While a layer runs behind which the last tokens of samples are all that is
   * read (graph_last.c): where those of a sample begin, one sample's behind the
   * other's (n_samples + 1), and how many there are; NULL: all are read. */
  const int64_t *kept;
  int64_t n_kept;
  int64_t *kept_room;
} ts_tokens;
static inline ts_tokens *ts_tokens_at(ts_tokens *t) {
  while (t && t->same) t = t->same;
  return t;
}

/* Those of features alone. */
static inline ts_tokens *ts_tokens_of_features(ts_tokens *t) {
  t = ts_tokens_at(t);
  return t && t->of ? ts_tokens_at(t->of) : t;
}

/* Tokens of a sample of the batch under way, at most. */
static inline int64_t ts_tokens_longest(const ts_tokens *t) {
  return t->longest && t->longest < t->n ? t->longest : t->n;
}

/* A value. */
typedef struct ts_value {
  char *name; /* "deep", "mix@ctr", "embeddings" */
  ts_shape shape;
  ts_tokens *tokens; /* of (T, d): ts_tokens_at; else NULL */
  int32_t stride;    /* floats from row to row, >= width; the rest is zeros */
  /* (batch_max, stride), or so many tokens; of bf16 where half, and so is dx:
   * floats by name alone */
  float *x;
  float *dx;     /* the same: its gradient, whole when its layer's backward
                    pass begins, which may overwrite it; NULL: not wanted */
  bool half;     /* its layer and its one reader agreed */
  bool above;    /* embeddings reach it */
  bool is_input; /* the deck's dense features: x is the batch's */
  /* It is columns from AT on of another value, the row that its one reader
   * joins: x and dx are of that one's stride, and others' numbers lie between
   * its rows; NULL: an array of its own. */
  struct ts_value *row;
  int32_t at;
  /* Embeddings as they come: x and dx are NULL, they are run->views'; only
   * kinds with reads_embeddings see such a value. */
  ts_emb_set *emb;
  /* Of the graph's layers: that which gives it, the last that reads it, and the
   * first whose backward pass reads x; -1: none. */
  int32_t from, last, kept_for;
  int32_t held; /* the last that reads x where layers pass it on (passes) */
} ts_value;

/* Where a layer reads one, and writes (=) its part of the gradient: a place of
 * its own where others read the value, too. */
typedef struct ts_input {
  const ts_value *value;
  float *dx; /* (batch_max, value->stride); NULL: nobody wants it */
  bool add;  /* of kinds that can (adds_dx): += instead, dx is the value's and
                has what layers above gave */
  /* Of embeddings as they come: (emb->n) whose gradients are added to what
   * run->views has, as a layer above has written there; NULL: none's. */
  bool *adds;
  const ts_emb_set *joined; /* embeddings that the layer names, side by side in
                               x; NULL */
} ts_input;

/* Roles of inputs, each a key of its own. */
typedef enum {
  TS_ROLE_IN,
  TS_ROLE_QUERY,
  TS_ROLE_GATE,
  TS_ROLE_ITEMS,
  TS_ROLE_BEFORE, /* any number of vectors, which it reads as fields */
  TS_ROLE_COUNT
} ts_role;

typedef struct ts_layer {
  const struct ts_layer_ops *ops;
  const ts_layer_config *config; /* name, and what all kinds have */
  const void *options;           /* ops->options_bytes, as ops->keys say */
  const ts_model_spec *spec;     /* deck, kernels, batch_max */
  ts_input *in;                  /* role by role */
  int32_t n_in[TS_ROLE_COUNT];   /* of each */
  ts_value *out;                 /* (n_out), set by ops->shape */
  int32_t n_out;
  ts_tokens *tokens; /* that it reads: ts_tokens_at; NULL: none */
  bool above;        /* embeddings reach it */
  bool of_items;     /* it is of a tower of items (model/graph_items.c) */
  bool passes;       /* without training out[0].x is that of in[0] */
  bool stacks; /* concat: a reader wants fields, so vectors of one width are
                  some */
  double n_weights;               /* of its parameters, once it is created */
  int32_t params_from, params_to; /* the model's that are its own */
  void *data; /* the kind's own, of ops->data_bytes, zeroed; set before shape */
  struct ts_comm **comm; /* the graph's, for what is added over ranks on the
                            compute lane: made by the first that needs it */
  ts_params *params;     /* while it is created: where parameters go */
  ts_params *buffers;    /* the same: where buffers go */
  ts_device *device;
  ts_arrays arrays;
} ts_layer;

/* Inputs of all roles. */
static inline int32_t ts_layer_n_in(const ts_layer *l) {
  int32_t n = 0;
  for (int k = 0; k < TS_ROLE_COUNT; k++) n += l->n_in[k];
  return n;
}
/* The deck has its key times. */
static inline bool ts_layer_is_timed(const ts_layer *l) {
  return l->config->times && *l->config->times;
}
/* It runs for each token. */
static inline bool ts_layer_is_by_token(const ts_layer *l);
/* Input I of ROLE, NULL where there is none. */
const ts_input *ts_layer_in(const ts_layer *, ts_role, int32_t i);

/* A pass of one batch. */
typedef struct ts_layer_run {
  int32_t batch; /* local samples, or tokens (TS_BY_ROW), may be 0 */
  bool training; /* else dropout and the like are off */
  /* Of the data's order, which a resumed run and any number of ranks share:
   * the epoch, and the first local sample's place in it. */
  int64_t epoch, first;
  int64_t n_global;          /* samples of all ranks in this (micro-)batch */
  const ts_model_pass *pass; /* for what few layers want to know */
  const ts_emb_views *views; /* NULL where layers are below them */
  const ts_layer_hooks *hooks;
  ts_lane *lane;
} ts_layer_run;

/* What a kind makes of tokens. */
typedef enum {
  TS_NO_TOKENS,  /* it takes none */
  TS_BY_ROW,     /* a row is a row: each token as if it were a sample, so that
                    its spec and its run have tokens for batches */
  TS_ITS_TOKENS, /* it takes nothing else, and goes by layer->tokens */
} ts_token_use;

/* The same pass with L's tokens for samples. */
static inline ts_layer_run ts_layer_by_token(const ts_layer *l,
                                             const ts_layer_run *r) {
  ts_layer_run own = *r;
  own.batch = (int32_t)ts_tokens_at(l->tokens)->n;
  return own;
}

typedef struct ts_layer_ops {
  const char *kind;
  ts_token_use tokens;
  /* Keys besides those of all kinds, scope TS_SCOPE_LAYER, offsets into a
   * struct of OPTIONS_BYTES; a key that is not given has its default. */
  const ts_key *keys;
  size_t n_keys, options_bytes, data_bytes;
  /* Inputs of role "in": MOST 1: vectors that a layer names come side by side
   * as one, in one array; else up to MOST values, each its own (0: any
   * number).  Fields given to a kind that takes a vector are flattened;
   * wants_fields: it takes fields alone. */
  int32_t least, most;
  bool wants_fields;
  bool reads_embeddings;     /* takes them as they come */
  bool takes_times;          /* the key times: its tokens are timed then */
  bool roles[TS_ROLE_COUNT]; /* besides "in": it needs them (one value each) */
  /* The backward pass reads x of inputs, of outputs: else their memory may be
   * others' by then. */
  bool keeps_in, keeps_out;
  bool adds_dx; /* its backward pass can add to in[].dx */
  /* Its forward pass gives the rows of the kept tokens alone, one behind the
   * other, where its tokens have such (ts_tokens.kept). */
  bool gives_kept;
  /* out[0] is its inputs side by side, of which it leaves out those that lie
   * there already (ts_value.row). */
  bool joins;
  /* out[0] may lie in a wider row: it goes by out[0].stride in both passes,
   * touches nothing between rows, asks for no stride in shape and keeps no x
   * of it.  Products by
   * a library can't: theirs into rows with gaps have other bits, and take up to
   * twice as long (oneDNN's of f32). */
  bool any_stride;
  /* So many tokens a sample of out[0] has besides those that it reads; NULL:
   * none. */
  int32_t (*more)(const ts_layer *);
  /* Without training out[0] is in[0]: the graph says where it can have its
   * memory, too (ts_layer.passes). */
  bool may_pass;
  /* It sets out[].x itself in create (memory of its own), not the graph. */
  bool owns_out;
  /* From in[].value->shape to out, by ts_layer_gives; DECK errors by
   * ts_layer_fail, which name file, line, layer, both shapes, and what would
   * fit.  Widths of up to TS_WIDTH_MAX. */
  ts_err (*shape)(ts_layer *);
  /* Parameters (ts_layer_param), arrays (ts_layer_take), primitives.  NULL:
   * nothing to make. */
  ts_err (*create)(ts_layer *, ts_lane *);
  void (*destroy)(ts_layer *); /* data's content, after lanes; may be NULL */
  /* Enqueue on run->lane.  Parameters between ts_layer_acquire and release;
   * backward says ready for each in the reverse of creation, batch 0
   * included (gradients become 0), and writes in[].dx where not NULL. */
  ts_err (*forward)(ts_layer *, const ts_layer_run *);
  ts_err (*backward)(ts_layer *, const ts_layer_run *);
  /* Multiplications of a sample's forward pass besides one for each weight;
   * NULL: none. */
  double (*products)(const ts_layer *);
  /* Those for each pair of a sample's tokens; NULL: none. */
  double (*pairs)(const ts_layer *);
  /* Adds its weights, of a layer that is planned and not created; NULL: no
   * model that the planner counts (ts_named) has such with weights. */
  void (*count)(ts_model_count *, const ts_layer *);
  /* Whether out[0] may be bf16 and READER read it so; whether in[0] may, and
   * dx with it; asked in running order, once shapes are there.  NULL: no. */
  bool (*gives_half)(const ts_layer *, const ts_layer *reader);
  bool (*takes_half)(const ts_layer *);
  /* `tessera help layer KIND`: what it computes, shapes, parameters, source;
   * plain text of 76 columns, without the keys, which are printed behind. */
  const char *page;
  bool may[TS_ROLE_COUNT]; /* roles that it takes and does not need */
} ts_layer_ops;

static inline bool ts_layer_is_by_token(const ts_layer *l) {
  return l->tokens && l->ops->tokens == TS_BY_ROW;
}

enum { TS_WIDTH_MAX = 1 << 24 };

const ts_layer_ops *ts_layer_find(const char *kind);
/* The kinds' names with commas, for messages; and the K-th of them, NULL
 * behind the last. */
const char *ts_layer_kinds(void);
const ts_layer_ops *ts_layer_kind(int k);

/* ---- for kinds ----------------------------------------------------------- */

/* DECK error "deck:12: layer deep (mlp): ...". */
ts_err ts_layer_fail(const ts_layer *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
#define TS_THROW_LAYER(layer, ...)                                             \
  do {                                                                         \
    err = ts_layer_fail(layer, __VA_ARGS__);                                   \
    goto done;                                                                 \
  } while (0)
/* Adds an output NAME (NULL: the layer's name; else NAME@SUFFIX). */
ts_err ts_layer_gives(ts_layer *, const char *suffix, ts_shape);
/* A parameter PREFIX.TAIL, (rows, cols), a vector where cols is 0, of group
 * GROUP.I; PREFIX is NAME.I, or what the deck's key `parameters` says with {i}
 * for I (LAST: `last_parameters`, where that is given).  Initial value uniform
 * in +-BOUND (0: zeros; BOUND_ONES: ones), or as the deck's init says. */
#define TS_BOUND_ONES (-1.0)
ts_err ts_layer_param(ts_layer *, ts_param **, int32_t i, bool last,
                      const char *tail, int32_t rows, int32_t cols,
                      double bound);
/* A buffer PREFIX.TAIL, a vector (n) of VALUE: what a checkpoint keeps and no
 * optimizer touches; every rank has all of it, and the same. */
ts_err ts_layer_buffer(ts_layer *, ts_param **, int32_t i, const char *tail,
                       int32_t n, float value);
/* A parameter that a component of the layer made is the layer's: of its group
 * of weights, frozen, initial values by name, as those above. */
ts_err ts_layer_own(ts_layer *, ts_param *);
/* An array of N elements of SIZE bytes, zeroed, given back with the layer. */
ts_err ts_layer_take(ts_layer *, void *p, int64_t n, size_t size);
/* The same of N floats, which are those of X, memory of the host. */
ts_err ts_layer_take_filled(ts_layer *, float **p, const float *x, int64_t n);
/* Such an array (places, n) of waves: sin and cos of p / base^(2 i / n) in
 * columns 2 i and 2 i + 1 of row p, made in double. */
ts_err ts_layer_take_waves(ts_layer *, float **p, int64_t places, int32_t n,
                           double base);
/* The graph's comm for what layers add over ranks on the compute lane; *OUT
 * NULL where there is one rank.  Collective over spec->world. */
ts_err ts_layer_comm(ts_layer *, struct ts_comm **out);
/* A hash of the layer's name: key of random numbers. */
uint32_t ts_layer_key(const ts_layer *);
