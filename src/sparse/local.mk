tessera_sources += \
  src/sparse/cache.c \
  src/sparse/cache.h \
  src/sparse/cache_move.c \
  src/sparse/cache_policy.h \
  src/sparse/entries.h \
  src/sparse/index.c src/sparse/index.h \
  src/sparse/isa.h \
  src/sparse/kernels_cache.c \
  src/sparse/kernels.h \
  src/sparse/kernels_entries.c \
  src/sparse/kernels_avx2.c \
  src/sparse/kernels_avx512.c \
  src/sparse/kernels_ref.c \
  src/sparse/kernels_version.h \
  src/sparse/kjt.h \
  src/sparse/lookup_body.h src/sparse/lookup_ones.h \
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
  src/sparse/tbe_average.c \
  src/sparse/tbe_backward.c \
  src/sparse/tbe_columns.c \
  src/sparse/tbe_dynamic.c \
  src/sparse/tbe_impl.h \
  src/sparse/tbe_init.c \
  src/sparse/tbe_keep.c \
  src/sparse/tbe_prefetch.c \
  src/sparse/tbe_replica.c \
  src/sparse/tbe_touched.c \
  src/sparse/tier.c \
  src/sparse/tier.h \
  src/sparse/hold_clock.c \
  src/sparse/hold_clock.h \
  src/sparse/tier_resident.c \
  src/sparse/tier_slow.c \
  src/sparse/update_body.h \
  src/sparse/weight_grad_body.h
