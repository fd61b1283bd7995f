check_PROGRAMS += tests/test_dense tests/test_ddp tests/test_linear tests/test_models
tests_test_models_SOURCES = tests/test_models.c tests/model_oracle.c tests/model_oracle.h
