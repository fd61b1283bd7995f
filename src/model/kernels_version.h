/* kernels_version.h - the layers' kernels of one instruction set: included once
 * by each kernels_*.c, which says which (TS_REGISTER) and sets the compiler's
 * target before the bodies.  What is not here stays plain C: batch norm's few
 * numbers, and the largest of fields. */
#pragma once

#include "model/contract_body.h"
#include "model/elements_body.h"
/* uses both */
#include "model/act_body.h"
#include "model/norm_body.h"
/* uses what is above */
#include "model/attention_grad_body.h"
#include "model/full_softmax_body.h"

void TS_REGISTER(ts_kernels *k) {
  k->contract = contract;
  k->map = map;
  k->act_forward = act_forward;
  k->act_backward = act_backward;
  k->norm_forward = norm_forward;
  k->norm_backward = norm_backward;
  k->column_sums = column_sums;
  k->column_apply = column_apply;
  k->dropout = dropout;
  k->attention = attention;
  k->attention_grad = attention_grad;
  k->attention_half = attention; /* without instructions for it: in f32 */
  k->attention_half_grad = attention_grad;
  k->full_softmax_part = full_softmax_part;
  k->full_softmax_slopes = full_softmax_slopes;
}
