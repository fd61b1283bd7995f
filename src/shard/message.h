/* message.h - how ids lie in input dist's messages; private to shard/.  The
 * whole of a message: input_dist.c. */
#ifndef TS_SHARD_MESSAGE_H
#define TS_SHARD_MESSAGE_H

#include "shard/flight.h"
#include "shard/unpack.h"

/* A section's entry in the message's table is n_ids << TS_FORM_BITS | form,
 * which says how it gives the lengths of its bags. */
enum { TS_FORM_BITS = 2 };

static inline int64_t ts_pad4(int64_t bytes) {
  return (bytes + 3) / 4 * 4;
}

/* Bytes of the lengths of N bags. */
static inline int64_t ts_form_bytes(int form, int64_t n) {
  return form == TS_FORM_ONE ? 0 : form == TS_FORM_BYTES ? ts_pad4(n) : 4 * n;
}

/* Bytes of a row's number in a shard of N_ROWS on the wire: 1, 2 or 4. */
static inline int ts_id_bytes(int64_t n_rows) {
  return n_rows <= 256 ? 1 : n_rows <= 65536 ? 2 : 4;
}

/* An id's place in its bag, as it is kept and travels: processors have no
 * more weights than that. */
static inline uint16_t ts_position(int64_t place) {
  return place < UINT16_MAX ? (uint16_t)place : UINT16_MAX;
}

/* Bytes of a message's head: status, bags of the variable features, and a
 * word per route. */
static inline int64_t ts_head_bytes(const ts_ebc *ebc, int32_t n_routes) {
  return (int64_t)sizeof(ts_status) + (ebc->n_variable + 1) / 2 * 8 +
         8 * (int64_t)n_routes;
}

/* input_split.c: features whose bags are spread over row shards, each id
 * looked at once whatever the number of shards. */
ts_err ts_splits_create(ts_ebc *); /* after the routes */
void ts_splits_destroy(ts_ebc *);
ts_err ts_split_scratch(ts_flight *);
/* Sets route_count of the split's routes; then writes their sections. */
void ts_split_measure(ts_flight *, const ts_row_split *);
void ts_split_write(ts_flight *, const ts_row_split *);

/* How a section lies in a message. */
typedef struct ts_layout {
  char *lengths, *rows, *end;
  float *weights;
  uint16_t *positions;
  int form, id_bytes;
} ts_layout;
int64_t ts_section_bytes(const ts_route *, int64_t n_ids, int form,
                         int64_t n_bags);
ts_layout ts_section_layout(const ts_route *, int64_t n_ids, int form,
                            int64_t n_bags, char *at);
static inline void ts_put_row(char *rows, int64_t n, int id_bytes,
                              int64_t row) {
  if (id_bytes == 1) ((uint8_t *)rows)[n] = (uint8_t)row;
  if (id_bytes == 2) ((uint16_t *)(void *)rows)[n] = (uint16_t)row;
  if (id_bytes == 4) ((int32_t *)(void *)rows)[n] = (int32_t)row;
}

/* input_dist.c, input_unpack.c: tasks of the data lane. */
ts_err ts_input_pack(void *flight /* ts_flight ** */, ts_lane *);
ts_err ts_input_statuses(ts_flight *); /* after the exchange, on the host */
ts_err ts_input_create(ts_flight *);
ts_err ts_input_reserve(ts_flight *, int64_t n_parts, int64_t bytes);
/* Parts that a batch of all groups has at most, with N_BAGS bags to here. */
int64_t ts_input_parts(const ts_flight *, int64_t n_bags);
/* The error of lengths that add up to N where N_IDS ids came. */
ts_err ts_unpack_fail(int64_t n, int64_t n_ids);
ts_err ts_input_unpack(void *flight /* ts_flight ** */, ts_lane *);

#endif
