tessera_sources += \
  src/shard/data_parallel.c \
  src/shard/ebc.c \
  src/shard/ebc.h \
  src/shard/flight.c \
  src/shard/input_dist.c \
  src/shard/input_unpack.c \
  src/shard/lot.c \
  src/shard/nodes.c \
  src/shard/place.c \
  src/shard/plan.c \
  src/shard/plan.h \
  src/shard/row_wise.c \
  src/shard/sharding.c \
  src/shard/sharding.h \
  src/shard/table_wise.c
