/* test_cuda_linear.c - single layers on the GPU's engine, without a GPU. */
#include "tests/support/emulated/cuda_products.h"
#include "tests/dense/linear_probe.c"
#include "tests/dense/test_linear.c"
