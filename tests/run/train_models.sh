#!/bin/sh
# train_models.sh - every model trains: the same on any number of ranks and
# after a restart, its parameters under their names, and bf16 close to f32.
# seconds: 300  isa: all
. "$srcdir/tests/support/common.sh"
not_sanitized
model() { # kind: its options
  case $1 in
  dcnv2) echo '--set model.dcn={layers=2;rank=24;}' ;;
  deepfm) echo '--set model.dense_arch=[] --set model.over_arch=[1] --set model.deepfm={hidden=12;fm_dim=9;}' ;;
  field) echo '--set model.kind=deepfm --set model.dense_arch=[] --set model.over_arch=[1] --set model.deepfm={fm="field";}' ;;
  sparsenn) echo '--set model.dense_arch=[32,7]' ;;
  esac
}
has() { # run, parameters: all that there are
  h5ls "$(newest "$1")/model" | sed 's/ .*//' | grep -v embedding_bags | sort > "$work/names"
  printf '%s\n' $2 | sort | diff "$work/names" - || return 1
}
mlp='dense_arch.model._mlp.0._linear.bias dense_arch.model._mlp.0._linear.weight dense_arch.model._mlp.1._linear.bias dense_arch.model._mlp.1._linear.weight
over_arch.model.0._mlp.0._linear.bias over_arch.model.0._mlp.0._linear.weight over_arch.model.0._mlp.1._linear.bias over_arch.model.0._mlp.1._linear.weight over_arch.model.1.bias over_arch.model.1.weight'
x=inter_arch.crossnet
for kind in dcnv2 deepfm field sparsenn; do
  set -- --set model.kind="$kind" $(model $kind) --set run.steps=20
  for ranks in 1 2; do train $ranks "$kind$ranks" "$@" || exit 1; done
  check "$kind: two ranks as one" close_losses ${kind}1 ${kind}2 1e-5 20
  train 2 "$kind" "$@" --set run.steps=10 && train 2 "$kind" "$@" || exit 1
  check "$kind: restart" same_bits "$(newest $kind)" "$(newest ${kind}2)"
  [ $kind = field ] && continue
  if "$TESSERA" version | grep -q oneDNN; then
    train 2 "$kind-half" "$@" --set run.precision=bf16 || exit 1
    check "$kind: bf16" close_losses $kind-half ${kind}2 0.02 20
  fi
done
check "names of dcnv2" has dcnv2 "$mlp $x.V_kernels.0 $x.W_kernels.0 $x.bias.0 $x.V_kernels.1 $x.W_kernels.1 $x.bias.1"
check "names of deepfm" has deepfm 'dense_arch.model.0.bias dense_arch.model.0.weight dense_arch.model.2.bias dense_arch.model.2.weight
  inter_arch.deep_fm.dense_module.0.bias inter_arch.deep_fm.dense_module.0.weight over_arch.model.0.bias over_arch.model.0.weight'
check "names of sparsenn" has sparsenn "$mlp"
tables() { h5ls "$(newest "$1")/model" | sed -n 's/\.embedding_bags.*//p' | sort | uniq -c | tr -s ' ' | tr '\n' ';'; }
check "one collection" test "$(tables dcnv2)" = " 5 sparse_arch.embedding_bag_collection;"
check "two collections" test "$(tables sparsenn)" = " 4 sparse_arch.embedding_bag_collection; 1 sparse_arch.weighted_embedding_bag_collection;"

# The whole MLPerf model fits 64 ranks, and its step is one of a second, not
# of a minute.
"$TESSERA" plan "$srcdir/input/mlperf_dlrm_dcnv2.deck" --world 64 --ranks-per-node 8 --set sharding.topology="$srcdir/input/topology_example" > "$work/plan" || exit 1
check "plan of mlperf_dlrm_dcnv2" awk '
  /^predicted step/ { ms = $3 }
  /^predicted memory of the fullest/ { sub(/.*: /, ""); mib = $1 }
  END { exit !(ms > 200 && ms < 3000 && mib > 3000 && mib < 16000) }' "$work/plan"
# So do HSTU's, with fewer samples: its plan is about as large as its tables.
for of in "64 4096 110000" "8 256 101000"; do
  set -- $of
  "$TESSERA" plan "$srcdir/input/mlperf_hstu.deck" --world $1 --ranks-per-node 8 --set data.global_batch=$2 --set sharding.topology="$srcdir/input/topology_h200" > "$work/plan" || exit 1
  check "plan of mlperf_hstu, $1 ranks" awk -v at="$3" '
    /^predicted memory of the fullest/ { sub(/.*: /, ""); mib = $1 }
    END { exit !(mib > 0.8 * at && mib < 1.1 * at) }' "$work/plan"
done
# Neither its initial values nor its results depend on the ranks.
hstu() { # RANKS FOLDER OPTIONS
  n=$1; folder=$2; shift 2
  ${MPIRUN:-mpirun} -q -n $n "$TESSERA" train "$srcdir/input/mlperf_hstu_small.deck" --quiet --set run.output="$work/$folder" --set run.log_every=1 \
    --set sharding.topology=default --set data.global_batch=64 --set data.synthetic.eval_samples=64 "$@"
}
hstu 1 hstu1 --set run.steps=6 && hstu 2 hstu2 --set run.steps=6 || exit 1
check "mlperf_hstu_small: two ranks as one" close_losses hstu1 hstu2 1e-5 6
hstu 2 hstu --set run.steps=3 && hstu 2 hstu --set run.steps=6 || exit 1
# Days one after another, as the large deck's first lines have it.
for day in 0 1 2; do
  "$TESSERA" generate "$srcdir/input/mlperf_hstu_small.deck" --quiet --set data.synthetic.samples=192 --set data.synthetic.seed=$day --out "$work/day_$day.h5" || exit 1
done
days="--set data.format=dataset --set data.train=$work/day_[01].h5 --set data.eval=$work/day_2.h5"
hstu 2 days $days --set data.max_tokens=2080
check "mlperf_hstu_small: days" test "$(losses days | wc -l)" = 6
hstu 1 day $days --set data.train="$work/day_0.h5" --set data.max_tokens=4160
check "mlperf_hstu_small: the first one first" close_losses days day 1e-5 3
check "mlperf_hstu_small: it goes on" test "$(grep -c '"step":1,' "$work/hstu/metrics.jsonl")" = 1
check "mlperf_hstu_small: restart" same_bits "$(newest hstu)" "$(newest hstu2)"
passed
