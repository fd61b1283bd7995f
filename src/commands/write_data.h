/* write_data.h - what `convert` and `generate` share.  All of it is Local. */
#ifndef TS_COMMANDS_WRITE_DATA_H
#define TS_COMMANDS_WRITE_DATA_H

#include "commands/commands.h"

/* Reads the deck's data (SYNTHETIC: whatever data.format says, the synthetic
 * one), the split that the command line names, and writes it to --out. */
ts_err ts_write_data(const ts_args *, bool synthetic);

#endif
