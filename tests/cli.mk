# The command line: codes, messages, help, man page.
check_PROGRAMS += tests/test_plot
check_PROGRAMS += tests/test_bench_model
dist_check_SCRIPTS += tests/bench_step.sh tests/cli_messages.sh tests/cli_man.sh tests/bench_pipeline.sh tests/bench_gpu.sh tests/plot.sh tests/manual.sh
