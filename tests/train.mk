EXTRA_DIST += tests/common.sh
dist_check_SCRIPTS += tests/train_errors.sh tests/train_predict.sh tests/train_restart.sh tests/train_stop.sh
