// bench_index.cc - finds and inserts a second of the index of ids, beside
// Abseil's hash table, whose finds are prefetched as well: at loads of the
// index of .5, .75 and .85, of about 1e6 and 2e7 ids; any id alike, and some
// far more often than others.  `make tests/sparse/bench_index`; half a minute.
#include <absl/container/flat_hash_map.h>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

extern "C" {
#include "sparse/index.h"
}

namespace {

using Map = absl::flat_hash_map<int64_t, uint32_t>;
using Ids = std::vector<int64_t>;

constexpr int64_t kBatch = 1 << 16, kFinds = 1 << 22;

double Now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

int64_t IdOf(int64_t k) {
  return int64_t(ts_mix64(uint64_t(k) ^ 0x1234567800000000));
}

// The K-th id is asked for as often as 1 / K, or as any other.
Ids Asked(int64_t n, bool skewed) {
  Ids ids(kFinds);
  for (int64_t i = 0; i < kFinds; i++) {
    const double u = double(ts_mix64(uint64_t(i) + 77) >> 11) * 0x1p-53;
    ids[i] = IdOf(int64_t(skewed ? std::pow(double(n), u) - 1 : u * double(n)));
  }
  return ids;
}

// Best of two, in millions a second, of N_THREADS that each make all finds.
template <class Find> double Rate(int n_threads, const Ids &ids, Find find) {
  double best = 1e9;
  for (int again = 0; again < 2; again++) {
    const double start = Now();
    std::vector<std::thread> threads;
    for (int t = 0; t < n_threads; t++)
      threads.emplace_back([&] {
        std::vector<uint32_t> row(kBatch);
        for (int64_t at = 0; at < kFinds; at += kBatch)
          find(row.data(), &ids[at], kBatch);
      });
    for (auto &t : threads) t.join();
    best = std::min(best, Now() - start);
  }
  return n_threads * kFinds / best / 1e6;
}

template <class Find>
void Finds(const char *what, const Ids &any, const Ids &skewed, Find find) {
  std::printf("  %-16s finds %6.1f any, %6.1f skewed; 2 threads %6.1f, %6.1f\n",
              what, Rate(1, any, find), Rate(1, skewed, find),
              Rate(2, any, find), Rate(2, skewed, find));
}

void Check(ts_err err) {
  if (err != TS_OK) std::abort();
}

void Ours(int64_t n, int64_t n_rows, const Ids &any, const Ids &skewed) {
  ts_index *x;
  Ids ids(kBatch), fresh(kBatch);
  std::vector<uint32_t> row(kBatch);
  int64_t n_fresh, sum, most;
  Check(ts_index_create(&x, 0, n_rows));
  double spent = 0;
  for (int64_t at = 0; at < n; at += kBatch) {
    const int64_t here = std::min(kBatch, n - at);
    for (int64_t i = 0; i < here; i++) ids[i] = IdOf(at + i);
    spent -= Now();
    Check(ts_index_insert(x, row.data(), ids.data(), here, fresh.data(),
                          &n_fresh));
    spent += Now();
  }
  ts_index_probes(x, any.data(), kFinds, &sum, &most);
  std::printf("%lld ids: %.1f bytes an id, %.2f steps, at most %lld\n",
              (long long)n, double(ts_index_bytes(x)) / double(n),
              double(sum) / kFinds, (long long)most);
  std::printf("  %-16s inserts %.1f\n", "index", double(n) / spent / 1e6);
  Finds("index", any, skewed, [x](uint32_t *r, const int64_t *i, int64_t k) {
    ts_index_find(x, r, i, k);
  });
  Ids all(n);
  std::vector<uint32_t> of(n);
  const double start = Now();
  Check(ts_index_list(x, all.data(), of.data()));
  std::printf("  %-16s lists %.1f\n", "index",
              double(n) / (Now() - start) / 1e6);
  ts_index_destroy(x);
}

void Theirs(int64_t n, const Ids &any, const Ids &skewed) {
  Map map;
  const double start = Now();
  for (int64_t k = 0; k < n; k++) map.try_emplace(IdOf(k), uint32_t(k));
  std::printf("  %-16s inserts %.1f\n", "Abseil",
              double(n) / (Now() - start) / 1e6);
  Finds("Abseil", any, skewed, [&](uint32_t *r, const int64_t *ids, int64_t m) {
    for (int64_t i = 0; i < m; i++) {
      const auto at = map.find(ids[i]);
      r[i] = at == map.end() ? TS_INDEX_NONE : at->second;
    }
  });
  Finds("Abseil, ahead", any, skewed,
        [&](uint32_t *r, const int64_t *ids, int64_t m) {
          for (int64_t i = 0; i < m; i++) {
            if (i + 16 < m) map.prefetch(ids[i + 16]);
            const auto at = map.find(ids[i]);
            r[i] = at == map.end() ? TS_INDEX_NONE : at->second;
          }
        });
}

} // namespace

// A load of .85 is that of all rows in use; the others are on the way to more.
int main() {
  std::printf("in millions a second\n");
  for (const int64_t slots : {12 << 17, 12 << 21})
    for (const double load : {.5, .75, .85}) {
      const int64_t n = int64_t(double(slots) * load);
      const Ids any = Asked(n, false), skewed = Asked(n, true);
      Ours(n, load < .85 ? 4000000000 : n, any, skewed);
      Theirs(n, any, skewed);
    }
}
