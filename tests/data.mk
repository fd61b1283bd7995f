dist_check_SCRIPTS += tests/data_formats.sh
# Synthetic data, and batches of it that come again.
check_PROGRAMS += tests/test_synthetic
