/* pass.h - parts of a step that are made once more where a step is computed
 * twice (recompute.h); private to stages.c and recompute.c.
 * All of it is Local and Enqueues on the compute lane. */
#pragma once

#include "train/trainer.h"

/* The embeddings of the batch, and where their gradients go: over them. */
ts_emb_views ts_pass_views(const ts_trainer *, const ts_inflight *);
/* The model's layers, after the lookup, where it has not been; AGAIN: the
 * embeddings have arrived before, and nobody has written over them. */
ts_err ts_pass_model(ts_trainer *, ts_inflight *, const ts_layer_hooks *,
                     bool with_grad, bool again, float **logits);
/* Loss, predictions and, WITH_GRAD, the gradient of the LOGITS. */
ts_err ts_pass_loss(ts_trainer *, const ts_inflight *, const ts_layer_hooks *,
                    const float *logits, bool with_grad);
/* The tasks' weights, whose gradient came with the loss: the first there is. */
ts_err ts_pass_task_backward(ts_trainer *, const ts_layer_hooks *);
