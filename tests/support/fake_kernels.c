/* fake_kernels.c - the kernels of the fake device: the host's, each between
 * the opening and the closing of the device's memory. */
#include "tests/support/fake_device.h"

#include <string.h>

#include "dense/linear_impl.h"
#include "kernel_table.h"

static ts_kernels host;

/* Entries by their numbers of parameters. */
#define CLOSED(call)                                                           \
  ts_fake_open(true);                                                          \
  const ts_err err = (call);                                                   \
  ts_fake_open(false);                                                         \
  return err
#define ONE(name, A)                                                           \
  static ts_err name(A a) {                                                    \
    CLOSED(host.name(a));                                                      \
  }
#define TWO(name, A, B)                                                        \
  static ts_err name(A a, B b) {                                               \
    CLOSED(host.name(a, b));                                                   \
  }
#define THREE(name, A, B, C)                                                   \
  static ts_err name(A a, B b, C c) {                                          \
    CLOSED(host.name(a, b, c));                                                \
  }
#define PICK(a, b, c, macro, ...) macro
#define OF(name, ...) PICK(__VA_ARGS__, THREE, TWO, ONE, )(name, __VA_ARGS__)
#define STRIP(...) __VA_ARGS__
#define APPLY(macro, ...) macro(__VA_ARGS__)
#define WRAP(name, params) APPLY(OF, name, STRIP params)
TS_KERNEL_LIST(WRAP)

/* ---- products ------------------------------------------------------------ */

static const ts_engine *engine_of(const ts_linear *l) {
  return ts_engine_host(l->spec.engine, l->spec.n_out);
}

static bool has_bf16(int32_t n_out) {
  const ts_engine *e = ts_engine_host(NULL, INT32_MAX);
  return e->has_bf16 && e->has_bf16(n_out);
}

static ts_err create(ts_linear *l) {
  if (!engine_of(l)) return ts_fail(TS_ERR_DECK, "no such engine");
  return engine_of(l)->create(l);
}

static void destroy(ts_linear *l) {
  engine_of(l)->destroy(l);
}

static ts_err forward(ts_linear *l, void *y, const void *x, int32_t batch) {
  CLOSED(engine_of(l)->forward(l, y, x, batch));
}

static ts_err backward(ts_linear *l, void *dx, void *dy, const void *x,
                       const void *y, int32_t batch) {
  CLOSED(engine_of(l)->backward(l, dx, dy, x, y, batch));
}

/* As a GPU's library has: what comes back is what was given. */
static const char algorithms[] = "algorithms of the fake device\n";
int ts_fake_restored;

static ts_err save(ts_str *text) {
  return ts_str_append(text, "%s", algorithms);
}

static ts_err restore(const char *text) {
  if (strcmp(text, algorithms) != 0)
    return ts_fail(TS_ERR_INTERNAL, "algorithms of another: %s", text);
  ts_fake_restored++;
  return TS_OK;
}

static const ts_engine products = {.name = "fake",
                                   .has_bf16 = has_bf16,
                                   .create = create,
                                   .destroy = destroy,
                                   .forward = forward,
                                   .backward = backward,
                                   .save = save,
                                   .restore = restore};

ts_err ts_fake_kernels(ts_kernels *k, const char *isa) {
  const ts_err err = ts_kernels_fill(&host, "host", isa);
  if (err != TS_OK) return err;
  ts_fake_lines(&host);
  *k = host;
#define SET(name, params) k->name = name;
  TS_KERNEL_LIST(SET)
#undef SET
  k->isa = "fake";
  k->engine = &products;
  return TS_OK;
}
