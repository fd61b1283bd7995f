/* rows_ref.c - the lookup of rows in few bits for any CPU. */
#define TS_ROWS_LOOK_UP ts_rows_look_up_ref
#include "serve/rows_body.h"
