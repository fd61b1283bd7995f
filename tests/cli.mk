# The command line: codes, messages, help, man page.
check_PROGRAMS += tests/test_plot
dist_check_SCRIPTS += tests/cli_messages.sh tests/cli_man.sh tests/bench_pipeline.sh tests/bench_gpu.sh tests/plot.sh tests/manual.sh
