/* kinds.h - the lists of what a deck can name: sharding types, row optimizers,
 * models, pipelines, data formats, and how dense parameters are trained.
 *
 * A line here and a file of its own add one (doc/extending.md).  The tables
 * that look a name up (shard/sharding.c, sparse/row_optim.c, model/named.c,
 * train/pipeline.c, io/source.c, dense/optim.c, dense/parallel.c), the values
 * that the deck takes, `tessera help deck` and the lists in messages are all
 * made of these. */
#pragma once

/* TS_SHARD_ID, and ts_sharding_name in a file of src/shard/. */
#define TS_SHARDINGS(X)                                                        \
  X(DATA_PARALLEL, data_parallel)                                              \
  X(TABLE_WISE, table_wise)                                                    \
  X(ROW_WISE, row_wise)                                                        \
  X(COLUMN_WISE, column_wise)                                                  \
  X(TABLE_ROW_WISE, table_row_wise)                                            \
  X(TABLE_COLUMN_WISE, table_column_wise)                                      \
  X(GRID, grid)

/* ts_row_optim_name in a file of src/sparse/. */
#define TS_ROW_OPTIMS(X)                                                       \
  X(rowwise_adagrad)                                                           \
  X(sgd)                                                                       \
  X(adagrad)                                                                   \
  X(adam)                                                                      \
  X(partial_rowwise_adam)                                                      \
  X(lamb)                                                                      \
  X(partial_rowwise_lamb)                                                      \
  X(lars_sgd)                                                                  \
  X(none)

/* Models that keys of their own describe: src/model/named.c. */
#define TS_MODELS(X)                                                           \
  X(dlrm)                                                                      \
  X(dcnv2)                                                                     \
  X(deepfm)                                                                    \
  X(sparsenn)

/* Graphs that model.kind names: input/models/NAME.deck. */
#define TS_ZOO(X)                                                              \
  X(lr)                                                                        \
  X(fm)                                                                        \
  X(wide_deep)                                                                 \
  X(deepfm_wide)                                                               \
  X(nfm)                                                                       \
  X(xdeepfm)                                                                   \
  X(dcnv2_moe)                                                                 \
  X(autoint)                                                                   \
  X(fibinet)                                                                   \
  X(pnn)                                                                       \
  X(masknet)                                                                   \
  X(gdcn)                                                                      \
  X(finalmlp)                                                                  \
  X(mmoe)                                                                      \
  X(ple)                                                                       \
  X(esmm)                                                                      \
  X(sasrec)                                                                    \
  X(hstu)                                                                      \
  X(bert4rec)                                                                  \
  X(din)                                                                       \
  X(bst)                                                                       \
  X(two_tower)                                                                 \
  X(two_tower_items)                                                           \
  X(youtube_dnn)                                                               \
  X(mf_ccl)                                                                    \
  X(simplex)

#define TS_MODEL_KINDS(X) TS_MODELS(X) TS_ZOO(X)

/* ts_layer_name in a file of src/model/layers/: kinds of a graph's layers. */
#define TS_LAYERS(X)                                                           \
  X(concat)                                                                    \
  X(linear)                                                                    \
  X(mlp)                                                                       \
  X(add)                                                                       \
  X(wide)                                                                      \
  X(fm)                                                                        \
  X(dot)                                                                       \
  X(activation)                                                                \
  X(dropout)                                                                   \
  X(batch_norm)                                                                \
  X(layer_norm)                                                                \
  X(rms_norm)                                                                  \
  X(l2_norm)                                                                   \
  X(multiply)                                                                  \
  X(similarity)                                                                \
  X(stack)                                                                     \
  X(flatten)                                                                   \
  X(slice)                                                                     \
  X(project)                                                                   \
  X(periodic)                                                                  \
  X(reduce)                                                                    \
  X(scale)                                                                     \
  X(cross)                                                                     \
  X(senet)                                                                     \
  X(bilinear)                                                                  \
  X(inner_product)                                                             \
  X(outer_product)                                                             \
  X(field_attention)                                                           \
  X(cin)                                                                       \
  X(experts)                                                                   \
  X(task_product)                                                              \
  X(gate)                                                                      \
  X(two_stream)                                                                \
  X(pool)                                                                      \
  X(position)                                                                  \
  X(prepend)                                                                   \
  X(attention)                                                                 \
  X(target_attention)                                                          \
  X(hstu)

/* ts_pipeline_name in a file of src/train/. */
#define TS_PIPELINES(X)                                                        \
  X(base)                                                                      \
  X(sparse_dist)                                                               \
  X(fused_sparse_dist)                                                         \
  X(semi_sync)                                                                 \
  X(prefetch)

/* ts_source_name in a file of io/; data.format = "auto" takes the first whose
 * probe knows the file. */
#define TS_DATA_FORMATS(X)                                                     \
  X(dataset)                                                                   \
  X(npy)                                                                       \
  X(criteo_tsv)                                                                \
  X(csv)                                                                       \
  X(parquet)                                                                   \
  X(arrow)                                                                     \
  X(synthetic)

/* Rows of the table in dense/optim.c. */
#define TS_DENSE_OPTIMS(X)                                                     \
  X(sgd)                                                                       \
  X(momentum)                                                                  \
  X(nesterov)                                                                  \
  X(adagrad)                                                                   \
  X(rmsprop)                                                                   \
  X(adam)                                                                      \
  X(adamw)                                                                     \
  X(lion)                                                                      \
  X(lamb)                                                                      \
  X(lars)

/* ts_parallel_name in a file of src/dense/: how ranks share the dense
 * parameters. */
#define TS_PARALLELS(X)                                                        \
  X(ddp)                                                                       \
  X(fully_sharded)

/* Rows of the table in train/metrics_kinds.c: what evaluations can say, first
 * what tells which of two steps is better. */
#define TS_RANKED_METRICS(X)                                                   \
  X(auc)                                                                       \
  X(logloss)                                                                   \
  X(ne)                                                                        \
  X(accuracy)                                                                  \
  X(pr_auc)                                                                    \
  X(ece)                                                                       \
  X(precision)                                                                 \
  X(recall)                                                                    \
  X(f1)                                                                        \
  X(mse)                                                                       \
  X(mae)                                                                       \
  X(r2)                                                                        \
  X(gauc)                                                                      \
  X(ndcg)                                                                      \
  X(hit_rate)                                                                  \
  X(mrr)                                                                       \
  X(recall_at_k)
#define TS_METRICS(X)                                                          \
  TS_RANKED_METRICS(X)                                                         \
  X(calibration)

/* The names of a list as the deck's schema has them, "a|b", and as messages
 * do, "a, b". */
#define TS_OR_NAME(name) "|" #name
#define TS_COMMA_NAME(name) ", " #name
#define TS_CHOICES(list) (&(list(TS_OR_NAME))[1])
#define TS_LISTED(list) (&(list(TS_COMMA_NAME))[2])
#define TS_OR_SHARDING(id, name) "|" #name

#define TS_SHARD_ENUMERATOR(id, name) TS_SHARD_##id,
enum { TS_SHARD_AUTO, TS_SHARDINGS(TS_SHARD_ENUMERATOR) TS_SHARD_COUNT };
#undef TS_SHARD_ENUMERATOR
