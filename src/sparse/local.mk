tessera_sources += \
  src/sparse/isa.h \
  src/sparse/kernels_avx2.c \
  src/sparse/kernels_avx512.c \
  src/sparse/kernels_ref.c \
  src/sparse/kernels_version.h \
  src/sparse/kjt.h \
  src/sparse/lookup_body.h \
  src/sparse/optim_adagrad.c \
  src/sparse/optim_adam.c \
  src/sparse/optim_lamb.c \
  src/sparse/optim_lars.c \
  src/sparse/optim_sgd.c \
  src/sparse/row_optim.c \
  src/sparse/row_optim.h \
  src/sparse/row_update.c \
  src/sparse/row_update.h \
  src/sparse/sort.c \
  src/sparse/sort.h \
  src/sparse/tbe.c \
  src/sparse/tbe.h \
  src/sparse/tbe_backward.c \
  src/sparse/tbe_impl.h \
  src/sparse/tbe_replica.c \
  src/sparse/tier.c \
  src/sparse/tier.h \
  src/sparse/tier_resident.c \
  src/sparse/update_body.h
