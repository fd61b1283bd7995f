/* json.h - what all writers of JSON share; Jansson does the rest.  All of it
 * is Local. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "base/err.h"

/* Whole numbers without a point, as people write them; what is not finite
 * becomes null, for which JSON has no number. */
json_t *ts_json_number(double x);
/* Members NAMES of OBJECT: those VALUES that are finite. */
void ts_json_numbers(json_t *object, int n, const char *const *names,
                     const double *values);
/* TEXT, with '?' in place of bytes that are no ASCII where it is no UTF-8. */
json_t *ts_json_text(const char *text);
/* One line without its end, numbers with so many DIGITS.  Frees JSON.  NOMEM
 * where JSON is NULL; what F can't take is F's error. */
ts_err ts_json_put(FILE *f, json_t *json, int digits);
