/* commands.c - the table of subcommands. */
#include "commands/commands.h"

#include <stddef.h>

const ts_command ts_commands[] = {
    {"init", 2, "FILE.csv [EVAL.csv] --label COLUMN [--out DECK]",
     "look at a file and write a first deck for it", false, ts_cmd_init},
    {"train", 1, "DECK [--trace FILE [--trace-steps A:B]]",
     "train; the same line again resumes", true, ts_cmd_train},
    {"eval", 1,
     "DECK [--checkpoint best|FILE] [--by COLUMN] [--importance] "
     "[--calibration "
     "[FILE.svg]]",
     "evaluate on data.eval", true, ts_cmd_eval},
    {"predict", 1,
     "DECK --out FILE [--data FILE] [--keys NAME,NAME] [--embeddings NAME | "
     "--layer NAME]",
     "write predictions for data.eval or FILE, or embeddings", true,
     ts_cmd_predict},
    {"topk", 1,
     "DECK --out FILE [--k N] [--data FILE] [--keys NAME,NAME] [--checkpoint "
     "best|FILE]",
     "write the best items for data.eval or FILE", true, ts_cmd_topk},
    {"export", 1,
     "DECK --out FOLDER [--names own|torchrec] [--state] | --format serve "
     "--out FILE [--tables TYPE] [--base FILE]",
     "write a checkpoint's weights as safetensors, or a file to serve", false,
     ts_cmd_export},
    {"compact", 1, "DECK [--checkpoint FILE]",
     "make a full checkpoint of the newest delta and all that it builds on",
     true, ts_cmd_compact},
    {"compare", 2,
     "RUN RUN [--data FILE,FILE] [--resamples N] [--seed N] [--json]",
     "say which of two runs is better, and whether by more than chance", true,
     ts_cmd_compare},
    {"plan", 3,
     "DECK [RANKS | --world N] [--topology FILE] [--sweep N,N] [--save FILE]",
     "print where the tables go, here or on any machine", true, ts_cmd_plan},
    {"convert", 2,
     "DECK [train|valid|eval] --out FILE | --sequences EVENTS --out PREFIX",
     "turn the deck's data, or a log of events, into data set files", true,
     ts_cmd_convert},
    {"generate", 2, "DECK [train|valid|eval] --out FILE [--format FORMAT]",
     "write the deck's synthetic data", true, ts_cmd_generate},
    {"inspect", 1, "FILE [--verify | --vocabulary FEATURE]",
     "say what a checkpoint or data set holds", false, ts_cmd_inspect},
    {"bench", 17, "NAME [DECK] [KEY=VALUE]... [--json] [--out FILE]",
     "measure steps, pipelines, reading, lookups and checkpoints; bench NAME "
     "--help",
     true, ts_cmd_bench},
    {"serve-bench", 1,
     "FILE [--threads N] [--batch B] [--ids N] [--zipf A] [--dump FOLDER] "
     "[--json]",
     "measure how fast an exported file is scored", false, ts_cmd_serve_bench},
    {"plot", 17,
     "RUN... | --model DECK --out FILE.svg [--what NAME,NAME] [--smooth N]",
     "draw loss, NE, AUC and samples/s of runs, or a model's layers", false,
     ts_cmd_plot},
    {"trace", 2,
     "summary FILE | plot FILE -o FILE.svg [--steps A:B] [--rank R]",
     "what a trace says: time hidden and exposed, a drawing", false,
     ts_cmd_trace},
    {"tune", 1,
     "DECK --space FILE [--trials N] [--parallel N] [--halving] [--out FOLDER]",
     "search for the best values of a deck's keys; again: goes on", false,
     ts_cmd_tune},
    {"help", 2, "[deck | model | layer KIND | KEY]",
     "this text, the deck's keys, models and layers, one key", false,
     ts_cmd_help},
    {"version", 0, "", "what this program was built with", false,
     ts_cmd_version},
    {NULL},
};
