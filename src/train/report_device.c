/* report_device.c - the GPUs of a run: what they are, whether ranks share one,
 * whether one is not what this build is for. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "train/report.h"

typedef struct ts_seat {
  int32_t node, pad;
  ts_device_info info;
} ts_seat;

/* Ranks that don't have a GPU for themselves. */
static int sharing(const ts_seat *all, int n) {
  int shared = 0;
  for (int r = 0; r < n; r++) {
    int users = 0;
    for (int k = 0; k < n; k++)
      users += all[k].node == all[r].node &&
               !memcmp(all[k].info.id, all[r].info.id, sizeof all[r].info.id);
    shared += users > 1;
  }
  return shared;
}

static void say(const ts_seat *all, int n) {
  const int shared = sharing(all, n);
  int other = 0, noted = 0;
  while (other < n && !strcmp(all[other].info.text, all[0].info.text)) other++;
  while (noted < n && !*all[noted].info.note) noted++;
  ts_info("  GPU: %s", all[0].info.text);
  if (other < n)
    ts_note("rank %d has another GPU: %s", other, all[other].info.text);
  if (noted < n) ts_note("rank %d: %s", noted, all[noted].info.note);
  if (shared)
    ts_note("%d of %d ranks share a GPU with another rank: one rank for each "
            "GPU is faster",
            shared, n);
}

ts_err ts_report_device(ts_trainer *t) {
  ts_err err = TS_OK;
  ts_seat own, *all = NULL;
  memset(&own, 0, sizeof own);
  if (!ts_device_describe(t->device, &own.info)) return TS_OK;
  own.node = ts_world_node(t->world);
  TS_TRY(ts_mem_array(&all, t->n_ranks, sizeof *all, TS_TAG_MISC));
  TS_TRY(ts_comm_gather_all(t->control, all, &own, sizeof own));
  say(all, t->n_ranks);
done:
  ts_mem_free(all);
  return err;
}
