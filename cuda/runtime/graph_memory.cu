/* graph_memory.cu - scratch of kernels whose launches are noted down.
 *
 * Memory in the order of a stream would become nodes of the graph, and an
 * executable with such nodes takes no new arguments.  So a graph's scratch is
 * memory of the lane that it begins on: given back it is lent again, within a
 * graph on the same stream only, whose order is kept, and from one graph to
 * the next on all, as they run one after the other.  The same sequence of
 * takes finds the same blocks. */
#include "cuda/runtime/graph.h"

typedef struct ts_block {
  char *at;
  size_t bytes;
  ts_lane *owner;      /* where its graphs begin */
  cudaStream_t stream; /* of the last use */
  uint64_t turn;       /* of the graph that used it last */
  ts_tag tag;
  bool used;
} ts_block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ts_block *block; /* (n) */
static int n;
static int n_used; /* read without the lock: 0 but for a graph's while */

static bool may(const ts_block *b, size_t bytes, const ts_lane *owner,
                cudaStream_t stream) {
  return !b->used && b->owner == owner && b->bytes >= bytes &&
         (b->turn != ts_cuda_graph_turn() || b->stream == stream);
}

/* The smallest that is large enough. */
static ts_block *find(size_t bytes, const ts_lane *owner, cudaStream_t stream) {
  ts_block *best = NULL;
  for (int i = 0; i < n; i++)
    if (may(&block[i], bytes, owner, stream) &&
        (!best || block[i].bytes < best->bytes))
      best = &block[i];
  return best;
}

/* An eighth more than is asked for: batches differ. */
static ts_err add(size_t bytes, ts_lane *owner, ts_tag tag, ts_block **out) {
  const size_t size = (bytes + bytes / 8 + 511) / 512 * 512;
  const size_t now = (size_t)n * sizeof *block;
  void *at = NULL;
  TS_DO(ts_mem_resize(&block, now, now + sizeof *block, TS_TAG_MISC));
  TS_DO(ts_cuda_alloc(owner->device, &at, size, TS_SPACE_DEVICE, tag));
  block[n] = {(char *)at, size, owner, NULL, 0, tag, false};
  *out = &block[n++];
  ts_graph_now()->counts.extra_bytes += (int64_t)size;
  return TS_OK;
}

bool ts_cuda_graph_take(void **p, size_t bytes, ts_tag tag, cudaStream_t stream,
                        ts_err *err) {
  ts_lane *owner = ts_cuda_graph_of(stream);
  *err = TS_OK;
  if (!owner) return false;
  pthread_mutex_lock(&lock);
  ts_block *b = find(bytes, owner, stream);
  if (!b) *err = add(bytes, owner, tag, &b);
  if (*err == TS_OK) {
    b->used = true;
    b->stream = stream;
    b->turn = ts_cuda_graph_turn();
    (void)__atomic_add_fetch(&n_used, 1, __ATOMIC_RELAXED);
    *p = b->at;
  }
  pthread_mutex_unlock(&lock);
  return true;
}

/* A graph that was cut may be over by now: what still reads the block on
 * another stream than that of the next graph would not be waited for. */
static void settle(const ts_block *b, cudaStream_t stream) {
  if (ts_cuda_graph_of(stream) || ts_cuda_stream(b->owner) == stream) return;
  (void)ts_cuda_ok(cudaStreamSynchronize(stream));
}

bool ts_cuda_graph_give(void *p, cudaStream_t stream) {
  bool found = false;
  if (!__atomic_load_n(&n_used, __ATOMIC_RELAXED)) return false;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < n && !found; i++) {
    if (block[i].at != p) continue;
    found = true;
    settle(&block[i], stream);
    block[i].used = false;
    (void)__atomic_sub_fetch(&n_used, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&lock);
  return found;
}

void ts_cuda_graph_give_all(ts_lane *owner) {
  int kept = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < n; i++) {
    const ts_block *b = &block[i];
    if (b->owner != owner) {
      block[kept++] = *b;
      continue;
    }
    ts_cuda_free(owner->device, b->at, b->bytes, TS_SPACE_DEVICE, b->tag);
  }
  n = kept;
  if (!n) {
    ts_mem_free(block);
    block = NULL;
  }
  pthread_mutex_unlock(&lock);
}
