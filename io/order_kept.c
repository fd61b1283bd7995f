/* order_kept.c - the order of an epoch's samples in checkpoints. */
#include <string.h>

#include "io/order.h"

static const char *const kinds[] = {"none", "block", "full"};

static ts_order_key key_of(const ts_config *c, int64_t global_batch) {
  ts_order_key k = {.streams = c->data.streams};
  if (k.streams > 1) k.batch = global_batch;
  if (!strcmp(c->data.shuffle, "none")) return k;
  k.seed = c->run.seed;
  k.shuffle = !strcmp(c->data.shuffle, "full") ? 2 : 1;
  if (k.shuffle == 1)
    k.window_bytes = (int64_t)(c->data.shuffle_window * (1 << 20));
  return k;
}

ts_err ts_order_save(const ts_config *c, int64_t global_batch, ts_ckpt *ckpt) {
  const ts_order_key k = key_of(c, global_batch);
  const int64_t numbers[] = {k.shuffle, k.seed, k.window_bytes, k.streams,
                             k.batch};
  return ts_ckpt_add_value(ckpt, "loader/shuffle", TS_I64,
                           k.streams > 1 ? 5 : 3, numbers);
}

void ts_order_take(ts_order_key *k, const ts_ckpt *ckpt) {
  const ts_ckpt_value *v = ts_ckpt_value_of(ckpt, "loader/shuffle");
  int64_t numbers[5] = {0, 0, 0, 1};
  if (v && v->dtype == TS_I64 && (v->n == 3 || v->n == 5))
    memcpy(numbers, v->ptr, (size_t)v->n * sizeof *numbers);
  *k = (ts_order_key){numbers[0], numbers[1], numbers[2], numbers[3],
                      numbers[4]};
}

static const char rest[] =
    "the checkpoint is of the middle of an epoch, whose other samples only "
    "the same order has; go on with that value, or start anew with "
    "checkpoint.resume = \"never\"";

static ts_err check_number(const char *key, int64_t is, int64_t was) {
  if (is == was) return TS_OK;
  return ts_fail(TS_ERR_CKPT, "%s was %lld, the deck has %lld: %s", key,
                 (long long)was, (long long)is, rest);
}

ts_err ts_order_check(const ts_config *c, int64_t global_batch,
                      const ts_order_key *was) {
  const ts_order_key k = key_of(c, global_batch);
  if (k.shuffle != was->shuffle)
    return ts_fail(
        TS_ERR_CKPT, "data.shuffle was \"%s\", the deck has \"%s\": %s",
        was->shuffle == 1 || was->shuffle == 2 ? kinds[was->shuffle] : kinds[0],
        c->data.shuffle, rest);
  TS_DO(check_number("run.seed", k.seed, was->seed));
  if (k.window_bytes != was->window_bytes)
    return ts_fail(
        TS_ERR_CKPT, "data.shuffle_window was %g MiB, the deck has %g: %s",
        (double)was->window_bytes / (1 << 20), c->data.shuffle_window, rest);
  TS_DO(check_number("data.streams", k.streams, was->streams));
  if (k.batch == was->batch) return TS_OK;
  return ts_fail(TS_ERR_CKPT,
                 "with data.streams the order goes by the batch, which was "
                 "%lld samples (data.global_batch) and is %lld now: %s",
                 (long long)was->batch, (long long)k.batch, rest);
}
