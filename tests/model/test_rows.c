/* test_rows.c - values that lie in the row that joins them: a pass has the bits
 * that it has where one of them is an array of its own, and nothing is copied.
 * ranks: 1
 * fake: 1  emulated: 1 */
#include <string.h>

#include "runtime/trace.h"
#include "tests/model/layer_rig.h"

/* One of each kind whose output may lie in a row.  "t" lives while it does. */
static const char *const parts[] = {"norm",   "drop", "sum",  "scale", "some",
                                    "spread", "se",   "each", "inter", "cin"};
enum { N_PARTS = sizeof parts / sizeof *parts };
#define PARTS                                                                  \
  "{ name = \"a\"; kind = \"linear\"; in = \"embeddings\"; units = 6; },\n"    \
  "{ name = \"b\"; kind = \"linear\"; in = \"embeddings\"; units = 6; },\n"    \
  "{ name = \"norm\"; kind = \"batch_norm\"; in = \"a\"; },\n"                 \
  "{ name = \"t\"; kind = \"linear\"; in = \"a\"; units = 6; },\n"             \
  "{ name = \"drop\"; kind = \"dropout\"; in = \"t\"; p = 0.4; },\n"           \
  "{ name = \"sum\"; kind = \"add\"; in = [\"a\", \"b\"]; },\n"                \
  "{ name = \"scale\"; kind = \"scale\"; in = \"b\"; factor = 0.5;"            \
  " learnt = true; },\n"                                                       \
  "{ name = \"some\"; kind = \"slice\"; in = \"fields\"; from = 1; to = 3;"    \
  " },\n"                                                                      \
  "{ name = \"spread\"; kind = \"project\"; in = [\"dense\", \"fields\"];"     \
  " dim = 3; },\n"                                                             \
  "{ name = \"se\"; kind = \"senet\"; in = \"fields\"; reduction = 2; },\n"    \
  "{ name = \"each\"; kind = \"bilinear\"; in = \"se2\"; form = \"each\";"     \
  " },\n"                                                                      \
  "{ name = \"inter\"; kind = \"bilinear\"; in = \"fields\";"                  \
  " form = \"interaction\"; },\n"                                              \
  "{ name = \"cin\"; kind = \"cin\"; in = \"fields\"; units = [4, 2]; },\n"
#define SE2 "{ name = \"se2\"; kind = \"senet\"; in = \"fields\"; },\n"
#define ALL                                                                    \
  "\"norm\", \"drop\", \"sum\", \"scale\", \"some\", \"spread\", \"se\", "     \
  "\"each\", \"inter\", \"cin\""

static const lr_case base = {
    .layers = SE2 PARTS
    "{ name = \"row\"; kind = \"flatten\"; in = [ \"dense\", " ALL " ]; },\n"
    "{ name = \"deep\"; kind = \"mlp\"; in = \"row\"; units = [16]; },\n"
    "{ name = \"y\"; kind = \"linear\"; in = \"deep\"; units = 2; }",
    .n_dense = 3,
    .n_out = 2};

static void pass(lr_rig *r, const lr_case *c, int32_t batch,
                 ts_device *device) {
  lr_start(r, c, 3, NULL, device);
  r->model->pass = (ts_model_pass){.training = true, .n_global = batch};
  lr_forward(r, batch);
  lr_backward(r, batch);
}

static void same(const lr_rig *a, const lr_rig *b, int32_t batch,
                 const char *what) {
  ck_assert_mem_eq(a->out, b->out, (size_t)(batch * a->c->n_out) * 4);
  for (int32_t i = 0; i < a->model->params.n; i++)
    ck_assert_msg(
        !memcmp(a->dw[i], b->dw[i], (size_t)a->model->params.item[i]->n * 4),
        "%s: gradient of %s", what, a->model->params.item[i]->name);
  for (int32_t f = 0; f < a->p.n_features; f++)
    for (int32_t s = 0; s < batch; s++)
      ck_assert_msg(!memcmp(a->demb[f] + s * a->stride[f],
                            b->demb[f] + s * b->stride[f],
                            (size_t)a->p.dim[f] * 4),
                    "%s: gradient of feature %d", what, f);
}

