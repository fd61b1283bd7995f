/* staging.c - copies through pinned memory, one piece under way while the host
 * copies the other. */
#include "runtime/staging.h"

#include <string.h>

#include "runtime/device_impl.h"

enum { PIECE = TS_STAGING_PIECE };

ts_err ts_staging_create(ts_staging *s, ts_device *device) {
  ts_err err = TS_OK;
  *s = (ts_staging){.device = device};
  if (!ts_device_is_discrete(device)) return TS_OK;
  TS_TRY(ts_buffer_create(&s->pieces, device, 2 * (size_t)PIECE,
                          TS_SPACE_PINNED, TS_TAG_MISC));
  TS_TRY(ts_lane_create(device, &s->lane, "staging", TS_LANE_DATA));
done:
  if (err != TS_OK) ts_staging_reset(s);
  return err;
}

void ts_staging_reset(ts_staging *s) {
  ts_lane_destroy(s->lane);
  ts_buffer_reset(&s->pieces);
  *s = (ts_staging){0};
}

bool ts_staging_is_remote(const ts_staging *s, const void *p) {
  return s && s->lane && s->device->ops->is_remote(s->device, p);
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* The address of the piece that begins at byte AT; *TURN: which of the two
 * buffers that is. */
static char *piece_at(const ts_staging *s, size_t at, int *turn) {
  *turn = (int)(at / PIECE % 2);
  return (char *)s->pieces.ptr + *turn * (size_t)PIECE;
}

ts_err ts_staging_get(ts_staging *s, void *dst, const void *src, size_t bytes) {
  ts_event done[2] = {{0}};
  int turn;
  if (!ts_staging_is_remote(s, src)) {
    if (bytes) memcpy(dst, src, bytes);
    return TS_OK;
  }
  for (size_t asked = 0, taken = 0; taken < bytes;) {
    while (asked < bytes && asked - taken <= PIECE) {
      char *piece = piece_at(s, asked, &turn);
      const size_t n = least(bytes - asked, PIECE);
      TS_DO(ts_lane_copy(s->lane, piece, (const char *)src + asked, n));
      done[turn] = ts_lane_record(s->lane);
      asked += n;
    }
    const char *piece = piece_at(s, taken, &turn);
    const size_t n = least(bytes - taken, PIECE);
    TS_DO(ts_event_sync(done[turn]));
    memcpy((char *)dst + taken, piece, n);
    taken += n;
  }
  return TS_OK;
}

ts_err ts_staging_put(ts_staging *s, void *dst, const void *src, size_t bytes) {
  ts_event done[2] = {{0}};
  int turn;
  if (!ts_staging_is_remote(s, dst)) {
    if (bytes) memcpy(dst, src, bytes);
    return TS_OK;
  }
  for (size_t at = 0; at < bytes; at += PIECE) {
    char *piece = piece_at(s, at, &turn);
    const size_t n = least(bytes - at, PIECE);
    TS_DO(ts_event_sync(done[turn]));
    memcpy(piece, (const char *)src + at, n);
    TS_DO(ts_lane_copy(s->lane, (char *)dst + at, piece, n));
    done[turn] = ts_lane_record(s->lane);
  }
  return ts_lane_sync(s->lane);
}
