tessera_sources += \
  src/commands/args.c \
  src/commands/bench.c \
  src/commands/bench.h \
  src/commands/bench_attention.c \
  src/commands/bench_cache.c \
  src/commands/bench_checkpoint.c \
  src/commands/bench_copy.c \
  src/commands/bench_copy.h \
  src/commands/bench_dense.c \
  src/commands/bench_dense.h \
  src/commands/bench_limits.c \
  src/commands/bench_limits.h \
  src/commands/bench_memory.c \
  src/commands/bench_model.c \
  src/commands/bench_phases.c \
  src/commands/bench_input.c src/commands/bench_input.h \
  src/commands/bench_input_table.c \
  src/commands/bench_pipeline.c \
  src/commands/bench_pipeline.h \
  src/commands/bench_pipeline_table.c \
  src/commands/bench_read.c \
  src/commands/bench_rows.c \
  src/commands/bench_step.c \
  src/commands/bench_table.c src/commands/bench_table.h \
  src/commands/bench_tbe.c src/commands/bench_tbe.h \
  src/commands/bench_tbe_bytes.c \
  src/commands/bench_tbe_case.c src/commands/bench_tbe_device.c \
  src/commands/bench_tbe_dynamic.c \
  src/commands/commands.c \
  src/commands/commands.h \
  src/commands/compact.c src/commands/compare.c \
  src/commands/convert.c \
  src/commands/convert_sequences.c \
  src/commands/eval.c \
  src/commands/export.c \
  src/commands/export_serve.c \
  src/commands/export_serve.h \
  src/commands/help.c \
  src/commands/import.c \
  src/commands/init.c \
  src/commands/init.h \
  src/commands/init_choose.c \
  src/commands/inspect.c \
  src/commands/options.c \
  src/commands/plan.c \
  src/commands/plot.c \
  src/commands/plot.h \
  src/commands/plot_draw.c \
  src/commands/plot_model.c \
  src/commands/plot_read.c \
  src/commands/predict.c \
  src/commands/reliability.c \
  src/commands/serve_bench.c src/commands/serve_bench.h \
  src/commands/serve_bench_input.c \
  src/commands/svg.c \
  src/commands/svg.h \
  src/commands/trace.c \
  src/commands/trace.h \
  src/commands/trace_plot.c \
  src/commands/trace_read.c \
  src/commands/trace_summary.c \
  src/commands/topk.c \
  src/commands/train.c \
  src/commands/tune.c \
  src/commands/tune.h \
  src/commands/tune_draw.c \
  src/commands/tune_folder.c \
  src/commands/tune_run.c \
  src/commands/tune_rungs.c \
  src/commands/version.c
