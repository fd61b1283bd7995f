# ids.sh - for tests of dynamic tables, after common.sh: their data, and what two
# runs have in common.
run() { of_run=$1; shift; ${MPIRUN:-mpirun} -q -n "$of_run" "$TESSERA" "$@"; }
# $work/data.h5: features fa, fb and fc, fd with weights.
ids_data() {
  cat > "$work/plain.deck" <<'DECK'
run = { steps = 1; threads = 1; };
data = { format = "synthetic"; global_batch = 64;
         synthetic = { samples = 3000; eval_samples = 300; zipf = 1.05; pooling = 5; }; };
table_defaults = { dim = 16; };
tables = ( { name = "a"; rows = 4000; features = ["fa"]; },
  { name = "b"; rows = 3000; features = ["fb", "fc"]; },
  { name = "c"; rows = 2000; features = ["fd"]; weighted = true; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [16, 16]; over_arch = [16, 1]; };
DECK
  run 1 generate "$work/plain.deck" --quiet --out "$work/data.h5"
}
# $work/met.deck: of these data, tables that admit and evict.
met_deck() {
  cat > "$work/met.deck" <<'DECK'
run = { steps = 40; log_every = 1; threads = 1; };
data = { train = "data.h5"; format = "dataset"; global_batch = 64; };
table_defaults = { dim = 16; rows = "dynamic"; admit = { min_count = 3; window_steps = 7; };
                   evict = { kind = "lfu"; every = 5; keep = 0.3; }; };
tables = ( { name = "a"; capacity = 1200; features = ["fa"]; dtype = "bf16"; },
  { name = "b"; capacity = 1600; features = ["fb", "fc"]; pooling = "mean";
    optimizer = { kind = "adam"; }; admit = { min_count = 2; window_steps = 0; }; },
  { name = "c"; capacity = 1000; features = ["fd"]; weighted = true;
    admit = { min_count = 2; window_steps = 4; sketch_mib = 0.5; }; evict = { kind = "none"; }; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [16, 16]; over_arch = [16, 1]; };
checkpoint = { every = 10; keep = 10; };
sharding = { topology = "default"; };
DECK
}
lines() { grep '"evict"' "$work/$1/metrics.jsonl"; }
same_lines() { lines "$1" > "$work/x"; lines "$2" > "$work/y"; [ -s "$work/x" ] && cmp -s "$work/x" "$work/y"; }
last=checkpoints/step-00000040.h5
emb=model/sparse_arch.embedding_bag_collection.embedding_bags
same_sets() { # A B datasets..., of both runs' last checkpoints
  one=$work/$1/$last; other=$work/$2/$last; shift 2
  for path; do h5diff "$one" "$other" "$path" "$path" > /dev/null || return 1; done
}
same_rows() { same_sets "$1" "$2" $emb.a.weight $emb.b.weight $emb.c.weight; }
same_ids() { # of both runs of met.deck, the ids and what is counted of others
  for table in a b c; do same_sets "$1" "$2" dynamic/$table/ids dynamic/$table/sights meta/dynamic/$table || return 1; done
  for table in a b; do same_sets "$1" "$2" dynamic/$table/seen dynamic/$table/last || return 1; done
}
# One for evict.py, or nothing.
python=
for p in /usr/bin/python3 python3; do
  [ -n "$python" ] || { $p -c 'import h5py, numpy' 2> /dev/null && python=$p; }
done
