#!/bin/sh
# matrix.sh - graphs in combinations drawn at random: model, ranks, pipeline,
# strategy, micro-batches, precision, sharding, a restart on other ranks; each
# has the losses of one rank, pipeline base.  TESSERA_MATRIX="500 7": so many, of
# that seed.  seconds: 300  isa: all
. "$srcdir/tests/support/common.sh"
not_sanitized
set -- ${TESSERA_MATRIX:-20 1}
many=$1 seed=$2
steps=8
cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 11; steps = 8; threads = 1; log_every = 1; };
data = { format = "synthetic"; global_batch = 48; synthetic = { samples = 600; eval_samples = 48; pooling = [1, 3, 2, 1]; }; };
table_defaults = { dim = 8; wide = true; optimizer = { kind = "sgd"; lr = 0.05; }; };
tables = ( { name = "a"; rows = 50; features = ["fa"]; optimizer = { kind = "rowwise_adagrad"; lr = 0.05; }; },
           { name = "b"; rows = 300; features = ["fb", "fc"]; pooling = "mean"; optimizer = { kind = "adam"; lr = 0.01; }; },
           { name = "c"; rows = 1000; features = ["fd"]; } );
model = { kind = "nfm"; dense_features = 3; };
optimizer = { kind = "adam"; lr = 1e-2; };
sharding = { topology = "default"; };
DECK
# One line a case: model ranks pipeline parallel in_backward accumulate precision sharding lanes restart_ranks.
awk -v n="$many" -v seed="$seed" '
function one(list,  a, k) { k = split(list, a, " "); return a[1 + int(rand() * k)] }
BEGIN { srand(seed)
  for (i = 0; i < n; i++) {
    pipeline = one("base sparse_dist fused_sparse_dist semi_sync prefetch")
    print one("lr fm wide_deep deepfm_wide nfm xdeepfm dcnv2_moe autoint fibinet pnn masknet gdcn finalmlp mmoe ple esmm own dlrm dcnv2 deepfm sparsenn"), one("1 2 3 4"), pipeline,
      one("ddp fully_sharded"), one("true false"), pipeline == "semi_sync" ? 1 : one("1 1 3"), one("f32 f32 f32 bf16"),
      one("auto table_wise row_wise data_parallel"), one("parallel parallel serial"), one("0 0 1 2 4")
  } }' > "$work/cases"
own='model.layers=({name="waves";kind="periodic";in="dense";frequencies=4;dim=6;},{name="b";kind="mlp";in=["dense","waves"];units=[8];norm="layer";},{name="x";kind="dot";in=["b","fields"];},{name="n";kind="batch_norm";in="x";},{name="h";kind="mlp";in=["n","embeddings"];units=[16,8];activation="gelu";dropout=0.2;},{name="w";kind="wide";in="fields:wide";},{name="l";kind="linear";in="h";units=1;},{name="y";kind="add";in=["w","l"];})'
run() { # ranks folder model, options: the model's
  ranks=$1; folder=$2; model=$3; shift 3
  if [ "$model" = own ]; then set -- "$@" --set "$own"; else set -- "$@" --set model.kind="$model"; fi
  case $model in
  dlrm | dcnv2 | sparsenn) set -- "$@" --set model.dense_arch=[16,8] --set model.over_arch=[16,1] --set model.dcn.layers=2 --set model.dcn.rank=8 ;;
  deepfm) set -- "$@" --set model.over_arch=[1] --set model.deepfm.hidden=16 --set model.deepfm.fm_dim=8 ;;
  esac
  [ "$model" = lr ] && set -- "$@" --set table_defaults.wide=false --set table_defaults.group=wide --set table_defaults.dim=1
  [ "$model" = own ] || grep -qs fields:wide "$srcdir/input/models/$model.deck" || set -- "$@" --set table_defaults.wide=false
  train "$ranks" "$folder" "$@" < /dev/null
}
i=0
while read -r model ranks pipeline parallel in_backward accumulate precision sharding lanes again; do
  i=$((i + 1))
  line="$model $ranks $pipeline $parallel $in_backward $accumulate $precision $sharding $lanes $again"
  # batch_norm's statistics are the micro-batch's.
  [ "$model" = own ] && accumulate=1
  base=base; [ "$pipeline" = semi_sync ] && base=semi_sync
  reference=of-$model-$base
  [ -d "$work/$reference" ] || run 1 "$reference" "$model" --set pipeline.kind=$base || { echo "FAILED: $reference"; exit 1; }
  set -- --set pipeline.kind="$pipeline" --set dense.parallel="$parallel" --set optimizer.in_backward="$in_backward" --set run.accumulate="$accumulate" \
    --set run.precision="$precision" --set table_defaults.sharding="$sharding" --set run.lanes="$lanes"
  [ "$pipeline" = prefetch ] && set -- "$@" --set tables.c.kernel=cached --set tables.c.sharding=row_wise
  if [ "$again" != 0 ]; then
    run "$ranks" case "$model" "$@" --set run.steps=4 && run "$again" case "$model" "$@" --set run.steps=$steps
  else
    run "$ranks" case "$model" "$@" --set run.steps=$steps
  fi || { echo "FAILED: case $i of seed $seed: $line"; exit 1; }
  limit=1e-5; [ "$precision" = bf16 ] && limit=0.1
  check "case $i of seed $seed: $line" close_losses case "$reference" $limit $steps
  rm -rf "$work/case"
done < "$work/cases"
passed
