# The contract of sharding types; sequences and codecs by the same.
check_PROGRAMS += tests/shard/test_sharding tests/shard/test_sharding_corners \
  tests/shard/test_sharding_sequence tests/shard/test_sequence \
  tests/shard/test_sharding_codec \
  tests/shard/test_positions
shard_contract = tests/shard/shard_batch.c tests/shard/shard_compare.c \
  tests/shard/shard_contract.c tests/shard/shard_contract.h tests/shard/shard_deck.c \
  tests/shard/shard_oracle.c tests/shard/shard_positions.c
check_PROGRAMS += tests/shard/test_unpack
tests_shard_test_unpack_SOURCES = tests/shard/test_unpack.c $(shard_contract)
tests_shard_test_sharding_SOURCES = tests/shard/test_sharding.c $(shard_contract)
tests_shard_test_sharding_corners_SOURCES = tests/shard/test_sharding_corners.c \
  $(shard_contract)
tests_shard_test_sharding_sequence_SOURCES = tests/shard/test_sharding_sequence.c \
  $(shard_contract)
tests_shard_test_sequence_SOURCES = tests/shard/test_sequence.c $(shard_contract)
tests_shard_test_sharding_codec_SOURCES = tests/shard/test_sharding_codec.c \
  $(shard_contract)
tests_shard_test_positions_SOURCES = tests/shard/test_positions.c $(shard_contract)
# The two forms of a batch's ids.
check_PROGRAMS += tests/shard/test_columns
# Plans: estimates, search, texts.
planner_tests = tests/shard/test_plan_text tests/shard/test_planner \
  tests/shard/test_planner_cached tests/shard/test_planner_memory \
  tests/shard/test_planner_kernels tests/shard/test_planner_report
check_PROGRAMS += $(planner_tests)
EXTRA_DIST += tests/shard/planner_setting.h tests/shard/planner_report.txt
EXTRA_DIST += jobs/plan_check input/topology_example
check_PROGRAMS += tests/shard/test_wire
tests_shard_test_wire_SOURCES = tests/shard/test_wire.c $(pipe_run)
