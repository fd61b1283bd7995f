tessera_sources += \
  src/base/auc.c \
  src/base/auc.h \
  src/base/config.h \
  src/base/dtype.c \
  src/base/dtype.h \
  src/base/err.c \
  src/base/err.h \
  src/base/fault.c \
  src/base/fault.h \
  src/base/file.c \
  src/base/file.h \
  src/base/hash.c \
  src/base/hash.h \
  src/base/log.c \
  src/base/log.h \
  src/base/mem.c \
  src/base/mem.h \
  src/base/mem_free.c \
  src/base/mem_free.h \
  src/base/mem_stream.c \
  src/base/mem_stream.h \
  src/base/rng.c \
  src/base/rng.h \
  src/base/space.c \
  src/base/space.h \
  src/base/str.c \
  src/base/str.h
