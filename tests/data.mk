dist_check_SCRIPTS += tests/data_formats.sh
