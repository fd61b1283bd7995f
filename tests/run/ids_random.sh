#!/bin/sh
# ids_random.sh - dynamic tables over runs of random pieces: policies, ranks,
# pipelines, parts of steps, deltas and their compaction, memory that grows, rows
# in slow memory and emulated GPUs are drawn, and where a piece stops or is
# killed; in the end the ids, their counts and ages, and the sights of others are
# those of a plain model that has trained in one go, and in every second case,
# whose pieces have the same ranks and the host, all rows are those of a run in
# one go; by scores, for which there is no such model, in these alone.
# 12 cases; TESSERA_CASES=N others, 1000 with TESSERA_SWEEP=long.  TESSERA_SEED
# draws them.  seconds: 200
. "$srcdir/tests/support/common.sh"
not_sanitized
needs_faults
. "$srcdir/tests/support/ids.sh"
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
[ -n "$python" ] || { echo "python3 with h5py and numpy is not here"; exit 77; }
n=12
[ "${TESSERA_SWEEP-}" = long ] && n=1000
n=${TESSERA_CASES:-$n}
seed=${TESSERA_SEED:-$$}
echo "$n cases, seed $seed"
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
[ -x "$emulated" ] && backends="host host emulated" || backends=host
steps=24 last=checkpoints/step-00000024.h5
cat > "$work/plain.deck" <<'DECK'
run = { steps = 1; threads = 1; };
data = { format = "synthetic"; global_batch = 64;
         synthetic = { samples = 1600; eval_samples = 64; zipf = 1.05; pooling = 5; }; };
