#!/bin/sh
# emulated.sh - whole trainings of cuda/ without a GPU: run.backend = "emulated"
# on 1, 2 and 4 ranks, collectives by the stand-in for NCCL, in every pipeline
# and with a cached table, has the host's losses; a stopped run that is resumed
# ends with the bits of one that was not.  seconds: 300
# sanitizers: none (kernels are fibers on threads)
. "$srcdir/tests/support/common.sh"
host=$TESSERA
emulated=$(dirname "$TESSERA")/tests/tessera-emulated
[ -x "$emulated" ] || { echo "needs tests/tessera-emulated: a C++ compiler was not found at configure"; exit 77; }
cached='--set tables.c.kernel=cached --set tables.c.cache.load_factor=0.3'
# A part of a rank's memory is the GPU's workspace of products.
short="--set tables.c.rows=2000000 --set tables.c.sharding=row_wise --set sharding.memory_gib=0.04 --set run.tier_dir=$work"

# both RANKS FOLDER OPTIONS...: the small deck on the host and emulated.
both() {
  n=$1; to=$2; shift 2
  TESSERA=$host; train "$n" "host-$to" --set run.steps=8 "$@" || return 1
  TESSERA=$emulated; train "$n" "$to" --set run.steps=8 --set run.backend=emulated "$@" || return 1
  close_losses "host-$to" "$to" 1e-6 8
}
by_nccl() { grep -qi 'nccl' "$work/$1/log"; }
for ranks in 1 2 4; do
  for kind in base sparse_dist fused_sparse_dist semi_sync; do
    check "$kind on $ranks ranks" both $ranks $ranks-$kind --set pipeline.kind=$kind
  done
  check "a cached table on $ranks ranks" both $ranks $ranks-prefetch --set pipeline.kind=prefetch $cached
  check "one the planner caches on $ranks ranks" both $ranks $ranks-short $short
  check "as its plan says" grep -q '^c .* cached ' "$work/$ranks-short/plan"
  check "fully sharded on $ranks ranks" both $ranks $ranks-fully --set dense.parallel=fully_sharded
  [ $ranks = 1 ] || check "NCCL carries it" by_nccl $ranks-base
done
# The program measures its own kernels and messages where no deck says how fast they are.
check "figures that are measured" train 2 measured --set run.backend=emulated --set run.steps=2 --set sharding.topology=measure
by_mpi() { grep -q 'collectives mpi through pinned memory, as NCCL is before 2.26' "$work/old/log"; }
old_nccl() { TESSERA_FAKE_NCCL=22505 both 2 old; }
check "an old NCCL" old_nccl
check "is not used" by_mpi
TESSERA=$emulated
# 4,096 ids, 20 bytes each of a pass, and 512.
"$TESSERA" bench cache tables=2 rows=8000 dim=8 batch=512 pool=4 iters=2 warm=2 load=0.5 zipf=1 threads=1 backend=emulated --json > "$work/rows"
check "scratch of a device's passes" holds passes 'r["passes"] > 8 or r["scratch_bytes"] == 81920 / r["passes"] + 512'
check "rows missed, whatever their number" holds passes 'near(r["misses"], rows[0]["misses"], 0.01) and r["exposed_ms"] > 0'
check "a run that stops" train 2 stopped --set run.backend=emulated --set run.steps=5
check "and goes on" train 2 stopped --set run.backend=emulated --set run.steps=12
check "one that does not stop" train 2 whole --set run.backend=emulated --set run.steps=12
check "ends with the same bits" same_bits "$(newest stopped)" "$(newest whole)"

# run.backend = "auto", with the stand-in by the name "cuda".
says() { folder=$1; shift; grep -q -- "$*" "$work/$folder/log"; }
export TESSERA_EMULATED_CUDA=1
check "auto" train 2 auto --set run.steps=2
check "is the GPU" says auto 'backend cuda: every rank sees a GPU (run.backend = "auto")'
check "no note" eval '! says auto "the job has GPUs"'
cat > "$work/no-gpu" << END
#!/bin/sh
[ "\$OMPI_COMM_WORLD_RANK" = 0 ] || export TESSERA_FAKE_GPUS=0
exec "$emulated" "\$@"
END
chmod +x "$work/no-gpu"
TESSERA=$work/no-gpu
check "a rank without a GPU" train 2 half --set run.steps=2
check "is named" says half 'backend host: rank 1 on .*no CUDA device is visible here'
check "and all are on CPUs" eval '! says half "collectives nccl"'
check "in a job with GPUs" eval 'SLURM_JOB_GPUS=0 train 2 noted --set run.steps=2'
check "a note says so" says noted 'the job has GPUs, but not every rank sees one'
check "a deck that wants it is code 2" eval 'train 2 wanted --set run.steps=2 --set run.backend=cuda; test $? = 2'
TESSERA=$emulated
began() { # folder: on the host
  TESSERA_FAKE_GPUS=0 train 2 "$1" --set run.steps=5
}
check "a run that began on CPUs" began kept
check "goes on beside GPUs" train 2 kept --set run.steps=12
check "on CPUs" says kept 'backend host: the run began on it'
check "and does not say that all is on GPUs" eval '! says kept "backend cuda"'
check "one that never sees a GPU" eval 'TESSERA_FAKE_GPUS=0 train 2 cpu --set run.steps=12'
check "ends with the same bits" same_bits "$(newest kept)" "$(newest cpu)"
check "one that began on CPUs" began named
check "whose deck names the GPU" train 2 named --set run.steps=12 --set run.backend=cuda
check "goes on there" says named 'collectives nccl'
check "without a GPU" eval 'TESSERA_FAKE_GPUS=0 train 2 named --set run.steps=14'
check "it goes on on CPUs, and says so" says named 'the run began on backend "cuda" and goes on with "host"'
unset TESSERA_EMULATED_CUDA
TESSERA=$host
check "a program without CUDA" train 2 named --set run.steps=16
check "a deck that wants CPUs" eval 'CUDA_VISIBLE_DEVICES=0,1 train 1 cpus --set run.steps=2 --set run.backend=host'
check "is noted" says cpus 'the job has GPUs, and run.backend = "host" trains on CPUs'
check "no GPUs in the job" eval 'CUDA_VISIBLE_DEVICES=-1 SLURM_GPUS_ON_NODE=0 train 1 none --set run.steps=2 --set run.backend=host'
check "are no note" eval '! says none "the job has GPUs"'
passed
