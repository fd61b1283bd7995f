/* word_list.c - words as they are met, and how often. */
#include "io/word_list.h"

#include <stdlib.h>
#include <string.h>

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

/* Each word travels with its NUL and how often it is there. */
ts_err ts_word_list_share(ts_word_list *l, ts_comm *comm) {
  ts_err err = TS_OK;
  const int w = ts_comm_size(comm);
  int64_t own = 0, bytes[w], total = 0, times;
  char *text = NULL, *all = NULL;
  ts_token token;
  ts_word_list_settle(l);
  for (int64_t i = 0; i < l->n; i++)
    own += (int64_t)(strlen(l->item[i].word) + 1 + sizeof times);
  TS_TRY(ts_agree(comm, ts_mem_alloc(&text, (size_t)own + 1, TS_TAG_INPUT)));
  char *to = text;
  for (int64_t i = 0; i < l->n; i++) {
    to = stpcpy(to, l->item[i].word) + 1;
    memcpy(to, &l->item[i].times, sizeof times);
    to += sizeof times;
  }
  TS_TRY(ts_comm_gather_all(comm, bytes, &own, sizeof own));
  for (int r = 0; r < w; r++) total += bytes[r];
  TS_TRY(ts_agree(comm, ts_mem_alloc(&all, (size_t)total + 1, TS_TAG_INPUT)));
  TS_TRY(ts_comm_all_gather_v(comm, &token, all, text, bytes, NULL));
  TS_TRY(ts_comm_wait(&token));
  ts_word_list_empty(l);
  for (const char *p = all; err == TS_OK && p < all + total;
       p += sizeof times) {
    const size_t n = strlen(p);
    memcpy(&times, p + n + 1, sizeof times);
    err = ts_word_list_add(l, p, n, times);
    p += n + 1;
  }
  err = ts_agree(comm, err);
done:
  ts_mem_free_all(text, all);
  return err;
}