table_defaults = { dim = 4; };
tables = ( { name = "a"; rows = 4000; features = ["fa"]; }, { name = "b"; rows = 3000; features = ["fb", "fc"]; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [8, 4]; over_arch = [4, 1]; };
DECK
cat > "$work/any.deck" <<'DECK'
run = { steps = 24; log_every = 8; threads = 1; };
data = { train = "data.h5"; format = "dataset"; global_batch = 64; };
table_defaults = { dim = 4; rows = "dynamic"; capacity = 3600; };
tables = ( { name = "a"; features = ["fa"]; }, { name = "b"; features = ["fb", "fc"]; } );
model = { kind = "dlrm"; dense_features = 4; dense_arch = [8, 4]; over_arch = [4, 1]; };
checkpoint = { keep = 2; };
sharding = { topology = "default"; };
DECK
check "data" run 1 generate "$work/plain.deck" --quiet --out "$work/data.h5"

# A line for each piece: case, ranks, KILL (rank:step, or none), ranks that
# compact what it left (0: none does), options of the piece; and of each case, last, the plain model's arguments.
awk -v seed="$seed" -v n="$n" -v steps=$steps -v backends="$backends" '
  function pick(n) { return int(rand() * n) }
  function one_of(list, words) { return words[1 + pick(split(list, words, " "))] }
  BEGIN { srand(seed)
    for (i = 1; i <= n; i++) {
      same = i % 2; kind = one_of(same ? "lru lfu ttl score" : "lru lfu ttl"); every = 1 + pick(7); keep = 5 + pick(20); ttl = kind == "ttl" ? 2 + pick(8) : 0
      least = one_of("1 2 2 3 4"); window = least > 1 && pick(3) ? 3 + pick(6) : 0
      deck = "--set table_defaults.evict.kind=" kind " --set table_defaults.evict.every=" every " --set table_defaults.evict.ttl=" ttl \
        " --set table_defaults.evict.keep=0." (keep < 10 ? "0" : "") keep " --set table_defaults.admit.min_count=" least " --set table_defaults.admit.window_steps=" window
      at = 0; all_ranks = 1 + pick(4); cut = "--set table_defaults.sharding=" one_of("row_wise row_wise table_wise"); parts = "--set run.accumulate=" (1 + (rand() < 0.3))
      for (pieces = pick(4); pieces >= 0; pieces--) {
        ranks = same ? all_ranks : 1 + pick(4); stop = steps; kill = "none"
        if (pieces > 0 && rand() < 0.5) kill = pick(ranks) ":" (1 + pick(steps))
        else if (pieces > 0) stop = at = at + pick(steps - at)
        print i, ranks, kill, kill != "none" && rand() < 0.7 ? 1 + pick(3) : 0, deck, "--set run.steps=" (stop > 0 ? stop : 1), "--set pipeline.kind=" one_of("base sparse_dist fused_sparse_dist prefetch"),
          "--set checkpoint.every=" (1 + pick(16)), "--set checkpoint.delta_every=" (rand() < 0.7 ? 1 + pick(3) : 0),
          "--set table_defaults.grow=" one_of("0 0 1.5 4"), rand() < 0.4 && (!same || cut ~ /row_wise/) ? "--set table_defaults.kernel=cached --set table_defaults.cache.load_factor=0.2" : "",
          "--set run.backend=" (same ? "host" : one_of(backends)),
          same ? parts : "--set run.accumulate=" (1 + (rand() < 0.3)), same ? cut : "--set table_defaults.sharding=" one_of("row_wise row_wise table_wise") }
      if (same) print i, "straight", all_ranks, 0, deck, cut, parts
      if (kind == "score") { print i, "end"; continue }
      print i, "model", kind, 0, every, keep * 36, ttl, least, window } }' > "$work/cases"
killed=0 compacted=0
while read -r case ranks kill by options <&3; do
  if [ "$ranks" = model ]; then
    file=$work/run$case/checkpoints/step-000000$steps.h5
    for t in "a fa" "b fb,fc"; do
      # shellcheck disable=SC2086
      set -- $options
      # shellcheck disable=SC2086
      check "case $case (seed $seed), $t: $kill $options" $python "$srcdir/tests/run/evict.py" "$work/data.h5" "$file" 64 $steps $t "$kill" "$1" "$2" "$3" "$4" "$5" 1
    done
    rm -r "$work/run$case"
    continue
  fi
  if [ "$ranks" = end ]; then
    rm -r "$work/run$case"
    continue
  fi
  if [ "$ranks" = straight ]; then
    # shellcheck disable=SC2086
    check "case $case (seed $seed): in one go" run "$kill" train "$work/any.deck" --quiet --set run.output="$work/straight" $options 3<&-
    check "case $case (seed $seed): the same rows as in one go" same_bits "$work/straight/$last" "$work/run$case/$last"
    rm -r "$work/straight"
    continue
  fi
  fault=none program=$TESSERA
  case $options in *backend=emulated*) program=$emulated ;; esac
  [ "$kill" = none ] || fault="crash:rank${kill%:*}:nth${kill#*:}:KILL"
  # shellcheck disable=SC2086
  TESSERA_FAULT=$fault ${MPIRUN:-mpirun} -q -n "$ranks" "$program" train "$work/any.deck" --quiet --set run.output="$work/run$case" $options > "$work/out" 2> "$work/err" 3<&-
  code=$?
  [ $code = 137 ] && killed=$((killed + 1))
  if [ "$by" -gt 0 ] && ls "$work/run$case"/checkpoints/*.h5 > /dev/null 2>&1; then
    check "case $case (seed $seed): compacted on $by ranks" sh -c '"$@" > "$0" 2>&1' "$work/out" ${MPIRUN:-mpirun} -q -n "$by" "$TESSERA" compact "$work/any.deck" --set run.output="$work/run$case" 3<&-
    grep -q 'are a full checkpoint now' "$work/out" && compacted=$((compacted + 1))
  fi
  [ $code = 0 ] || [ $code = 137 ] || { cat "$work/err"; check "case $case (seed $seed): $ranks ranks, $options: code $code" false; }
done 3< "$work/cases"
echo "$killed pieces were killed, $compacted deltas compacted"
check "some were" test $killed -gt 0
passed
