#!/bin/sh
# fully_sharded.sh - whole runs with dense.parallel = "fully_sharded" beside
# ddp's: the same bits on as many ranks, checkpoints that go on under the other
# strategy and on other numbers of ranks, evaluation, traces.  seconds: 500
. "$srcdir/tests/support/common.sh"
not_sanitized
command -v h5diff > /dev/null || { echo "h5diff (hdf5-tools) is not here"; exit 77; }
fs="--set dense.parallel=fully_sharded"
lists="--set dense.forward_prefetch=({layer=\"dense_arch.0\";prefetch=[\"dense_arch.1\",\"over_arch.0\"];}) --set dense.backward_prefetch=({layer=\"over_arch.2\";prefetch=[\"over_arch.1\",\"over_arch.0\"];},{layer=\"over_arch.0\";prefetch=[];})"
groups="--set dense.groups=({layers=[\"dense_arch.*\"];},{layers=[\"over_arch.1\",\"over_arch.2\"];})"

# One rank, ddp and fully_sharded: 1e-6 over 10 steps.  On as many ranks: bits.
check "one rank" train 1 ddp1
for n in 1 2 3 4; do
  [ $n = 1 ] || check "ddp on $n" train $n ddp$n
  case $n in
  1) also="--set dense.reshard_after_forward=false" ;;
  2) also="$lists" ;;
  3) also="$groups --set run.lanes=serial" ;;
  4) also="--set dense.reshard_after_forward=2 --set dense.reduce_inputs=3 --set optimizer.in_backward=false" ;;
  esac
  check "fully_sharded on $n" train $n fs$n $fs
  check "$n ranks: bits of ddp" same_bits "$(newest ddp$n)" "$(newest fs$n)"
  check "$n ranks: as one rank" close_losses ddp1 fs$n 1e-6 10
  check "fully_sharded on $n, $also" train $n fx$n $fs $also
  check "$n ranks, $also: bits of ddp" same_bits "$(newest ddp$n)" "$(newest fx$n)"
done
check "trained" test "$(losses fs2 | head -n 1)" != "$(losses fs2 | tail -n 1)"
check "other initial values, other bits" train 2 other $fs --set run.seed=12
if same_bits "$(newest ddp2)" "$(newest other)" > /dev/null; then echo "FAILED: bits do not depend on the seed"; exit 1; fi

# Stop and go on: with the same, under the other strategy, on other numbers.
half() { # folder: the first 20 steps are there
  rm -rf "$work/$1"; mkdir -p "$work/$1"; cp -r "$work/half-$2/checkpoints" "$work/$1/checkpoints"
}
check "half with fully_sharded" train 3 half-fs $fs --set run.steps=20
check "half with ddp" train 3 half-ddp --set run.steps=20
half again fs; check "goes on" train 3 again $fs
check "straight = stop + resume" same_bits "$(newest fs3)" "$(newest again)"
half to-ddp fs; check "goes on under ddp" train 3 to-ddp
check "fully_sharded, then ddp: the same bits" same_bits "$(newest ddp3)" "$(newest to-ddp)"
half to-fs ddp; check "ddp's goes on" train 3 to-fs $fs $lists
check "ddp, then fully_sharded: the same bits" same_bits "$(newest ddp3)" "$(newest to-fs)"
# Rows in f32: one of 16 bits that rounds the other way is worth 1e-5.
rows32="--set tables.c.dtype=f32 --set tables.d.dtype=f32"
check "rows in f32" train 3 fs3-32 $fs $rows32
check "half of that" train 3 half-fs32 $fs $rows32 --set run.steps=20
losses fs3-32 | tail -n 20 > "$work/tail"
for n in 1 2 4; do
  half moved$n fs32; check "goes on, on $n ranks" train $n moved$n $fs $rows32
  losses moved$n > "$work/x"
  check "on $n ranks: as on 3" sh -c "paste '$work/tail' '$work/x' | awk '{ d = \$1 - \$2; if (d < 0) d = -d; if (d > 1e-6 * \$1) bad = 1 } END { exit bad || NR != 20 }'"
  half moved-ddp$n fs32; check "goes on under ddp, on $n ranks" train $n moved-ddp$n $rows32
  check "on $n ranks: the same bits" same_bits "$(newest moved$n)" "$(newest moved-ddp$n)"
done

# Evaluation gathers, too.
for n in 1 3; do
  for way in ddp fully_sharded; do
    check "predicts with $way on $n" ${MPIRUN:-mpirun} -q -n $n "$TESSERA" predict "$work/small.deck" --quiet \
      --checkpoint "$(newest fs2)" --out "$work/$way$n.h5" --set run.output="$work/p" --set dense.parallel=$way
  done
  check "the same predictions on $n" h5diff -q "$work/ddp$n.h5" "$work/fully_sharded$n.h5"
