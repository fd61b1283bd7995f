/* main.c - main of test programs that have none of their own. */
#include "tests/support/harness.h"

int main(int argc, char **argv) {
  return ts_test_main(argc, argv);
}
