# common.sh - sourced by the scripts that train: a small deck with several
# optimizers, poolings and types, and comparisons of checkpoints.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n_checks=0
export OMP_NUM_THREADS=1

# For long scripts that compare figures: the programs beside them are what
# sanitizers watch.
not_sanitized() {
  [ -z "${TESSERA_SANITIZED:-}" ] && return
  echo "runs without sanitizers only: whole runs are compared, their parts are watched in the test programs"
  exit 77
}
# For what only programs with points of failure can show (base/fault.h).
has_faults() { "$TESSERA" version | grep -q 'faults  *built in'; }
needs_faults() {
  has_faults && return
  echo "needs faults on purpose: configure --enable-faults"
  exit 77
}
# Training in bf16 has all instructions of the CPU for it (tests/support/launch).
onednn_limit=${ONEDNN_MAX_CPU_ISA:-}
check() { # what, command...
  what=$1; shift
  n_checks=$((n_checks + 1))
  case "$*" in *precision=bf16*) unset ONEDNN_MAX_CPU_ISA ;; esac
  if ! "$@"; then echo "FAILED: $what"; exit 1; fi
  [ -z "$onednn_limit" ] || export ONEDNN_MAX_CPU_ISA="$onednn_limit"
}
# Until COMMAND holds, however long that takes: false where process PID ends first.
until_holds() { # PID command...
  process=$1; shift
  until "$@" 2> /dev/null; do kill -0 "$process" 2> /dev/null || { "$@" 2> /dev/null; return; }; sleep 0.1; done
}
saved() { [ -n "$(newest "$1")" ]; } # FOLDER: it has a checkpoint
# EXPRESSION holds for each row of TABLE in the JSON lines of $work/rows; rows of
# the table is all of them.
holds() { # TABLE EXPRESSION
  command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
  python3 - "$work/rows" "$@" <<'PY'
import json, sys
rows = [r for r in map(json.loads, open(sys.argv[1])) if r.get("table", "") == sys.argv[2]]
def near(x, y, share=1e-5):
    return abs(x - y) <= share * max(abs(x), abs(y))
def column(name):
    return [r[name] for r in rows]
assert rows
for r in rows:
    assert eval(sys.argv[3]), r
PY
}
# Products of oneDNN for AVX-512 give a row the same bits whatever rows are beside
# it; those for less differ in the last one.
exact_rows() {
  case ${ONEDNN_MAX_CPU_ISA:-} in SSE41 | AVX | AVX2*) return 1 ;; esac
  "$TESSERA" version | grep -q 'CPU .*AVX-512'
}
same_predictions() { # FILE FILE of text: the same bytes; near where rows are not exact
  cmp "$1" "$2" && return
  exact_rows && return 1
  paste -d , "$1" "$2" | awk -F , '{ for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if ($i != $(i + NF / 2) && (d == 0 || d > 2e-6 || d < -2e-6)) exit 1 } }'
}
item_figures() { # FILE: what an evaluation there says of items: hit rate, NDCG, MRR, recall
  sed -n 's/^evaluation.*hit rate \([0-9.]*\)  NDCG \([0-9.]*\)  MRR \([0-9.]*\)  recall at k \([0-9.]*\).*/\1 \2 \3 \4/p' "$1"
}
close_item_figures() { # FILE FILE: such figures are equal to the last digit told
  paste "$1" "$2" | awk '{ for (i = 1; i <= 4; i++) { d = $i - $(i + 4); if (d < 0) d = -d; if (d > 2e-4) bad = 1 } } END { if (bad || NR != 1) { print; exit 1 } }'
}
passed() { echo "100%: Checks: $n_checks, Failures: 0, Errors: 0"; }

cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 11; steps = 40; threads = 1; log_every = 1; };
data = { format = "synthetic"; global_batch = 96;
         synthetic = { samples = 1000; eval_samples = 300; pooling = [1, 3, 2, 1, 4, 1]; }; };
tables = ( { name = "a"; rows = 50; dim = 16; features = ["fa"]; optimizer = { kind = "rowwise_adagrad"; lr = 0.05; }; },
           { name = "b"; rows = 300; dim = 16; features = ["fb", "fc"]; pooling = "mean"; optimizer = { kind = "adam"; lr = 0.01; }; },
           { name = "c"; rows = 1000; dim = 16; features = ["fd"]; dtype = "bf16"; optimizer = { kind = "sgd"; lr = 0.1; }; },
           { name = "d"; rows = 77; dim = 16; features = ["fe"]; dtype = "f16"; optimizer = { kind = "adagrad"; lr = 0.05; }; },
           { name = "e"; rows = 5; dim = 16; features = ["ff"]; weighted = true; optimizer = { kind = "lamb"; lr = 0.01; }; } );
model = { kind = "dlrm"; dense_features = 3; dense_arch = [32, 16]; over_arch = [32, 16, 1]; };
optimizer = { kind = "adam"; lr = 1e-2; };
sharding = { topology = "default"; };
DECK

# train RANKS FOLDER [options]: the small deck into $work/FOLDER.
train() {
  ranks=$1; folder=$2; shift 2
  ${MPIRUN:-mpirun} -q -n "$ranks" "$TESSERA" train "$work/small.deck" --quiet --set run.output="$work/$folder" "$@"
}
newest() { ls "$work/$1"/checkpoints/step-*.h5 2>/dev/null | tail -n 1; }
# Weights and optimizer state, bit for bit.
same_bits() { # checkpoint, checkpoint
  h5diff -q "$1" "$2" /model /model && h5diff -q "$1" "$2" /optim /optim
}
losses() { sed -n 's/.*"loss":\([^,}]*\).*/\1/p' "$work/$1/metrics.jsonl"; }
# Relative difference of two runs' losses stays under a limit, N lines each.
close_losses() { # run, run, limit, lines
  losses "$1" | head -n "$4" > "$work/x"; losses "$2" | head -n "$4" > "$work/y"
  [ "$(wc -l < "$work/x")" = "$4" ] && paste "$work/x" "$work/y" | awk -v limit="$3" '
    { d = $1 - $2; if (d < 0) d = -d; if (d > limit * $1) { print "line " NR ": " $0; bad = 1 } }
    END { exit bad }'
}
