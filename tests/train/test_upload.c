/* test_upload.c - batches on their way to a discrete device: one copy of each,
 * whatever its size, shared by its micro-batches; the batch may change once it
 * is copied, the copy not before its readers are done.  On the fake device
 * unless TESSERA_BACKEND says otherwise.
 * ranks: 1 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/support/harness.h"
#include "io/deck.h"
#include "runtime/device_impl.h"
#include "runtime/trace.h"
#include "train/micro.h"
#include "train/upload.h"
#include "tests/train/upload_source.h"

enum { GLOBAL = 24, SAMPLES = 4 * GLOBAL + 5 };

typedef struct fixture {
  ts_device *device;
  ts_kernels kernels;
  ts_lane *compute;
  ts_config *config;
  ts_source source;
  ts_loader *loader;
  ts_uploads *uploads;
} fixture;

static void start(fixture *f, bool pinned, bool columns) {
  const char *const sets[] = {
      pinned ? "data.pin_memory=true" : "data.pin_memory=false",
      columns ? "data.input=columns" : "data.input=kjt"};
  memset(f, 0, sizeof *f);
  ck_assert_ok(ts_test_device(&f->device, false, 1));
  ck_assert_ok(ts_test_kernels(&f->kernels));
  ck_assert_ok(
      ts_lane_create(f->device, &f->compute, "compute", TS_LANE_COMPUTE));
  ck_assert_ok(us_config_create(&f->config, sets, 2));
  us_source_start(&f->source, f->config, SAMPLES);
  const ts_loader_options o = {.global_batch = GLOBAL,
                               .max_steps = 1000,
                               .n_ranks = 1,
                               .depth = 2,
                               .device = f->device,
                               .serial = true};
  ck_assert_ok(ts_loader_create(&f->loader, &f->source, &o, NULL));
  ck_assert_ok(ts_uploads_create(&f->uploads, f->device));
}

static void stop(fixture *f) {
  ts_lane_destroy(f->compute);
  ts_uploads_destroy(f->uploads);
  ts_loader_destroy(f->loader);
  ts_deck_destroy(f->config);
  ts_device_destroy(f->device);
}

static ts_batch *next(fixture *f) {
  ts_batch *b;
  ck_assert_ok(ts_loader_next(f->loader, &b));
  ck_assert_ptr_nonnull(b);
  return b;
}

static void *keep(const void *p, size_t bytes) {
  void *x = malloc(bytes + 1);
  ck_assert_ptr_nonnull(x);
  if (bytes) memcpy(x, p, bytes);
  return x;
}

/* The device sees at the place of P what WANT has. */
static void check_seen(fixture *f, const ts_upload *u, const void *p,
                       const void *want, size_t bytes) {
  const void *seen = ts_upload_address(u, p);
  ck_assert_int_eq(ts_device_holds(f->device, seen),
                   ts_device_is_discrete(f->device));
  void *got = ts_test_borrow(f->device, seen, bytes);
  ck_assert(!memcmp(got, want, bytes));
  ts_test_return(f->device, seen, got, bytes, false);
}

static void check_copy(fixture *f, const ts_upload *u, const ts_batch *b,
                       const char *want) {
  const char *arena = b->arena;
  check_seen(f, u, arena, want, b->arena_bytes);
  check_seen(f, u, b->dense, want + ((const char *)b->dense - arena),
             (size_t)b->n * (size_t)b->n_dense * 4);
  for (int32_t k = 0; k < b->kjt.n_features; k++) {
    const ts_jagged *j = &b->kjt.features[k];
    check_seen(f, u, j->ids, want + ((const char *)j->ids - arena),
               (size_t)j->n_ids * 8);
  }
}

/* ---- one batch ----------------------------------------------------------- */

