tessera_sources += \
  src/serve/rows.h \
  src/serve/tessera_serve.h
