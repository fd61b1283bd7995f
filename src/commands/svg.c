/* svg.c - what drawings share. */
#include "commands/svg.h"

#include <math.h>
#include <string.h>

/* A name that says another format would be believed. */
static ts_err check_name(const char *path) {
  const char *slash = strrchr(path, '/');
  const char *end = strrchr(slash ? slash : path, '.');
  if (!end || !strcmp(end, ".svg")) return TS_OK;
  return ts_fail(TS_ERR_USAGE,
                 "--out %s: drawings are SVG, which browsers show: give a name "
                 "that ends with .svg",
                 path);
}

ts_err ts_svg_create(FILE **out, const char *path, int wide, int high) {
  TS_DO(check_name(path));
  FILE *f = fopen(path, "w");
  *out = f;
  if (!f) return ts_fail_errno(TS_ERR_IO, path);
  fprintf(f,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
          "width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
          "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
          "fill=\"white\"/>\n",
          wide, high, wide, high);
  return TS_OK;
}

ts_err ts_svg_close(FILE *f, const char *path) {
  fputs("</svg>\n", f);
  const int bad = ferror(f);
  if (fclose(f) != 0 || bad) return ts_fail_errno(TS_ERR_IO, path);
  return TS_OK;
}

void ts_svg_text(FILE *f, const char *s) {
  for (; *s; s++) switch (*s) {
    case '<':
      fputs("&lt;", f);
      break;
    case '>':
      fputs("&gt;", f);
      break;
    case '&':
      fputs("&amp;", f);
      break;
    default:
      fputc((unsigned char)*s < ' ' ? '?' : *s, f);
    }
}

const char *ts_svg_colour(int32_t i) {
  static const char *const colours[] = {
      "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948",
      "#b07aa1", "#ff9da7", "#9c755f", "#86bcb6", "#d37295", "#a0cbe8",
      "#8cd17d", "#b6992d", "#499894", "#fabfd2", "#d4a6c8", "#79706e"};
  return colours[i % (int32_t)(sizeof colours / sizeof *colours)];
}

const char *ts_svg_dash(int32_t i) {
  static const char *const dashes[] = {"none",    "7 3",  "2 2",
                                       "9 3 2 3", "14 4", "6 2 2 2 2 2"};
  return dashes[i % (int32_t)(sizeof dashes / sizeof *dashes)];
}

double ts_svg_step(double span, int least) {
  const double most = span / least;
  const double ten = pow(10, floor(log10(most)));
  if (most >= 5 * ten) return 5 * ten;
  return most >= 2 * ten ? 2 * ten : ten;
}