/* Five sizes, twice; once it's copied the batch is another's. */
TS_TESTS(one_copy, 0, 4) {
  fixture f;
  ts_upload *u;
  int64_t bytes = 0;
  start(&f, _i & 1, _i & 2);
  ck_assert_ptr_null(ts_upload_address(NULL, NULL));
  for (int i = 1; i <= 10; i++) {
    ts_batch *b = next(&f);
    char *want = keep(b->arena, b->arena_bytes);
    ck_assert_int_eq(b->n, i % 5 ? GLOBAL : 5);
    bytes += (int64_t)b->arena_bytes;
    ck_assert_ok(ts_upload_begin(f.uploads, b, false, &u));
    ck_assert_ok(ts_event_sync(ts_upload_copied(u)));
    memset((void *)(uintptr_t)b->arena, 0xee, b->arena_bytes);
    check_copy(&f, u, b, want);
    ck_assert_ptr_null(ts_upload_address(u, NULL));
    const ts_upload_stat s = ts_upload_stat_of(f.uploads);
    ck_assert_int_eq(s.n_copies, i);
    ck_assert_int_eq(s.n_bytes, bytes);
    ts_upload_end(u, (ts_event){0});
    ts_loader_release(f.loader, b);
    free(want);
  }
  stop(&f);
}

TS_TEST(nothing_to_copy) {
  fixture f;
  ts_upload *u;
  ts_device *host;
  ts_uploads *none;
  const ts_device_options o = {.serial = true, .n_threads = 1};
  start(&f, true, true);
  ts_batch b = *next(&f);
  b.n = 0;
  ck_assert_ok(ts_upload_begin(f.uploads, &b, false, &u));
  ck_assert_ptr_null(u);
  ck_assert_int_eq(ts_upload_stat_of(f.uploads).n_copies, 0);
  ck_assert(ts_event_done(ts_upload_copied(u)));
  ts_upload_end(u, (ts_event){0});
  /* The host reads the batch itself. */
  ck_assert_ok(ts_device_create(&host, "host", &o));
  ck_assert_ok(ts_uploads_create(&none, host));
  ck_assert_ptr_null(none);
  b.n = GLOBAL;
  ck_assert_ok(ts_uploads_expect(none, 2, 1000));
  ck_assert_ok(ts_upload_begin(none, &b, false, &u));
  ck_assert_ptr_null(u);
  ck_assert_ptr_eq(ts_upload_address(u, b.dense), b.dense);
  ck_assert_ptr_null(ts_uploads_lane(none));
  ts_uploads_destroy(none);
  ts_device_destroy(host);
  stop(&f);
}

/* ---- several ------------------------------------------------------------- */

/* Sample by sample as in ALL. */
static void check_part(const ts_batch *part, const ts_batch *all) {
  const int32_t from = (int32_t)(part->first - all->first);
  const size_t row = (size_t)all->n_dense * sizeof(float);
  for (int32_t b = 0; b < part->n; b++) {
    ck_assert_float_eq(part->labels[b], all->labels[from + b]);
    ck_assert_float_eq(part->weights[b], all->weights[from + b]);
    ck_assert_mem_eq(part->dense + b * all->n_dense,
                     all->dense + (from + b) * all->n_dense, row);
  }
}

