/* word_list.c - words as they are met, and how often. */
#include "io/word_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

static int by_word(const void *a, const void *b) {
  return strcmp(((const ts_met *)a)->word, ((const ts_met *)b)->word);
}

void ts_word_list_settle(ts_word_list *l) {
  int64_t n = 0;
  if (l->n) qsort(l->item, (size_t)l->n, sizeof *l->item, by_word);
  for (int64_t i = 0; i < l->n; i++) {
    if (n && !strcmp(l->item[n - 1].word, l->item[i].word)) {
      l->item[n - 1].times += l->item[i].times;
      ts_mem_free(l->item[i].word);
    } else {
      l->item[n++] = l->item[i];
    }
  }
  l->n = n;
}

ts_err ts_word_list_add(ts_word_list *l, const char *text, size_t n_bytes,
                        int64_t times) {
  if (l->n == l->capacity) {
    ts_word_list_settle(l);
    if (2 * l->n > l->capacity || !l->capacity) {
      const int64_t more = l->capacity ? 2 * l->capacity : 4096;
      TS_DO(ts_mem_extend(&l->item, l->n, more, sizeof *l->item, TS_TAG_INPUT));
      l->capacity = more;
    }
  }
  ts_met *x = &l->item[l->n];
  TS_DO(ts_mem_alloc(&x->word, n_bytes + 1, TS_TAG_INPUT));
  memcpy(x->word, text, n_bytes);
  x->times = times;
  l->n++;
  return TS_OK;
}

void ts_word_list_empty(ts_word_list *l) {
  for (int64_t i = 0; i < l->n; i++) ts_mem_free(l->item[i].word);
  ts_mem_free(l->item);
  *l = (ts_word_list){0};
}

/* A word travels with its NUL and how often it is there. */
static int64_t bytes_of(const ts_met *x) {
  return (int64_t)(strlen(x->word) + 1 + sizeof x->times);
}

static char *put(char *to, const ts_met *x) {
  to = stpcpy(to, x->word) + 1;
  memcpy(to, &x->times, sizeof x->times);
  return to + sizeof x->times;
}

/* The words of TEXT in the place of L's. */
static ts_err take(ts_word_list *l, const char *text, int64_t bytes) {
  int64_t times;
  ts_word_list_empty(l);
  for (const char *p = text; p < text + bytes; p += sizeof times) {
    const size_t n = strlen(p);
    memcpy(&times, p + n + 1, sizeof times);
    TS_DO(ts_word_list_add(l, p, n, times));
    p += n + 1;
  }
  return TS_OK;
}

static int owner(const ts_met *x, int n_ranks) {
  const uint64_t hash = ts_fnv1a(TS_FNV_START, x->word, strlen(x->word));
  return (int)(ts_mix64(hash) % (uint64_t)n_ranks);
}

/* TEXT (SEND bytes for each rank): the words of L, which is empty then, by
 * their owners. */
static ts_err pack(char **text, int64_t *send, ts_word_list *l, int n_ranks) {
  char *to[n_ranks];
  int64_t all = 0;
  memset(send, 0, (size_t)n_ranks * sizeof *send);
  for (int64_t i = 0; i < l->n; i++)
    send[owner(&l->item[i], n_ranks)] += bytes_of(&l->item[i]);
  for (int r = 0; r < n_ranks; r++) all += send[r];
  TS_DO(ts_mem_alloc(text, (size_t)all + 1, TS_TAG_INPUT));
  for (int r = 0; r < n_ranks; r++) to[r] = r ? to[r - 1] + send[r - 1] : *text;
  for (int64_t i = 0; i < l->n; i++) {
    const int r = owner(&l->item[i], n_ranks);
    to[r] = put(to[r], &l->item[i]);
  }
  ts_word_list_empty(l);
  return TS_OK;
}

/* Each word goes to one rank, which adds up how often all have it: what all
 * ranks hold together is never more than a few times the different words. */
static ts_err merge(ts_word_list *l, ts_comm *comm) {
  ts_err err = TS_OK;
  const int w = ts_comm_size(comm);
  int64_t send[w], recv[w], number[w], all = 0;
  char *text = NULL, *come = NULL;
  ts_token token;
  ts_word_list_settle(l);
  if (w == 1) return TS_OK;
  TS_TRY(ts_agree(comm, pack(&text, send, l, w)));
  for (int r = 0; r < w; r++) number[r] = sizeof *send;
  TS_TRY(ts_comm_all_to_all_v(comm, &token, recv, number, send, number, NULL));
  TS_TRY(ts_comm_wait(&token));
  for (int r = 0; r < w; r++) all += recv[r];
  TS_TRY(ts_agree(comm, ts_mem_alloc(&come, (size_t)all + 1, TS_TAG_INPUT)));
  TS_TRY(ts_comm_all_to_all_v(comm, &token, come, recv, text, send, NULL));
  TS_TRY(ts_comm_wait(&token));
  ts_mem_free(text);
  text = NULL;
  TS_TRY(ts_agree(comm, take(l, come, all)));
  ts_word_list_settle(l);
done:
  ts_mem_free_all(text, come);
  return err;
}

static void drop_rare(ts_word_list *l, int64_t least) {
  int64_t n = 0;
  for (int64_t i = 0; i < l->n; i++)
    if (l->item[i].times < least)
      ts_mem_free(l->item[i].word);
    else
      l->item[n++] = l->item[i];
  l->n = n;
}

ts_err ts_word_list_share(ts_word_list *l, int64_t least, ts_comm *comm) {
  ts_err err = TS_OK;
  const int w = ts_comm_size(comm);
  int64_t own = 0, bytes[w], total = 0;
  char *text = NULL, *all = NULL;
  ts_token token;
  TS_TRY(merge(l, comm));
  drop_rare(l, least);
  for (int64_t i = 0; i < l->n; i++) own += bytes_of(&l->item[i]);
  TS_TRY(ts_agree(comm, ts_mem_alloc(&text, (size_t)own + 1, TS_TAG_INPUT)));
  char *to = text;
  for (int64_t i = 0; i < l->n; i++) to = put(to, &l->item[i]);
  ts_word_list_empty(l);
  TS_TRY(ts_comm_gather_all(comm, bytes, &own, sizeof own));
  for (int r = 0; r < w; r++) total += bytes[r];
  TS_TRY(ts_agree(comm, ts_mem_alloc(&all, (size_t)total + 1, TS_TAG_INPUT)));
  TS_TRY(ts_comm_all_gather_v(comm, &token, all, text, bytes, NULL));
  TS_TRY(ts_comm_wait(&token));
  TS_TRY(ts_agree(comm, take(l, all, total)));
done:
  ts_mem_free_all(text, all);
  return err;
}
