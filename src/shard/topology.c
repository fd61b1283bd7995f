/* topology.c - a machine's figures as text, and the defaults. */
#include "shard/topology.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ts_field {
  const char *key, *unit, *help;
  size_t offset;
  double fallback;
} ts_field;

#define FIELD(key, unit, fallback, help)                                       \
  { #key, unit, help, offsetof(ts_topology, key), fallback }
#define LINK(reach, use, name, latency, rate)                                  \
  {name "_latency_us", "us", "",                                               \
   offsetof(ts_topology, link) +                                               \
       sizeof(ts_link) * (reach * TS_LINK_COUNT + use) +                       \
       offsetof(ts_link, latency_us),                                          \
   latency},                                                                   \
  {                                                                            \
    name "_gbytes_per_s", "GB/s", "",                                          \
        offsetof(ts_topology, link) +                                          \
            sizeof(ts_link) * (reach * TS_LINK_COUNT + use) +                  \
            offsetof(ts_link, gbytes_per_s),                                   \
        rate                                                                   \
  }

static const ts_field fields[] = {
    FIELD(read_gbytes_per_s, "GB/s", 4, "rows of tables beyond the caches"),
    FIELD(cache_gbytes_per_s, "GB/s", 20, "rows of tables within them"),
    FIELD(write_gbytes_per_s, "GB/s", 4, "rows updated, read plus written"),
    FIELD(stream_gbytes_per_s, "GB/s", 6, "arrays in order"),
    FIELD(cache_mib, "MiB", 8, "of the caches, per rank"),
    FIELD(lookup_ns, "ns", 5, "per id"),
    FIELD(bag_ns, "ns", 5, "per bag"),
    FIELD(update_ns, "ns", 25, "per id of a backward pass"),
    FIELD(pack_ns, "ns", 5, "per id of input dist"),
    FIELD(call_us, "us", 40, "per collective"),
    FIELD(dense_gflops, "GFLOP/s", 40, "dense layers, there and back"),
    FIELD(slow_gbytes_per_s, "GB/s", 2, "rows of slow memory, moved"),
    FIELD(disk_gbytes_per_s, "GB/s", 0.2, "rows of files, moved"),
    FIELD(memory_gib, "GiB", 16, "per rank"),
    LINK(TS_REACH_NODE, TS_LINK_ALL_TO_ALL, "node_all_to_all", 5, 4),
    LINK(TS_REACH_NODE, TS_LINK_REDUCE_SCATTER, "node_reduce_scatter", 5, 3),
    LINK(TS_REACH_NODE, TS_LINK_ALL_GATHER, "node_all_gather", 5, 4),
    LINK(TS_REACH_CROSS, TS_LINK_ALL_TO_ALL, "cross_all_to_all", 5, 1.5),
    LINK(TS_REACH_CROSS, TS_LINK_REDUCE_SCATTER, "cross_reduce_scatter", 5,
         1.5),
    LINK(TS_REACH_CROSS, TS_LINK_ALL_GATHER, "cross_all_gather", 5, 1.5),
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

int ts_topology_n_figures(void) {
  return N_FIELDS;
}

double *ts_topology_figure(ts_topology *t, int i) {
  return (double *)((char *)t + fields[i].offset);
}

void ts_topology_default(ts_topology *t) {
  *t = (ts_topology){0};
  for (int i = 0; i < N_FIELDS; i++)
    *ts_topology_figure(t, i) = fields[i].fallback;
}

ts_err ts_topology_print(ts_str *s, const ts_topology *t) {
  ts_topology copy = *t;
  TS_DO(ts_str_append(s, "# tessera topology 1: %d ranks, %d a node\n",
                      t->ranks, t->ranks_per_node));
  for (int i = 0; i < N_FIELDS; i++)
    TS_DO(ts_str_append(s, "%s = %.4g%s%s\n", fields[i].key,
                        *ts_topology_figure(&copy, i),
                        *fields[i].help ? " # " : "", fields[i].help));
  return TS_OK;
}

static int field_of(const char *key, size_t n) {
  for (int i = 0; i < N_FIELDS; i++)
    if (strlen(fields[i].key) == n && !strncmp(fields[i].key, key, n)) return i;
  return -1;
}

static ts_err take_line(ts_topology *t, const char *p, const char *end,
                        const char *name, int line) {
  char number[64];
  while (p < end && isspace((unsigned char)*p)) p++;
  if (p == end) return TS_OK;
  if (*p == '#') {
    sscanf(p, "# tessera topology 1: %d ranks, %d a node", &t->ranks,
           &t->ranks_per_node);
    return TS_OK;
  }
  const char *key = p;
  while (p < end && (isalnum((unsigned char)*p) || *p == '_')) p++;
  const int i = field_of(key, (size_t)(p - key));
  const char *stop = p;
  while (p < end && isspace((unsigned char)*p)) p++;
  /* Nothing is said of what may be no topology at all. */
  if (i < 0 && p < end && *p == '=')
    return ts_fail(TS_ERR_DECK, "%s:%d: no figure of a topology: %.*s", name,
                   line, (int)(stop - key), key);
  if (i < 0)
    return ts_fail(TS_ERR_DECK,
                   "%s:%d: this is no line of a topology: key = "
                   "number",
                   name, line);
  if (p < end && *p == '=') p++;
  snprintf(number, sizeof number, "%.*s", (int)(end - p), p);
  char *rest;
  const double x = strtod(number, &rest);
  while (isspace((unsigned char)*rest) || *rest == ';') rest++;
  if (rest == number || (*rest && *rest != '#') || !(x > 0) || !isfinite(x))
    return ts_fail(TS_ERR_DECK, "%s:%d: %s takes a number over 0 (%s)", name,
                   line, fields[i].key, fields[i].unit);
  *ts_topology_figure(t, i) = x;
  return TS_OK;
}

ts_err ts_topology_parse(ts_topology *t, const char *text, const char *name) {
  ts_topology_default(t);
  for (int line = 1; *text; line++) {
    const char *end = strchr(text, '\n');
    const char *stop = end ? end : text + strlen(text);
    TS_DO(take_line(t, text, stop, name, line));
    text = end ? end + 1 : stop;
  }
  return TS_OK;
}

ts_err ts_topology_read(ts_topology *t, const char *path) {
  ts_err err = TS_OK;
  ts_str text = {0};
  TS_TRY(ts_file_read_of_deck(&text, path, "topology"));
  TS_TRY(ts_topology_parse(t, text.text ? text.text : "", path));
done:
  ts_str_reset(&text);
  return err;
}
