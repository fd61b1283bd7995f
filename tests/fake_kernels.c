/* fake_kernels.c - the kernels of the fake device: the host's, each between
 * the opening and the closing of the device's memory. */
#include "fake_device.h"

#include "runtime/kernels.h"

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

ts_err ts_fake_kernels(ts_kernels *k, const char *isa) {
  const ts_err err = ts_kernels_fill(&host, "host", isa);
  if (err != TS_OK) return err;
  ts_fake_lines(&host);
  *k = host;
#define SET(name, params) k->name = name;
  TS_KERNEL_LIST(SET)
#undef SET
  k->isa = "fake";
  return TS_OK;
}
