/* wire.c - sections of a sharding's matrix as they travel: f32 as it lies, else
 * piece after piece, each row coded alone. */
#include "shard/wire.h"

int64_t ts_wire_bytes(const ts_sharding_batch *lf, ts_codec c, int block,
                      int rank) {
  const ts_sharding *sharding = lf->sharding;
  int64_t bytes = 0;
  for (int32_t p = 0; p < sharding->n_pieces; p++)
    if (sharding->pieces[p].block == block)
      bytes += lf->count[(int64_t)rank * sharding->n_pieces + p] *
               ts_codec_bytes(c, sharding->pieces[p].n_cols);
  return bytes;
}

void ts_coder_start(ts_coder *c, const ts_sharding_batch *lf, ts_codec codec,
                    bool encode) {
  *c = (ts_coder){.lf = lf,
                  .kernels = lf->sharding->ebc->kernels,
                  .args = {.codec = codec, .encode = encode, .n_parts = 1}};
}

ts_err ts_coder_end(ts_coder *c) {
  const ts_err err = c->args.n_pieces ? c->kernels->code_rows(&c->args) : TS_OK;
  c->args.n_pieces = 0;
  return err;
}

/* N rows at X, STEP floats apart; *WIRE moves behind them. */
static ts_err add(ts_coder *c, float *x, char **wire, int32_t n, int32_t step,
                  int32_t n_cols) {
  char *at = *wire;
  *wire += n * ts_codec_bytes(c->args.codec, n_cols);
  if (n == 0) return TS_OK;
  c->args.piece[c->args.n_pieces++] = (ts_code_piece){x, at, n, step, n_cols};
  return c->args.n_pieces == TS_CODE_PIECES ? ts_coder_end(c) : TS_OK;
}

static ts_err copy_section(const ts_coder *c, int block, int rank, float *x,
                           char **wire) {
  const size_t bytes = (size_t)ts_sharding_block_floats(c->lf, block, rank) * 4;
  char *at = *wire;
  *wire += bytes;
  if (!bytes) return TS_OK;
  return c->args.encode ? c->kernels->copy(at, x, bytes)
                        : c->kernels->copy(x, at, bytes);
}

/* The pieces that share a row per sample go piece by piece, then the
 * variable ones. */
ts_err ts_coder_section(ts_coder *c, int block, int rank, float *x,
                        char **wire) {
  const ts_sharding *sharding = c->lf->sharding;
  const int32_t n = c->lf->ebc_batch->batch[rank];
  const int32_t width = sharding->block_width[block];
  float *next = x + (int64_t)n * width;
  if (c->args.codec == TS_CODEC_F32)
    return copy_section(c, block, rank, x, wire);
  for (int32_t p = 0; p < sharding->n_pieces; p++) {
    const ts_piece *piece = &sharding->pieces[p];
    if (piece->block != block) continue;
    if (piece->col >= 0) {
      TS_DO(add(c, x + piece->col, wire, n, width, piece->n_cols));
    } else {
      const int32_t count =
          c->lf->count[(int64_t)rank * sharding->n_pieces + p];
      TS_DO(add(c, next, wire, count, piece->n_cols, piece->n_cols));
      next += (int64_t)count * piece->n_cols;
    }
  }
  return TS_OK;
}
