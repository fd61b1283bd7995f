# The command line: codes, messages, help, man page.
dist_check_SCRIPTS += tests/cli_messages.sh tests/cli_man.sh tests/bench_pipeline.sh
