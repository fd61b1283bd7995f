/* json.c - numbers, texts and lines of JSON. */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *ts_json_number(double x) {
  if (!isfinite(x)) return json_null();
  return x == rint(x) && fabs(x) < 0x1p53 ? json_integer((json_int_t)x)
                                          : json_real(x);
}

void ts_json_numbers(json_t *object, int n, const char *const *names,
                     const double *values) {
  for (int i = 0; i < n; i++)
    if (isfinite(values[i]))
      json_object_set_new(object, names[i], ts_json_number(values[i]));
}

json_t *ts_json_text(const char *text) {
  json_t *json = json_string(text);
  char *ascii = json ? NULL : strdup(text);
  for (char *c = ascii; c && *c; c++)
    if ((unsigned char)*c > 127) *c = '?';
  if (ascii) json = json_string(ascii);
  free(ascii);
  return json;
}

ts_err ts_json_put(FILE *f, json_t *json, int digits) {
  if (!json) return ts_fail(TS_ERR_NOMEM, "out of memory for JSON");
  json_dumpf(json, f,
             JSON_COMPACT | JSON_ENCODE_ANY |
                 JSON_REAL_PRECISION((size_t)digits));
  json_decref(json);
  return TS_OK;
}
