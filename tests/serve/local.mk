# Rows in few bits, and the library that scores by them.
check_PROGRAMS += tests/serve/test_rows tests/serve/test_serve
EXTRA_DIST += tests/serve/serve.py tests/serve/small_model.h
