EXTRA_DIST += tests/common.sh tests/golden_losses.txt
dist_check_SCRIPTS += tests/golden.sh tests/train_errors.sh tests/train_positions.sh tests/train_predict.sh tests/train_restart.sh tests/train_stop.sh
