tessera_sources += \
  src/dense/bce.c \
  src/dense/ddp.c \
  src/dense/ddp.h \
  src/dense/interact.h \
  src/dense/interact_body.h \
  src/dense/kernels_avx2.c \
  src/dense/kernels_avx512.c \
  src/dense/kernels_ref.c \
  src/dense/kernels_version.h \
  src/dense/linear.c \
  src/dense/linear.h \
  src/dense/linear_cblas.c \
  src/dense/linear_impl.h \
  src/dense/linear_narrow.c \
  src/dense/linear_onednn.c \
  src/dense/linear_ref.c \
  src/dense/mlp.c \
  src/dense/mlp.h \
  src/dense/optim.c \
  src/dense/optim.h \
  src/dense/param.c \
  src/dense/param.h \
  src/dense/schedule.c \
  src/dense/update.h \
  src/dense/update_body.h
