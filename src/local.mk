# Each folder of src/ lists its own files.
include src/base/local.mk
include src/runtime/local.mk
include src/sparse/local.mk
include src/dense/local.mk
include src/shard/local.mk
include src/model/local.mk
include src/train/local.mk
include src/commands/local.mk
tessera_sources += src/kernel_table.h
