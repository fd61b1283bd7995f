tessera_sources += \
  src/model/arch.c \
  src/model/arch.h \
  src/model/concat.c \
  src/model/concat.h \
  src/model/dcnv2.c \
  src/model/deepfm.c \
  src/model/dlrm.c \
  src/model/kernels.h \
  src/model/kernels_ref.c \
  src/model/model.c \
  src/model/model.h \
  src/model/sparsenn.c
