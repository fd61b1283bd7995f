/* wire.c - sections of a lot's matrix as they travel: f32 as it lies, else
 * piece after piece, each row coded alone. */
#include <string.h>

#include "shard/flight.h"

/* What is done with each row. */
typedef enum { WIRE_ENCODE, WIRE_DECODE, WIRE_ADD } ts_wire_work;

/* N rows of N_COLS, STEP floats apart; returns the wire's end. */
static char *do_rows(ts_codec c, ts_wire_work work, float *x, char *wire,
                     int64_t n, int64_t step, int32_t n_cols) {
  const int64_t bytes = ts_codec_bytes(c, n_cols);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++) {
    float *row = x + i * step;
    char *at = wire + i * bytes;
    if (work == WIRE_ENCODE) ts_codec_encode(c, at, row, n_cols);
    if (work == WIRE_DECODE) ts_codec_decode(c, row, at, n_cols);
    if (work == WIRE_ADD) ts_codec_add(c, row, at, n_cols);
  }
  return wire + n * bytes;
}

/* The pieces that share a row per sample go piece by piece, then the
 * variable ones. */
static int64_t do_section(const ts_lot_flight *lf, ts_codec c,
                          ts_wire_work work, int block, int rank, float *x,
                          char *wire) {
  const ts_lot *lot = lf->lot;
  const int64_t n = lf->flight->batch[rank], width = lot->block_width[block];
  char *at = wire;
  float *next = x + n * width;
  const size_t plain = (size_t)ts_lot_block_floats(lf, block, rank) * 4;
  if (c == TS_CODEC_F32 && work != WIRE_ADD) { /* as it lies */
    if (plain && work == WIRE_ENCODE) memcpy(wire, x, plain);
    if (plain && work == WIRE_DECODE) memcpy(x, wire, plain);
    return (int64_t)plain;
  }
  for (int32_t p = 0; p < lot->n_pieces; p++) {
    const ts_piece *piece = &lot->pieces[p];
    if (piece->block != block) continue;
    if (piece->col >= 0) {
      at = do_rows(c, work, x + piece->col, at, n, width, piece->n_cols);
    } else {
      const int64_t count = lf->count[(int64_t)rank * lot->n_pieces + p];
      at = do_rows(c, work, next, at, count, piece->n_cols, piece->n_cols);
      next += count * piece->n_cols;
    }
  }
  return at - wire;
}

int64_t ts_wire_bytes(const ts_lot_flight *lf, ts_codec c, int block,
                      int rank) {
  const ts_lot *lot = lf->lot;
  int64_t bytes = 0;
  for (int32_t p = 0; p < lot->n_pieces; p++)
    if (lot->pieces[p].block == block)
      bytes += lf->count[(int64_t)rank * lot->n_pieces + p] *
               ts_codec_bytes(c, lot->pieces[p].n_cols);
  return bytes;
}

int64_t ts_wire_encode(const ts_lot_flight *lf, ts_codec c, int block, int rank,
                       const float *x, char *wire) {
  return do_section(lf, c, WIRE_ENCODE, block, rank, (float *)x, wire);
}

int64_t ts_wire_decode(const ts_lot_flight *lf, ts_codec c, int block, int rank,
                       float *x, const char *wire, bool add) {
  return do_section(lf, c, add ? WIRE_ADD : WIRE_DECODE, block, rank, x,
                    (char *)wire);
}
