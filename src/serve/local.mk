tessera_sources += \
  src/serve/rows.c \
  src/serve/rows.h \
  src/serve/rows_avx2.c \
  src/serve/rows_avx512.c \
  src/serve/rows_body.h \
  src/serve/rows_impl.h \
  src/serve/rows_ref.c \
  src/serve/tessera_serve.h
