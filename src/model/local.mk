tessera_sources += \
  src/model/dlrm.c \
  src/model/model.c \
  src/model/model.h