/* What predict asks for is an array of its own. */
TS_TEST(same_bits) {
  ts_device *device;
  ck_assert_ok(ts_test_device(&device, true, 1));
  for (int k = 0; k < N_PARTS; k++)
    for (int32_t batch = LR_BATCH; batch; batch /= 7) {
      lr_case kept = base;
      lr_rig a, b;
      kept.keeps = parts[k];
      pass(&a, &base, batch, device);
      pass(&b, &kept, batch, device);
      const ts_value *v = ts_graph_value(a.model, parts[k]);
      ck_assert_msg(v->row != NULL, "%s lies nowhere", parts[k]);
      ck_assert_ptr_eq(v->row, ts_graph_value(a.model, "row"));
      ck_assert_ptr_eq(v->x, v->row->x + v->at);
      ck_assert_ptr_null(ts_graph_value(b.model, parts[k])->row);
      same(&a, &b, batch, parts[k]);
      lr_stop(&a);
      lr_stop(&b);
    }
  ts_device_destroy(device);
}

static void count(const char *phase, double seconds, int64_t calls, void *arg) {
  (void)seconds;
  if (!strncmp(phase, "concatenate", 11)) *(int64_t *)arg += calls;
}

static int64_t copies_of(const lr_case *c, ts_device *device) {
  lr_rig r;
  int64_t calls = 0;
  ts_timers_reset();
  pass(&r, c, LR_BATCH, device);
  ts_timers_each(count, &calls);
  lr_stop(&r);
  return calls;
}

/* The row has no part but those that lie in it: its copy is gone in both
 * passes, where one of them is an array it is not. */
TS_TEST(no_copies) {
  lr_case c = base, kept;
  ts_device *device;
  c.layers = SE2 PARTS "{ name = \"y\"; kind = \"linear\"; in = [ " ALL
                       " ]; units = 2; }";
  kept = c;
  kept.keeps = "norm";
  ck_assert_ok(ts_test_device(&device, true, 1));
  if (!ts_device_is_discrete(device)) /* whose tasks are timed at its leisure */
    ck_assert_int_eq(copies_of(&kept, device), copies_of(&c, device) + 2);
  ts_device_destroy(device);
}

static const char *row_of(const lr_case *c, const char *name,
                          ts_device *device) {
  lr_rig r;
  lr_start(&r, c, 1, NULL, device);
  const ts_value *v = ts_graph_value(r.model, name);
  const char *row = !v->row ? "" : v->row->shape.dim == 256 ? "wide" : "narrow";
  lr_stop(&r);
  return row;
}

/* The row's gradient would have to live for "early", which is among the first,
 * beside that of "big": an array of 3 numbers takes less. */
TS_TEST(what_takes_less_memory) {
  static const lr_case c = {
      .layers =
          "{ name = \"early\"; kind = \"scale\"; in = \"dense\"; },\n"
          "{ name = \"big\"; kind = \"linear\"; in = \"embeddings\";"
          " units = 512; },\n"
          "{ name = \"low\"; kind = \"linear\"; in = \"big\"; units = 4; },\n"
          "{ name = \"high\"; kind = \"linear\"; in = \"low\"; units = 253;"
          " },\n"
          "{ name = \"late\"; kind = \"scale\"; in = \"high\"; },\n"
          "{ name = \"y\"; kind = \"linear\"; in = [\"early\", \"late\"];"
          " units = 1; }",
      .n_dense = 3,
      .n_out = 1};
  ts_device *device;
  ck_assert_ok(ts_test_device(&device, true, 1));
  ck_assert_str_eq(row_of(&c, "early", device), "");
  ck_assert_str_eq(row_of(&c, "late", device), "wide");
  ts_device_destroy(device);
}

/* The loss's gradient is not the graph's; of one column a sum's order might be
 * another. */
TS_TEST(what_stays_an_array) {
  static const lr_case c = {
      .layers =
          "{ name = \"x\"; kind = \"linear\"; in = \"embeddings\";"
          " units = 2; },\n"
          "{ name = \"one\"; kind = \"project\"; in = \"embeddings\"; dim = 1; "
          "},\n"
          "{ name = \"two\"; kind = \"slice\"; in = \"one\"; from = 0; to = 1;"
          " },\n"
          "{ name = \"z\"; kind = \"linear\"; in = [\"x\", \"two\"];"
          " units = 2; },\n"
          "{ name = \"s\"; kind = \"scale\"; in = \"z\"; },\n"
          "{ name = \"y\"; kind = \"flatten\"; in = [\"s\"]; }",
      .n_out = 2};
  ts_device *device;
  ck_assert_ok(ts_test_device(&device, true, 1));
  ck_assert_str_eq(row_of(&c, "two", device), "");
  ck_assert_str_eq(row_of(&c, "s", device), "");
  ts_device_destroy(device);
}
