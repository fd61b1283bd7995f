/* svg.h - what drawings share: a file, text, round steps of an axis, colours
 * and dashes that are told apart.  All of it is Local. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/* Creates PATH and writes the head of a drawing of WIDE x HIGH px. */
ts_err ts_svg_create(FILE **, const char *path, int wide, int high);
/* Writes the end, closes the file; IO where anything was not written. */
ts_err ts_svg_close(FILE *, const char *path);

/* TEXT with <, > and & escaped, control characters as ?. */
void ts_svg_text(FILE *, const char *text);

/* Told apart by most eyes, also beside each other; I counts round. */
const char *ts_svg_colour(int32_t i);
/* The i-th value of stroke-dasharray, for paper without colours: 0 is a whole
 * line. */
const char *ts_svg_dash(int32_t i);

/* The round step (1, 2 or 5 times a power of ten) that cuts SPAN > 0 into
 * LEAST steps or somewhat more, at most 2.5 LEAST. */
double ts_svg_step(double span, int least);