/* Micro-batches see the one copy, each its own part. */
TS_TESTS(parts_share, 0, 2) {
  fixture f;
  ts_upload *u[3], *other;
  ts_micro *micro[3];
  start(&f, true, _i);
  ts_batch *b = next(&f), *c = next(&f);
  char *want = keep(b->arena, b->arena_bytes);
  for (int k = 0; k < 3; k++) {
    ck_assert_ok(ts_micro_create(&micro[k], b->kjt.n_features));
    ck_assert_ok(ts_micro_cut(micro[k], b, k, 3));
    ck_assert_ok(
        ts_upload_begin(f.uploads, ts_micro_batch(micro[k]), k > 0, &u[k]));
    ck_assert_ptr_eq(u[k], u[0]);
    ck_assert_int_eq(ts_upload_stat_of(f.uploads).n_copies, 1);
  }
  /* Another batch takes another place while one part is in use. */
  ts_upload_end(u[0], (ts_event){0});
  ts_upload_end(u[1], (ts_event){0});
  ck_assert_ok(ts_upload_begin(f.uploads, c, false, &other));
  ck_assert_ptr_ne(other, u[2]);
  ck_assert_ok(ts_event_sync(ts_upload_copied(other)));
  for (int k = 0; k < 3; k++) {
    const ts_batch *part = ts_micro_batch(micro[k]);
    const char *at = (const char *)part->labels - (uintptr_t)b->arena;
    ck_assert_int_eq(part->labels - b->labels, k * GLOBAL / 3);
    check_part(part, b);
    check_copy(&f, u[k], part, want);
    check_seen(&f, u[k], part->labels, want + (uintptr_t)at,
               (size_t)part->n * 4);
    ts_micro_destroy(micro[k]);
  }
  /* A part of a batch that isn't there: it's copied after all. */
  ck_assert_ok(ts_upload_begin(f.uploads, b, true, &u[0]));
  ck_assert_int_eq(ts_upload_stat_of(f.uploads).n_copies, 3);
  free(want);
  stop(&f);
}

typedef struct late_read {
  const ts_kernels *k;
  void *to;
  const void *from;
  size_t bytes;
} late_read;

static ts_err read_late(void *arg, ts_lane *lane) {
  const late_read *r = arg;
  (void)lane;
  if (!strcmp(ts_test_backend(), "fake")) ts_pause(3000);
  return r->k->copy(r->to, r->from, r->bytes);
}

/* More batches than places: each is written when its readers are done. */
TS_TEST(readers_first) {
  fixture f;
  ts_upload *u[2];
  ts_buffer read[8];
  char *want[8];
  size_t bytes[8];
  start(&f, true, true);
  for (int i = 0; i < 8; i++) {
    ts_batch *b = next(&f);
    bytes[i] = b->arena_bytes;
    want[i] = keep(b->arena, bytes[i]);
    ts_upload **turn = &u[i & 1];
    if (i >= 2) ts_upload_end(*turn, ts_lane_record(f.compute));
    ck_assert_ok(ts_upload_begin(f.uploads, b, false, turn));
    ck_assert_ok(ts_event_sync(ts_upload_copied(*turn)));
    ck_assert_ok(ts_buffer_create(&read[i], f.device, bytes[i], TS_SPACE_PINNED,
                                  TS_TAG_MISC));
    const late_read r = {&f.kernels, read[i].ptr,
                         ts_upload_address(*turn, b->arena), bytes[i]};
    ck_assert_ok(ts_lane_submit(f.compute, "late", read_late, &r, sizeof r));
    ts_loader_release(f.loader, b);
  }
  ck_assert_ok(ts_lane_sync(f.compute));
  for (int i = 0; i < 8; i++) {
    ck_assert_msg(!memcmp(read[i].ptr, want[i], bytes[i]), "batch %d", i);
    ts_buffer_reset(&read[i]);
    free(want[i]);
  }
  stop(&f);
}

/* Places are made before step 0 and counted; what is larger is counted as
 * grown. */
