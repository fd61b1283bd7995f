/* zoo.h - the graphs that come with the program: input/models/NAME.deck, of
 * base/kinds.h (TS_ZOO).  All of it is Local. */
#pragma once

/* The text of NAME's deck, NULL where there is none. */
const char *ts_zoo_find(const char *name);
/* The K-th name, NULL behind the last. */
const char *ts_zoo_name(int k);
