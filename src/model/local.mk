tessera_sources += \
  src/model/arch.c \
  src/model/arch.h \
  src/model/dlrm.c \
  src/model/model.c \
  src/model/model.h \
  src/model/sparsenn.c