TS_TEST(expected) {
  fixture f;
  ts_upload *u[3];
  start(&f, true, true);
  ts_batch *b = next(&f);
  const int64_t before =
      ts_mem_stat_of(TS_TAG_INPUT, TS_SPACE_DEVICE).now_bytes;
  const ts_ebc_batch_mem ebc_batch = ts_mem_flight_of(TS_TAG_INPUT);
  ck_assert_ok(ts_uploads_expect(f.uploads, 2, b->arena_bytes));
  const int64_t planned = ts_mem_flight_of(TS_TAG_INPUT).planned.now_bytes -
                          ebc_batch.planned.now_bytes;
  ck_assert_int_ge(planned, 2 * (int64_t)b->arena_bytes);
  ck_assert_int_lt(planned, 2 * (int64_t)b->arena_bytes + 256);
  ck_assert_int_eq(ts_mem_stat_of(TS_TAG_INPUT, TS_SPACE_DEVICE).now_bytes -
                       before,
                   planned);
  for (int k = 0; k < 2; k++)
    ck_assert_ok(ts_upload_begin(f.uploads, b, false, &u[k]));
  ck_assert_int_eq(ts_mem_flight_of(TS_TAG_INPUT).n_grown, ebc_batch.n_grown);
  ck_assert_int_eq(ts_mem_stat_of(TS_TAG_INPUT, TS_SPACE_DEVICE).now_bytes -
                       before,
                   planned);
  ck_assert_ok(ts_upload_begin(f.uploads, b, false, &u[2])); /* evaluation */
  ck_assert_int_gt(ts_mem_stat_of(TS_TAG_INPUT, TS_SPACE_DEVICE).now_bytes -
                       before,
                   planned);
  for (int k = 0; k < 3; k++) ts_upload_end(u[k], (ts_event){0});
  stop(&f);
  ck_assert_int_eq(ts_mem_stat_of(TS_TAG_INPUT, TS_SPACE_DEVICE).now_bytes, 0);
}

/* The newest copies are timed, one after the other. */
TS_TEST(timed) {
  fixture f;
  ts_upload *u;
  ts_clock *clock;
  double from, to, before = 0;
  start(&f, true, true);
  ck_assert_ok(ts_clock_create(&clock, f.compute, 1));
  ck_assert_ok(ts_clock_mark(clock, 0));
  ck_assert_ok(ts_lane_sync(f.compute));
  ck_assert_ok(ts_uploads_time(f.uploads, 3));
  for (int i = 0; i < 5; i++) {
    ts_batch *b = next(&f);
    ck_assert_ok(ts_upload_begin(f.uploads, b, false, &u));
    ck_assert_ok(ts_event_sync(ts_upload_copied(u)));
    ts_upload_end(u, (ts_event){0});
    ts_loader_release(f.loader, b);
  }
  ck_assert_ok(ts_lane_sync(ts_uploads_lane(f.uploads)));
  for (int64_t i = 2; i < 5; i++) {
    ck_assert_ok(ts_upload_times(f.uploads, i, clock, 0, &from, &to));
    ck_assert(from > before && to > from && to < 60);
    before = to;
  }
  ts_clock_destroy(clock);
  stop(&f);
}

/* The copy has a span of its own, which says its bytes. */
TS_TESTS(traced, 0, 2) {
  fixture f;
  ts_upload *u;
  char path[64], line[512], bytes[64];
  bool found = false;
  start(&f, _i, true);
  snprintf(path, sizeof path, "/tmp/tessera-upload-%d.json", (int)getpid());
  ck_assert_ok(ts_trace_open(path, 0, ts_now(), 0, 10));
  ts_trace_train(0);
  ts_batch *b = next(&f);
  ts_trace_batch_set(b->step, "input");
  ck_assert_ok(ts_upload_begin(f.uploads, b, false, &u));
  ck_assert_ok(ts_lane_sync(ts_uploads_lane(f.uploads)));
  ts_upload_end(u, (ts_event){0});
  snprintf(bytes, sizeof bytes, "\"bytes\":%zu", b->arena_bytes);
  ts_lane_destroy(f.compute);
  f.compute = NULL;
  ck_assert_ok(ts_trace_close());
  FILE *file = fopen(path, "r");
  ck_assert_ptr_nonnull(file);
  while (fgets(line, sizeof line, file))
    found |= strstr(line, "batch to device") && strstr(line, bytes) &&
             strstr(line, "\"batch\":0") && strstr(line, "\"input\"");
  fclose(file);
  (void)remove(path);
  ck_assert(found);
  ts_trace_batch_set(-1, "");
  stop(&f);
}

int main(int argc, char **argv) {
  (void)setenv("TESSERA_BACKEND", "fake", !strcmp(ts_test_backend(), "host"));
  return ts_test_main(argc, argv);
}
