/* fuzz.c - one rank, a comm of it, a file to read. */
#include "tests/fuzz/fuzz.h"

#include <sanitizer/lsan_interface.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/deck.h"

static char folder[64];

static void clean_up(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (*folder && system(command) != 0) perror(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(folder, sizeof folder, "%s/tessera-fuzz-XXXXXX", base);
  FUZZ_CHECK(mkdtemp(folder) != NULL);
  atexit(clean_up);
  /* One process, and nothing of the network. */
  setenv("OMPI_MCA_btl", "self", 1);
  setenv("OMPI_MCA_pml", "ob1", 1);
  setenv("OMPI_MCA_ess_singleton_isolated", "1", 1);
  ts_log_quiet(true);
  return 0;
}

ts_comm *fuzz_comm(void) {
  static ts_comm *comm;
  static ts_world *world;
  static ts_device *device;
  const ts_device_options d = {.serial = true, .n_threads = 1};
  const ts_world_options w = {.ordered = true};
  if (comm) return comm;
  __lsan_disable(); /* what MPI keeps is no concern here */
  FUZZ_CHECK(ts_mpi_start(NULL, NULL) == TS_OK);
  FUZZ_CHECK(ts_device_create(&device, "host", &d) == TS_OK);
  FUZZ_CHECK(ts_world_create(&world, device, &w) == TS_OK);
  FUZZ_CHECK(ts_comm_create(world, &comm, TS_GROUP_WORLD, "fuzz") == TS_OK);
  __lsan_enable();
  return comm;
}

const char *fuzz_path(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

const char *fuzz_file(const char *name, const void *data, size_t size) {
  const char *path = fuzz_path(name);
  FILE *f = fopen(path, "wb");
  FUZZ_CHECK(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
  return path;
}

ts_config *fuzz_deck(const char *text, const char *const *sets, int n_sets) {
  ts_config *c = NULL;
  FUZZ_CHECK(ts_deck_parse(&c, text, folder, sets, n_sets) == TS_OK);
  return c;
}

static ts_err read_all(ts_source *s) {
  ts_err err = TS_OK;
  ts_batch_store *store = NULL;
  TS_TRY(ts_batch_store_create(&store, s->config, NULL));
  for (int64_t i = 0; i < s->info.n_samples; i += 7) {
    const int64_t left = s->info.n_samples - i;
    TS_TRY(s->ops->read(s, store, i, left < 7 ? (int32_t)left : 7));
  }
done:
  ts_batch_store_destroy(store);
  return err;
}

ts_err fuzz_read(const ts_config *c, const char *state, char **saved) {
  ts_err err = TS_OK;
  ts_source *s = NULL;
  ts_str text = {0};
  TS_TRY(ts_source_open(&s, c, TS_SPLIT_TRAIN, state, fuzz_comm()));
  if (saved && s->ops->state_save) {
    TS_TRY(s->ops->state_save(s, &text));
    *saved = text.text;
    text = (ts_str){0};
  }
  TS_TRY(read_all(s));
done:
  ts_str_reset(&text);
  ts_source_close(s);
  return err;
}
