/* column_stats.h - which shards tell which others about their rows: what
 * column_links.c sets up and column_stats.c uses. */
#pragma once

#include "shard/ebc_batch.h"

/* Rows [from, to) of a whole table, in one of this rank's shards. */
typedef struct ts_column_rows {
  int32_t group, slot; /* the shard: group and its table */
  int64_t from, to;
  int64_t first, n; /* of this batch's distinct rows of the group */
} ts_column_rows;

/* Rows that one of this rank's shards has in common with a shard of other
 * columns. */
typedef struct ts_column_link {
  int32_t rows; /* of the own shard */
  int32_t rank; /* where the other one is */
  int32_t col0; /* of the sender */
  int32_t n_rounds, number;
  int64_t at; /* floats into what arrived in this round */
} ts_column_link;

/* A shard of this rank. */
typedef struct ts_own_columns {
  int32_t rows, col0, n_rounds;
} ts_own_columns;

typedef struct ts_column_stats {
  ts_column_link *send, *recv; /* by rank */
  int32_t n_send, n_recv;
  ts_own_columns *own;
  int32_t n_own;
  ts_column_rows *rows; /* each once, whoever needs it */
  int32_t n_rows;
  int64_t *keys, *found; /* (2 n_rows) their borders */
  int n_rounds;          /* of any table, on any rank */
  ts_buffer message;
  int64_t *message_bytes; /* (W) */
  ts_exchange exchange;
  ts_buffer sums; /* of one shard */
} ts_column_stats;
