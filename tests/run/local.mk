# Scripts: whole runs of the program, its commands and messages, the house.
dist_check_SCRIPTS += tests/run/async.sh \
  tests/run/bench.sh \
  tests/run/bench_gpu.sh \
  tests/run/bench_pipeline.sh \
  tests/run/bench_step.sh \
  tests/run/cached.sh \
  tests/run/check_totals.sh \
  tests/run/classes.sh \
  tests/run/cli_man.sh \
  tests/run/cli_messages.sh \
  tests/run/columns.sh \
  tests/run/commands.sh \
  tests/run/compare.sh \
  tests/run/compress.sh \
  tests/run/context.sh \
  tests/run/convert_sequences.sh \
  tests/run/csv.sh \
  tests/run/data_formats.sh tests/run/deltas.sh \
  tests/run/disk_full.sh tests/run/dynamic.sh tests/run/dynamic_serve.sh \
  tests/run/export.sh \
  tests/run/extending.sh \
  tests/run/emulated.sh \
  tests/run/faults.sh \
  tests/run/folder.sh \
  tests/run/fully_sharded.sh \
  tests/run/golden.sh \
  tests/run/gpu_kit.sh \
  tests/run/hardening.sh \
  tests/run/hostile.sh \
  tests/run/init.sh \
  tests/run/install.sh \
  tests/run/items.sh \
  tests/run/items_often.sh \
  tests/run/larger.sh \
  tests/run/lint.sh \
  tests/run/machine_code.sh \
  tests/run/manual.sh \
  tests/run/manual_commands.sh \
  tests/run/matrix.sh \
  tests/run/model_mistakes.sh \
  tests/run/nan.sh \
  tests/run/npy.sh \
  tests/run/parquet.sh tests/run/parquet_hostile.sh \
  tests/run/one_message.sh \
  tests/run/oracle.sh \
  tests/run/outputs.sh \
  tests/run/parity.sh \
  tests/run/pipelines.sh \
  tests/run/plot.sh \
  tests/run/predict.sh \
  tests/run/real_data.sh \
  tests/run/report.sh \
  tests/run/reshard.sh \
  tests/run/rows.sh \
  tests/run/scales.sh \
  tests/run/sequences.sh tests/run/serve.sh tests/run/sequences_two.sh tests/run/balance.sh \
  tests/run/several_tables.sh \
  tests/run/evict.sh tests/run/evict_file.sh tests/run/evict_score.sh tests/run/ids_grow.sh \
  tests/run/admit.sh tests/run/dynamic_devices.sh \
  tests/run/ids_averages.sh tests/run/ids_deltas.sh tests/run/ids_random.sh \
  tests/run/top.sh \
  tests/run/shuffle.sh tests/run/soak.sh \
  tests/run/sweep_faults.sh \
  tests/run/sweep_kill.sh \
  tests/run/serve_bench.sh \
  tests/run/silent_faults.sh \
  tests/run/trace_overlap.sh \
  tests/run/train_again.sh \
  tests/run/few_bits.sh \
  tests/run/train_bf16.sh \
  tests/run/train_averages.sh tests/run/windows.sh \
  tests/run/train_averages_rows.sh \
  tests/run/train_dense_rows.sh \
  tests/run/train_errors.sh \
  tests/run/topk.sh tests/run/item_tower.sh tests/run/train_graph.sh tests/run/train_layers.sh \
  tests/run/train_models.sh \
  tests/run/train_positions.sh \
  tests/run/train_predict.sh \
  tests/run/train_restart.sh \
  tests/run/train_stop.sh \
  tests/run/train_tasks.sh \
  tests/run/tune.sh \
  tests/run/validation.sh \
  tests/run/watchdog.sh \
  tests/run/weights.sh
EXTRA_DIST += tests/run/golden_losses.txt tests/run/compress.py tests/run/evict.py tests/run/evict_score.py tests/run/top.py tests/run/convert_sequences.py tests/run/items.py tests/run/negatives.py tests/run/npy.py tests/run/parquet.py tests/run/parquet_find.sh tests/run/topk.py tests/run/item_tower.py tests/run/outputs.py tests/run/parity.py \
  tests/run/headers.py tests/run/machine_code.py tests/kernels/machine_code.txt
EXTRA_DIST += tests/oracle/cases tests/oracle/exported.py tests/oracle/make.py tests/oracle/models.py tests/oracle/sequences.py

# Jobs under a Slurm that the script starts: minutes of waiting for its clock,
# so not in `make check`.
EXTRA_DIST += tests/run/slurm.sh tests/run/slurm_cluster.sh
check-slurm: tessera
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS check_PROGRAMS= TESTS=tests/run/slurm.sh
.PHONY: check-slurm
# What breaks runs on purpose, in long (doc/reliability.md): about an hour.
check-reliability: tessera tests/io/test_damage tests/io/test_faults
	TESSERA_SWEEP=long $(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='tests/io/test_damage tests/io/test_faults \
	  tests/run/faults.sh tests/run/folder.sh tests/run/disk_full.sh tests/run/sweep_kill.sh tests/run/sweep_faults.sh'
.PHONY: check-reliability