done
check "evaluates in between" train 3 evals $fs --set run.eval_every=7
check "evaluation changes nothing" same_bits "$(newest fs3)" "$(newest evals)"

# Weights by position come late and are on every rank.
positions="--set tables.b.feature_processor.kind=position_weighted --set tables.b.feature_processor.max_length=3"
check "positions with ddp" train 3 pos-ddp $positions
check "positions" train 3 pos-fs $positions $fs
check "positions: bits of ddp" same_bits "$(newest pos-ddp)" "$(newest pos-fs)"

# Clipped: norms are summed in another order.
clip="--set optimizer.clip_norm=0.02"
check "clipped with ddp" train 3 clip-ddp $clip
check "clipped" train 3 clip-fs $clip $fs
check "clipping agrees" close_losses clip-ddp clip-fs 1e-6 40
check "clipping clips" test "$(losses clip-fs | tail -n 1)" != "$(losses fs3 | tail -n 1)"

# Optimizers with norms of whole parameters.
for kind in lamb lars; do
  check "$kind with ddp" train 3 $kind-ddp --set optimizer.kind=$kind
  check "$kind" train 3 $kind-fs $fs --set optimizer.kind=$kind
  check "$kind agrees" close_losses $kind-ddp $kind-fs 1e-6 40
  check "$kind at the end of a step" train 3 $kind-late $fs --set optimizer.kind=$kind --set optimizer.in_backward=false
  check "$kind: the same bits" same_bits "$(newest $kind-fs)" "$(newest $kind-late)"
done

# Late by a step.
semi="--set pipeline.kind=semi_sync --set pipeline.start_batch=7 --set pipeline.stash_gradients=true --set optimizer.in_backward=false --set checkpoint.every=10"
check "stashed with ddp" train 2 semi-ddp $semi
check "stashed" train 2 semi-fs $semi $fs
check "stashed: bits of ddp" same_bits "$(newest semi-ddp)" "$(newest semi-fs)"

# Packed weights are those of this step; a CPU without bf16 trains in f32.
check "bf16 with ddp" train 2 bf16-ddp --set run.precision=bf16
check "bf16" train 2 bf16-fs --set run.precision=bf16 $fs
check "bf16: bits of ddp" same_bits "$(newest bf16-ddp)" "$(newest bf16-fs)"
for more in "--set dense.reshard_after_forward=2 $lists" "--set optimizer.in_backward=false --set dense.reshard_after_forward=false"; do
  check "bf16 on 4, $more" train 4 bf16-more --set run.precision=bf16 $fs $more
  check "bf16 with ddp on 4" train 4 bf16-ddp4 --set run.precision=bf16
  check "bf16, $more: bits of ddp" same_bits "$(newest bf16-ddp4)" "$(newest bf16-more)"
done

# 16 bits for gradients: rounded, summed in f32 and rounded as ddp does it.
for dtype in bf16 f16; do
  check "$dtype gradients with ddp" train 3 wire-ddp --set dense.comm_dtype=$dtype $positions
  for more in optimizer.in_backward=true optimizer.in_backward=false; do
    check "$dtype gradients, $more" train 3 wire-fs --set dense.comm_dtype=$dtype --set $more $positions $fs
    check "$dtype gradients, $more: bits of ddp" same_bits "$(newest wire-ddp)" "$(newest wire-fs)"
  done
done
if same_bits "$(newest fs3)" "$(newest wire-fs)" > /dev/null; then echo "FAILED: 16 bits change nothing"; exit 1; fi

# Rows of their own in the trace, by layer; slots are counted.
check "traced" train 2 traced $fs --set run.trace=t.json --set run.steps=5
for word in '"name":"dense all-gather"' '"name":"dense reduce-scatter"' '"name":"over_arch.0","cat":"comm"' '"name":"fully sharded"' '"flats":2' '"inputs":1'; do
  check "trace has $word" grep -q "$word" "$work/traced/t.json"
done
sent() { # run, operation: bytes of a layer's
  grep -o '"name":"over_arch.1","cat":"comm".*' "$work/$1/t.json" | sed -n "s/.*\"op\":\"$2\",\"bytes\":\([0-9]*\).*/\1/p" | sort -u
}
# 16 x 32 weights and 16 biases, half of them.
check "bytes of a layer: $(sent traced all_gather_v)" test "$(sent traced all_gather_v)" = 1056
# Weights in 2 bytes, if products read them so; gradients as they are told.
check "16 bits" train 2 halves $fs --set run.trace=t.json --set run.steps=5 --set run.precision=bf16 --set dense.comm_dtype=f16
weights=544; grep -q "no instructions for it" "$work/halves/log" && weights=1056
check "fewer bytes of a layer: $(sent halves all_gather_v)" test "$(sent halves all_gather_v)" = $weights
check "bytes of its gradients: $(sent halves reduce_scatter_v)" test "$(sent halves reduce_scatter_v)" = 528
passed
