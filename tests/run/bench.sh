#!/bin/sh
# bench.sh - what benchmarks count, whatever the times are: rows, hits, bytes;
# and that rates and shares are those of the times beside them.  seconds: 120
. "$srcdir/tests/support/common.sh"
bench() { "$TESSERA" bench "$@" threads=1 --json > "$work/rows"; }

check "cache" bench cache tables=2 rows=1000 dim=8 batch=32 pool=3 iters=8 load=0.2 zipf=1
check "its policies" holds loads 'column("policy") == ["(twin)", "lru", "lfu"] * 2 and column("zipf") == [0] * 3 + [1] * 3'
check "its shares of hits" holds loads 'column("hits_percent") == [None, 21.1065574, 21.3797814, None, 54.8295455, 60.1325758]'
check "its misses" holds loads 'column("misses") == [None, 144.375, 143.875, None, 59.625, 52.625]'
check "its conflicts" holds loads 'column("conflicts") == [None, 4.125, 4.125, None, 0, 0]'
check "shares of the twin's steps" holds loads 'r["policy"] == "(twin)" or near(r["of_twin_percent"], 100 * r["step_ms"] / rows[3 * (r["zipf"] > 0)]["step_ms"])'
check "exposed within steps" holds loads 'r["policy"] == "(twin)" or 0 <= r["exposed_ms"] < r["step_ms"] and 0 < r["fetch_ms"] < 1e3'
check "passes" holds passes 'column("passes") == [1, 2, 4, 8, 12]'
check "their misses" holds passes 'column("misses") == [59.625, 59.625, 59.625, 59.75, 59.25]'
check "their scratch" holds passes 'r["scratch_bytes"] == 4608 // r["passes"]'
check "of the ids' bytes 6 by passes" holds passes 'near(r["of_ids"], 6 / r["passes"])'
check "bytes moved" holds passes 'near(r["gb_per_s"] * r["fetch_ms"] * 1e6, [3816, 3816, 3816, 3824, 3792][rows.index(r)])'

check "tbe" bench tbe tables=2 rows=300 dim=6 batch=64 pool=3 iters=4 zipf=1
check "its case" holds case '[r["tables"], r["rows"], r["dim"], r["batch"], r["pooling"]] == [2, 300, 6, 64, 3]'
check "its ids" holds kernels 'column("ids") == ["uniform", "zipf"] * (len(rows) // 2)'
check "rates of the lookup" holds kernels 'near(r["forward_gb_per_s"] * r["forward_ms"], 9.216e-3) and near(r["plain_gb_per_s"] * r["plain_ms"], 9.216e-3)'
check "shares of a plain lookup" holds kernels 'near(r["of_plain_percent"], 100 * r["plain_ms"] / r["forward_ms"])'
check "shares of a plain update" holds kernels 'near(r["of_rewrite_percent"], 100 * r["rewrite_ms"] / (r["backward_ms"] - r["sort_ms"]), 1e-3)'
check "shares of a bare lookup" holds kernels 'near(r["of_pool_percent"], 100 * r["pool_ms"] / r["forward_ms"])'
check "backward by forward" holds kernels 'near(r["backward_of_forward"], r["backward_ms"] / r["forward_ms"])'
check "memory" holds memory 'near(r["bytes"], {"output and gradient": 6144, "input": 12832, "lookup and backward": 19875, "beyond the tables": 53663}[r["of"]], 1e-3 if r["of"] == "beyond the tables" else 1e-5)'
check "by the output" holds memory 'near(r["of_output"], r["bytes"] / 3072)'

check "tables of any id" bench tbe tables=2 rows=300 dim=6 batch=64 pool=30 iters=4 zipf=1 dynamic=1 load=0.5
check "their ids and load" holds dynamic 'column("ids") == ["uniform", "zipf"] and column("load") == [.5, .5]'
check "shares of the plain lookup" holds dynamic 'near(r["lookup_of_plain"], (r["place_ms"] + r["forward_ms"]) / r["plain_forward_ms"]) and r["find_ms"] > 0'
check "and backward" holds dynamic 'near(r["backward_of_plain"], r["backward_ms"] / r["plain_backward_ms"])'

check "rows in few bits" bench rows rows=2000 dim=10 batch=30 pool=4 iters=3 weighted=1 zipf=1 pages=small
check "their bytes" holds rows 'column("rows") == ["f32", "bf16", "int8", "int4"] and column("row_bytes") == [40, 20, 20, 16]'
check "their rates" holds rows 'near(r["of_f32"], r["million_rows_per_s"] / rows[0]["million_rows_per_s"]) and near(r["of_plain_percent"], 100 * r["million_rows_per_s"] / r["plain_million_per_s"])'
check "their lines" holds rows 'near(r["lines_gb_per_s"], 64e-3 * r["million_rows_per_s"]) and near(r["of_stream_percent"], 100 * r["lines_gb_per_s"] / r["stream_gb_per_s"])'

check "attention" bench attention dim=5 tokens=400 iters=1 heads=2 kind=silu causal=0 length=0
check "its lengths" holds attention 'column("length") == [50, 200, 1024, 8192] and column("sequences") == [8, 2, 1, 1]'
check "shares of products" holds attention 'all(near(r[way + "_percent"], 100 * r[way + "_gflops"] / r[way + "_products_gflops"]) for way in ["forward", "backward"])'
check "attention with times" bench attention dim=5 tokens=400 iters=1 heads=2 kind=silu times=1 length=50
check "its length" holds attention 'column("length") == [50]'

mkdir "$work/bench"
check "checkpoint" "$TESSERA" bench checkpoint mb=3 "dir=$work/bench" io=pwrite --json --out "$work/rows"
check "its rates" holds rates 'column("way") == ["write", "read"] and near(r["of_plain_percent"], 100 * r["checkpoint_gb_per_s"] / r["plain_gb_per_s"])'
check "beside steps" holds save 'near(r["beside_percent"], 100 * r["beside_ms"] / r["save_ms"])'
check "when it is there" holds save 'r["done_ms"] >= r["beside_ms"]'
check "bytes" test "$(python3 -c 'import json, sys
r = [json.loads(line) for line in open(sys.argv[1])]
print(round(r[0]["checkpoint_gb_per_s"] * r[2]["save_ms"], 4))' "$work/rows")" = 3.0001
passed
