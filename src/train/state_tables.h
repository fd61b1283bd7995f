/* state_tables.h - the tables of a checkpoint.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "train/trainer.h"

/* Adds the tables' weights and the states of their optimizers (not: the means
 * alone, and those where nobody trains): whole, or in a checkpoint that is not
 * full the rows that have changed, with a list of them.  Where these take
 * more than the checkpoint's room on some rank it becomes a full one.  The
 * lanes are idle, cached tiers flushed.  Collective. */
ts_err ts_state_tables(ts_trainer *, ts_ckpt *, bool with_state);

/* Rows that are updated from here on are remembered, where the deck has
 * checkpoint.delta_every; forget: those from before are not. */
ts_err ts_state_track(ts_trainer *);
ts_err ts_state_forget_touched(ts_trainer *, ts_ckpt *);
