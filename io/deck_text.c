/* deck_text.c - texts of a deck: ${NAME}, {a..b}, paths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/deck_impl.h"

const char *ts_deck_raw(const config_setting_t *s) {
  const char *set = config_setting_get_hook(s);
  if (config_setting_type(s) == CONFIG_TYPE_STRING)
    return config_setting_get_string(s);
  return set && !config_setting_is_aggregate(s) ? strchr(set, '=') + 1 : NULL;
}

int ts_deck_range(const char *text, long *a, long *b, size_t *at,
                  size_t *n_bytes) {
  const char *open = strchr(text, '{');
  while (open && open > text && open[-1] == '$') open = strchr(open + 1, '{');
  if (!open) return 0;
  char *end;
  *a = strtol(open + 1, &end, 10);
  if (end == open + 1 || strncmp(end, "..", 2) != 0) return -1;
  const char *second = end + 2;
  *b = strtol(second, &end, 10);
  if (end == second || *end != '}' || *a < 0 || *b < *a || *b >= INT32_MAX)
    return -1;
  *at = (size_t)(open - text);
  *n_bytes = (size_t)(end + 1 - open);
  return 1;
}

/* One ${NAME} at P; returns its end. */
static const char *take_variable(ts_deck *d, const config_setting_t *s,
                                 const char *p, ts_str *out) {
  char name[128];
  const char *end = strchr(p, '}');
  if (!end || end - p - 2 >= (long)sizeof name) {
    ts_deck_error(d, s, "\"%.60s\": ${ without }", p);
    return p + strlen(p);
  }
  snprintf(name, sizeof name, "%.*s", (int)(end - p - 2), p + 2);
  const char *value = getenv(name);
  if (!value) ts_deck_error(d, s, "the environment has no variable %s", name);
  (void)ts_str_append(out, "%s", value ? value : "");
  return end + 1;
}

char *ts_deck_text(ts_deck *d, const config_setting_t *s, const char *raw) {
  ts_str out = {0};
  long a, b;
  size_t at, n;
  const int range = d->n_elements ? ts_deck_range(raw, &a, &b, &at, &n) : 0;
  if (range < 0) ts_deck_error(d, s, "\"%.80s\": {a..b} is broken", raw);
  if (range > 0 && b - a + 1 != d->n_elements)
    ts_deck_error(d, s, "\"%.80s\" counts %ld, the name counts %d", raw,
                  b - a + 1, d->n_elements);
  for (const char *p = raw; *p;) {
    if (range > 0 && p == raw + at) {
      (void)ts_str_append(&out, "%ld", a + d->element);
      p += n;
    } else if (p[0] == '$' && p[1] == '{') {
      p = take_variable(d, s, p, &out);
    } else {
      (void)ts_str_append_bytes(&out, p++, 1);
    }
  }
  (void)ts_str_append_bytes(&out, "", 0);
  return out.text;
}

char *ts_deck_absolute(ts_deck *d, char *path) {
  ts_str out = {0};
  if (!path || !*path || *path == '/') return path;
  (void)ts_str_append(&out, "%s/%s", d->config->deck_dir, path);
  ts_mem_free(path);
  return out.text;
}
