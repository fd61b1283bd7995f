/* test_cuda_linear.c - single layers on the GPU's engine, without a GPU. */
#include "cuda_products.h"
#include "linear_probe.c"
#include "test_linear.c"
