tessera_sources += \
  src/commands/bench.c \
  src/commands/bench.h \
  src/commands/bench_checkpoint.c \
  src/commands/bench_memory.c \
  src/commands/bench_input.c \
  src/commands/bench_pipeline.c \
  src/commands/bench_pipeline.h \
  src/commands/bench_pipeline_table.c \
  src/commands/bench_read.c \
  src/commands/bench_step.c \
  src/commands/bench_tbe.c \
  src/commands/commands.c \
  src/commands/commands.h \
  src/commands/convert.c \
  src/commands/eval.c \
  src/commands/generate.c \
  src/commands/help.c \
  src/commands/inspect.c \
  src/commands/plan.c \
  src/commands/predict.c \
  src/commands/train.c \
  src/commands/version.c \
  src/commands/write_data.h
