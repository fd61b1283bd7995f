/* message.h - how ids lie in input dist's messages; private to shard/.  The
 * whole of a message: input_dist.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "shard/ebc_batch.h"
#include "shard/unpack.h"

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

/* Bytes of an id on the wire.  Ids of dynamic tables travel whole. */
static inline int ts_route_id_bytes(const ts_route *r) {
  return r->dynamic ? 8 : ts_id_bytes(r->n_rows);
}

/* Bytes of a message's head: status, bags of the variable features, distinct
 * rows of groups that all ranks hold, and a word per route. */
static inline int64_t ts_head_bytes(const ts_ebc *ebc, int32_t n_routes) {
  return (int64_t)sizeof(ts_status) + (ebc->n_variable + 1) / 2 * 8 +
         8 * (int64_t)(ebc->n_replicas + n_routes);
}

/* Routes that end on this rank. */
static inline int32_t ts_routes_here(const ts_ebc *ebc) {
  return ebc->route_start[ebc->rank + 1] - ebc->route_start[ebc->rank];
}

/* input_split.c: features whose bags are spread over row shards, each id
 * looked at once whatever the number of shards. */
ts_err ts_splits_create(ts_ebc *); /* after the routes */
void ts_splits_destroy(ts_ebc *);
/* The splits and parts of the batch at hand; then where the parts lie in
 * MESSAGE.  starts: words of memory that they take on a discrete device. */
int64_t ts_split_starts(const ts_ebc_batch *);
void ts_split_describe(ts_ebc_batch *);
void ts_split_place(ts_ebc_batch *, char *message);

int64_t ts_section_bytes(const ts_route *, int64_t n_ids, int form,
                         int64_t n_bags);
ts_layout ts_section_layout(const ts_route *, int64_t n_ids, int form,
                            int64_t n_bags, char *at);

/* input_send.c: descriptions of a batch for kernels, and its way to a device
 * apart.  send: raw is set; on a discrete device the batch is on its way there.
 * check: all ids are rows.  find: results [FIRST, FIRST + N) of kernels are
 * in fl->known. */
ts_err ts_send_create(ts_ebc_batch *);
void ts_send_destroy(ts_ebc_batch *);
ts_err ts_send_expect(ts_ebc_batch *);
ts_err ts_send_batch(ts_ebc_batch *);
ts_err ts_send_find(ts_ebc_batch *, int64_t first, int64_t n);
/* The error of ID of FEATURE, NULL: of one that is not known any more; that of
 * a batch whose ids the device has checked and unpacked. */
ts_err ts_send_bad_id(const ts_ebc_batch *, int32_t feature, const int64_t *id);
ts_err ts_send_judge(const ts_ebc_batch *);
bool ts_ebc_batch_is_discrete(const ts_ebc_batch *);

/* distinct.c, pack_kernels.c: the host's kernels. */
ts_err ts_bags_distinct(const ts_distinct_args *);
ts_err ts_pack_measure(const ts_pack_args *);

/* input_dist.c, input_unpack.c: tasks of the data lane, all Local. */
ts_err ts_input_pack(void *ebc_batch /* ts_ebc_batch ** */, ts_lane *);
ts_err ts_input_statuses(ts_ebc_batch *); /* after the exchange, on the host */
ts_err ts_input_create(ts_ebc_batch *);
ts_err ts_input_reserve(ts_ebc_batch *, int64_t n_parts);
/* Parts that a batch of all groups has at most, with N_BAGS bags to here. */
int64_t ts_input_parts(const ts_ebc_batch *, int64_t n_bags);
/* The error of lengths that add up to N where N_IDS ids came. */
ts_err ts_unpack_fail(int64_t n, int64_t n_ids);
ts_err ts_input_unpack(void *ebc_batch /* ts_ebc_batch ** */, ts_lane *);
/* dynamic.c: rows of the ids that have come for dynamic tables; id_bytes of
 * their parts are 0 then.  Ids of batches that are learnt from get rows, in the
 * order of features, and of the global batch.  again: once more, a task. */
ts_err ts_dynamic_place(ts_ebc_batch *);
ts_err ts_dynamic_again(void *ebc_batch /* ts_ebc_batch ** */, ts_lane *);
/* input_sections.c.  bags_from: bags of a route that rank FROM has sent, with
 * N_IDS ids.  sections: Collective, enqueues: those that go beside their heads,
 * which have come.  judge: the host waits until all is unpacked; COMM where
 * lengths did not add up, DATA where an id was not a row; nothing where it has
 * been asked already.  await: judge, where the host has to know how much has
 * come. */
int64_t ts_bags_from(const ts_ebc_batch *, const ts_route *, int from,
                     int64_t n_ids);
ts_err ts_input_sections(ts_ebc_batch *, ts_lane *data);
ts_err ts_input_await(ts_ebc_batch *);
ts_err ts_input_judge(ts_ebc_batch *);
