/* input_sections.c - the sections of messages on a discrete device: they go
 * from its memory to the other ranks' devices, in an all-to-all of their own,
 * once the heads that tell of them have come. */
#include <string.h>

#include "base/mem.h"
#include "shard/message.h"

int64_t ts_bags_from(const ts_ebc_batch *fl, const ts_route *r, int from,
                     int64_t n_ids) {
  const ts_ebc *ebc = fl->ebc;
  const int32_t v = ebc->variable[r->feature];
  if (!fl->batch[from]) return 0;
  if (r->sequence && r->split) return n_ids;
  return v < 0 ? fl->batch[from]
               : fl->variable[(int64_t)from * ebc->n_variable + v];
}

/* Bytes of the sections that rank FROM sends here. */
static ts_err measure_sections(const ts_ebc_batch *fl, int from,
                               int64_t *bytes) {
  const ts_ebc *ebc = fl->ebc;
  const ts_route *routes = &ebc->routes[ebc->route_start[ebc->rank]];
  const char *head =
      (const char *)fl->exchange.recv.ptr + fl->exchange.recv_at[from];
  *bytes = 0;
  for (int32_t i = 0; fl->batch[from] && i < ts_routes_here(ebc); i++) {
    int64_t word;
    memcpy(&word, head + ts_head_bytes(ebc, i), 8);
    const int64_t n = word >> TS_FORM_BITS;
    if (n < 0 || n > INT32_MAX)
      return ts_fail(TS_ERR_COMM, "rank %d sent a count of %lld ids", from,
                     (long long)n);
    *bytes += ts_section_bytes(&routes[i], n, (int)(word & 3),
                               ts_bags_from(fl, &routes[i], from, n));
  }
  *bytes = (*bytes + 7) / 8 * 8;
  return TS_OK;
}

ts_err ts_input_sections(ts_ebc_batch *fl, ts_lane *data) {
  const ts_ebc *ebc = fl->ebc;
  int64_t n = 0;
  for (int r = 0; r < ebc->n_ranks; r++) {
    fl->section_recv_at[r] = n;
    TS_DO(measure_sections(fl, r, &fl->section_recv[r]));
    n += fl->section_recv[r];
  }
  /* What there is may be read yet, of the batch before. */
  if ((size_t)n > fl->arrived.bytes) TS_DO(ts_lane_sync(data));
  TS_DO(ts_buffer_reserve(&fl->arrived, (size_t)n));
  TS_DO(ts_comm_all_to_all_v(ebc->section_comm, &fl->section_token,
                             fl->arrived.ptr, fl->section_recv, fl->packed.ptr,
                             fl->section_send, data));
  return ts_comm_end(&fl->section_token, data);
}

ts_err ts_input_judge(ts_ebc_batch *fl) {
  TS_DO(ts_event_sync(fl->unpacked));
  if (!fl->to_judge) return TS_OK;
  fl->to_judge = false;
  TS_DO(ts_send_judge(fl));
  return fl->ebc->section_comm && *fl->bad
             ? ts_unpack_fail((int64_t)(*fl->bad >> 32), (uint32_t)*fl->bad)
             : TS_OK;
}

ts_err ts_input_await(ts_ebc_batch *fl) {
  return fl->ebc->counts ? TS_OK : ts_input_judge(fl);
}
