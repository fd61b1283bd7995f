tessera_sources += \
  src/train/base.c \
  src/train/eval.c \
  src/train/forward.c \
  src/train/forward.h \
  src/train/metrics.c \
  src/train/metrics.h \
  src/train/metrics_auc.c \
  src/train/metrics_impl.h \
  src/train/pipeline.c \
  src/train/pipeline.h \
  src/train/planning.c \
  src/train/planning.h \
  src/train/planning_dense.c \
  src/train/planning_stats.c \
  src/train/report.c \
  src/train/report.h \
  src/train/report_traffic.c \
  src/train/run.c \
  src/train/run.h \
  src/train/signals.c \
  src/train/signals.h \
  src/train/stages.c \
  src/train/state.c \
  src/train/trainer.c \
  src/train/trainer.h
