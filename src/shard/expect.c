/* expect.c - what a full batch takes, before there is one: so much room each
 * message gets that ids of one to a sample never need a second one.
 *
 * Where features have as many ids as samples and go to one shard this is
 * exact; elsewhere a quarter more than the mean.  What is larger still goes
 * through, see ts_rooms. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "shard/sharding.h"

static bool one_id(const ts_ebc *ebc, int32_t feature) {
  return ebc->pooling[feature] == 1.0;
}

/* Ids of ROUTE from one rank. */
static int64_t ids_of(const ts_ebc *ebc, const ts_route *r) {
  const double all = ebc->batch_max * ebc->pooling[r->feature];
  const double rows = (double)ebc->config->tables[r->table].rows;
  if (!r->split && one_id(ebc, r->feature)) return ebc->batch_max;
  const double n = r->split ? all * (double)r->n_rows / rows : all;
  return (int64_t)ceil(1.25 * n) + 16;
}

static int64_t section_bytes(const ts_ebc *ebc, const ts_route *r) {
  const bool one = r->sequence || (!r->split && one_id(ebc, r->feature));
  return ts_section_bytes(r, ids_of(ebc, r), one ? TS_FORM_ONE : TS_FORM_BYTES,
                          ebc->batch_max);
}

int64_t ts_expect_message(const ts_ebc *ebc, int rank) {
  const int32_t first = ebc->route_start[rank],
                end = ebc->route_start[rank + 1];
  int64_t bytes = ts_head_bytes(ebc, end - first);
  for (int32_t i = first; i < end; i++)
    bytes += section_bytes(ebc, &ebc->routes[i]);
  return (bytes + 7) / 8 * 8;
}

ts_err ts_ebc_expect(ts_ebc *ebc, int32_t batch_max, const double *pooling) {
  ts_err err = TS_OK;
  TS_TRY(ts_mem_array(&ebc->pooling, ebc->n_features, sizeof *ebc->pooling,
                      TS_TAG_MISC));
  memcpy(ebc->pooling, pooling, (size_t)ebc->n_features * sizeof *pooling);
  ebc->batch_max = batch_max;
  for (int r = 0; r < ebc->n_ranks; r++) {
    ebc->input_rooms.send[r] = ts_room_bytes(ts_expect_message(ebc, r));
    ebc->input_rooms.recv[r] = ts_room_bytes(ts_expect_message(ebc, ebc->rank));
  }
done:
  return err;
}
