/* signals.c - a thread waits for the signals, so that nothing has to be safe
 * inside a handler. */
#include "train/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/log.h"
#include "runtime/comm.h"
#include "runtime/trace.h"

/* One wish comes by several ways, and in several kinds: a launcher passes on
 * what the batch system sent to all, and a script adds its own. */
static const double one_wish_s = 2;

static atomic_int level;
static atomic_int running;
static pthread_t thread;

static void signal_set(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGTERM);
  sigaddset(set, SIGINT);
  sigaddset(set, SIGUSR1);
  sigaddset(set, SIGUSR2);
}

static void *take_signals(void *arg) {
  (void)arg;
  sigset_t set;
  int number;
  double first = 0;
  signal_set(&set);
  while (sigwait(&set, &number) == 0) {
    if (!atomic_load(&running)) return NULL;
    if (!atomic_exchange(&level, 1)) {
      first = ts_now();
      continue;
    }
    if (ts_now() - first < one_wish_s) continue;
    /* One rank speaks and ends all; the others only if that fails. */
    if (ts_mpi_rank() != 0) sleep(3);
    ts_log_error("stopped at once by a second signal; the checkpoint before "
                 "stays");
    ts_mpi_abort(ts_err_exit_code(TS_ERR_STOPPED));
  }
  return NULL;
}

ts_err ts_signals_block(void) {
  sigset_t set;
  signal_set(&set);
  if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
    return ts_fail(TS_ERR_INTERNAL, "signals can't be blocked");
  return TS_OK;
}

ts_err ts_signals_start(void) {
  atomic_store(&running, 1);
  if (pthread_create(&thread, NULL, take_signals, NULL) != 0) {
    atomic_store(&running, 0);
    return ts_fail(TS_ERR_NOMEM, "no thread for signals can be started");
  }
  return TS_OK;
}

void ts_signals_stop(void) {
  if (!atomic_exchange(&running, 0)) return;
  pthread_kill(thread, SIGUSR1);
  pthread_join(thread, NULL);
}

int ts_signals_level(void) {
  return atomic_load(&level);
}
