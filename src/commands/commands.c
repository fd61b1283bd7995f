/* commands.c - the table of subcommands. */
#include "commands/commands.h"

#include <stddef.h>

const ts_command ts_commands[] = {
    {"train", "DECK [--trace FILE [--trace-steps A:B]]",
     "train; the same line again resumes", true, ts_cmd_train},
    {"eval", "DECK [--checkpoint FILE]", "evaluate on data.eval", true,
     ts_cmd_eval},
    {"predict", "DECK --out FILE [--checkpoint FILE]",
     "write predictions for data.eval", true, ts_cmd_predict},
    {"plan", "DECK [--world N] [--topology FILE] [--sweep N,N] [--save FILE]",
     "print where the tables go, here or on any machine", true, ts_cmd_plan},
    {"convert", "DECK [train|eval] --out FILE",
     "turn the deck's data into a data set file", true, ts_cmd_convert},
    {"generate", "DECK [train|eval] --out FILE [--format dataset|criteo_tsv]",
     "write the deck's synthetic data", true, ts_cmd_generate},
    {"inspect", "FILE [--verify]", "say what a checkpoint or data set holds",
     false, ts_cmd_inspect},
    {"bench",
     "step DECK | read DECK | tbe [KEY=VALUE] | checkpoint [KEY=VALUE]",
     "measure", true, ts_cmd_bench},
    {"plot", "RUN... --out FILE.svg [--what NAME,NAME] [--smooth N]",
     "draw loss, NE, AUC and samples/s of runs", false, ts_cmd_plot},
    {"trace", "summary FILE | plot FILE -o FILE.svg [--steps A:B] [--rank R]",
     "what a trace says: time hidden and exposed, a drawing", false,
     ts_cmd_trace},
    {"help", "[deck | KEY]", "this text, the deck's keys, one key", false,
     ts_cmd_help},
    {"version", "", "what this program was built with", false, ts_cmd_version},
    {NULL, NULL, NULL, false, NULL},
};
