/* backend.c - which device a run has (run.backend). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "runtime/backends.h"
#include "train/report.h"

/* Whether the job has GPUs, by what launchers say. */
static bool job_has_gpus(void) {
  static const char *const names[] = {"SLURM_JOB_GPUS", "SLURM_STEP_GPUS",
                                      "SLURM_GPUS_ON_NODE",
                                      "CUDA_VISIBLE_DEVICES"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *s = getenv(names[i]);
    if (s && *s && strcmp(s, "-1") != 0 && strcmp(s, "NoDevFiles") != 0 &&
        (strcmp(names[i], "SLURM_GPUS_ON_NODE") != 0 || atoi(s) > 0))
      return true;
  }
  return false;
}

/* The GPU that this rank sees; DECK, with its place, where it sees none. */
static ts_err take_gpu(ts_trainer *t, const ts_device_options *o) {
  char host[64] = "", why[sizeof t->no_gpu];
  const ts_err err = ts_device_create(&t->device, "cuda", o);
  if (err != TS_ERR_DECK) return err;
  (void)gethostname(host, sizeof host - 1);
  snprintf(why, sizeof why, "%s", ts_err_message());
  ts_err_clear();
  return ts_fail(TS_ERR_DECK, "rank %d on %s: %s", ts_mpi_rank(), host, why);
}

/* The host on all ranks, since one has no GPU. */
static ts_err fall_back(ts_trainer *t, const ts_device_options *o) {
  snprintf(t->no_gpu, sizeof t->no_gpu, "%s", ts_err_message());
  ts_err_clear();
  ts_device_destroy(t->device);
  t->device = NULL;
  return ts_device_create(&t->device, "host", o);
}

ts_err ts_trainer_choose_device(ts_trainer *t, const ts_device_options *o) {
  static const char *const names[] = {[TS_BACKEND_HOST] = "host",
                                      [TS_BACKEND_CUDA] = "cuda",
                                      [TS_BACKEND_EMULATED] = "emulated"};
  const ts_backend_choice asked = t->backend;
  if (asked != TS_BACKEND_AUTO) /* a rank that fails alone is waited for */
    return ts_mpi_agree(ts_device_create(&t->device, names[asked], o));
  if (!ts_backend_find("cuda")) return ts_device_create(&t->device, "host", o);
  const ts_err err = ts_mpi_agree(take_gpu(t, o));
  return err == TS_ERR_DECK ? fall_back(t, o) : err;
}

void ts_report_backend(const ts_trainer *t) {
  const bool named = t->config->run.backend != TS_BACKEND_AUTO;
  const bool gpus = ts_device_is_discrete(t->device);
  if (t->backend != t->config->run.backend) {
    ts_info("  backend host: the run began on it; run.backend = \"cuda\" would "
            "move it to the GPUs");
    return;
  }
  if (!named && gpus)
    ts_info("  backend %s: every rank sees a GPU (run.backend = \"auto\")",
            ts_device_name(t->device));
  if (!named && *t->no_gpu) ts_info("  backend host: %s", t->no_gpu);
  if (gpus || !job_has_gpus()) return;
  if (named)
    ts_note("the job has GPUs, and run.backend = \"host\" trains on CPUs; "
            "\"auto\" or \"cuda\" trains on them");
  else if (*t->no_gpu)
    ts_note("the job has GPUs, but not every rank sees one: training is on "
            "CPUs");
  else
    ts_note("the job has GPUs, and this program was built without CUDA: "
            "training is on CPUs");
}
