/* run_output.c - the output folder of a run: its lock, log, deck in force and
 * plan. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "io/deck.h"
#include "runtime/trace.h"
#include "train/planning.h"
#include "train/run_impl.h"

/* Whether a lock may go away by itself: after a requeue a lost node's lock may
 * outlive it on a file system that several nodes see. */
static bool lock_may_pass(double began) {
  const char *count = getenv("SLURM_RESTART_COUNT");
  return count && atoi(count) > 0 && ts_now() - began < 60;
}

/* The lock of DIR is this process's, where the file system has such locks. */
static ts_err lock(ts_run *r, int fd, const char *dir, const char *key) {
  const double began = ts_now();
  bool waits = false;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      r->no_locks = true;
      return TS_OK;
    }
    if (!lock_may_pass(began))
      return ts_fail(TS_ERR_DECK,
                     "%s is in use by another run; give this one its own %s",
                     dir, key);
    if (!waits)
      ts_info("%s is locked; the run of the start before may hold it: waiting "
              "up to a minute",
              dir);
    waits = true;
    sleep(1);
  }
  return TS_OK;
}

static ts_err lock_folder(ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0};
  TS_TRY(ts_mkdirs(r->config->run.output));
  TS_TRY(ts_str_append(&path, "%s/lock", r->config->run.output));
  r->lock = ts_file_open(path.text, O_CREAT | O_RDWR);
  if (r->lock < 0)
    TS_THROW(TS_ERR_IO, "run.output: %s: %s", path.text, ts_file_why());
  TS_TRY(lock(r, r->lock, r->config->run.output, "run.output"));
done:
  ts_str_reset(&path);
  return err;
}

/* A folder of checkpoints that can't be written to, or that another run writes
 * to, is met now, not hours later. */
static ts_err lock_checkpoints(ts_run *r) {
  const char *dir = r->config->checkpoint.dir;
  if (!dir) return TS_OK;
  if (ts_mkdirs(dir) != TS_OK) {
    ts_err_record why;
    ts_err_take(&why);
    why.code = TS_ERR_CKPT;
    ts_err_put(&why);
    return TS_ERR_CKPT;
  }
  if (access(dir, W_OK | X_OK) != 0)
    return ts_fail(TS_ERR_CKPT, "checkpoint.dir: %s: %s", dir, strerror(errno));
  r->checkpoints_lock = ts_file_open(dir, O_RDONLY | O_DIRECTORY);
  if (r->checkpoints_lock < 0)
    return ts_fail(TS_ERR_CKPT, "checkpoint.dir: %s: %s", dir, strerror(errno));
  return lock(r, r->checkpoints_lock, dir, "checkpoint.dir");
}

/* Two runs would take each other's files for their own, or throw them out; so
 * would one whose mirror is checkpoint.dir.  A folder that can't be is told
 * when there is something to copy. */
static ts_err lock_mirror(ts_run *r) {
  const char *dir = ts_mirror_of(r->config);
  struct stat a, b;
  if (!r->config->checkpoint.dir || !dir) return TS_OK;
  if (ts_mkdirs(dir) != TS_OK) {
    ts_err_clear();
    return TS_OK;
  }
  r->mirror_lock = ts_file_open(dir, O_RDONLY | O_DIRECTORY);
  if (r->mirror_lock < 0) return TS_OK;
  if (fstat(r->checkpoints_lock, &a) == 0 && fstat(r->mirror_lock, &b) == 0 &&
      a.st_dev == b.st_dev && a.st_ino == b.st_ino)
    return ts_fail(
        TS_ERR_DECK,
        "checkpoint.mirror: %s is checkpoint.dir, which can't be its "
        "own mirror",
        dir);
  return lock(r, r->mirror_lock, dir, "checkpoint.mirror");
}

static ts_err write_deck(const ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0}, text = {0};
  FILE *f = NULL;
  TS_TRY(ts_str_append(&path, "%s/deck.effective", r->config->run.output));
  TS_TRY(ts_deck_print(&text, r->config));
  f = ts_file_stream(path.text, "w");
  if (!f || fwrite(text.text, 1, text.n_bytes, f) != text.n_bytes)
    err = ts_fail(TS_ERR_IO, "%s: %s", path.text, ts_file_why());
  if (f && ts_file_close(f) != 0 && err == TS_OK)
    err = ts_fail_errno(TS_ERR_IO, path.text);
done:
  ts_str_reset(&path);
  ts_str_reset(&text);
  return err;
}

/* The plan in force, in full; the log has it in short. */
ts_err ts_run_write_plan(const ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0};
  const ts_trainer *t = r->t;
  if (t->rank != 0) return TS_OK;
  TS_TRY(ts_str_append(&path, "%s/plan", r->config->run.output));
  unlink(path.text); /* whatever it is a link to */
  TS_TRY(
      ts_planning_save(t->planning, t->plan, t->planning->report, path.text));
done:
  ts_str_reset(&path);
  return err;
}

ts_err ts_run_open_output(ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0};
  TS_TRY(lock_folder(r));
  TS_TRY(ts_str_append(&path, "%s/log", r->config->run.output));
  TS_TRY(ts_log_open(path.text));
  TS_TRY(lock_checkpoints(r));
  TS_TRY(lock_mirror(r));
  if (r->no_locks)
    ts_note("the file system of %s has no locks: a second run on its folders "
            "would not be noticed",
            r->config->run.output);
  TS_TRY(write_deck(r));
done:
  ts_str_reset(&path);
  return err;
}

ts_err ts_run_open_logs(ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0};
  if (r->t->rank == 0) {
    TS_TRY(ts_str_append(&path, "%s/metrics.jsonl", r->config->run.output));
    TS_TRY(ts_metrics_log_open(
        &r->log, path.text, r->t->step,
        (int64_t)ceil(r->config->metrics.rotate_mib * (1 << 20))));
  }
done:
  ts_str_reset(&path);
  return err;
}
