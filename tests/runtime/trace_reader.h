/* trace_reader.h - what trace_check runs without arguments. */
#ifndef TS_TESTS_TRACE_READER_H
#define TS_TESTS_TRACE_READER_H

#include "tests/support/harness.h"

Suite *trace_reader_suite(void);

#endif
