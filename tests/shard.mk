# The contract of sharding types; sequences and codecs by the same.
check_PROGRAMS += tests/test_sharding tests/test_sharding_corners \
  tests/test_sharding_sequence tests/test_sequence \
  tests/test_codec tests/test_sharding_codec \
  tests/test_positions
shard_contract = tests/shard_batch.c tests/shard_compare.c \
  tests/shard_contract.c tests/shard_contract.h tests/shard_deck.c \
  tests/shard_oracle.c tests/shard_positions.c
check_PROGRAMS += tests/test_unpack
tests_test_unpack_SOURCES = tests/test_unpack.c $(shard_contract)
tests_test_sharding_SOURCES = tests/test_sharding.c $(shard_contract)
tests_test_sharding_corners_SOURCES = tests/test_sharding_corners.c \
  $(shard_contract)
tests_test_sharding_sequence_SOURCES = tests/test_sharding_sequence.c \
  $(shard_contract)
tests_test_sequence_SOURCES = tests/test_sequence.c $(shard_contract)
tests_test_sharding_codec_SOURCES = tests/test_sharding_codec.c \
  $(shard_contract)
tests_test_positions_SOURCES = tests/test_positions.c $(shard_contract)
