#!/bin/sh
# bench_gpu.sh - jobs/bench_gpu without a GPU: what it would run, and that a
# step that fails is noted, the next goes on and the summary says so.
# seconds: 10
. "$srcdir/tests/support/common.sh"
job=$srcdir/jobs/bench_gpu
TESSERA_SRC=$srcdir TESSERA_OUT=$work/out TESSERA_BUILD=$work/build TESSERA_GPU_ENV=$srcdir/jobs/bench_gpu.env
export TESSERA_SRC TESSERA_OUT TESSERA_BUILD TESSERA_GPU_ENV
unset TESSERA_PARITY_DIR

dry() { "$job" --dry "$@" > "$work/dry"; }
says() { grep -q -- "$1" "$work/dry"; }
check "a dry run" dry
for word in test_cuda_graph_gpu memcheck 'bench tbe' 'plan .*topology_h200' 'bench step .*pipeline=sparse_dist .*run.graph=auto' 'n 4 .*bench pipeline .*comm.backend=mpi' 'pin_memory=false' 'TESSERA_BACKEND=cuda .*parity.sh'; do
  check "it has $word" says "$word"
done
check "nothing was written" test ! -e "$work/out"
check "one step alone" dry plan
check "which is one command" test "$(wc -l < "$work/dry")" = 1
"$job" --dry nonsense > /dev/null 2>&1; check "an unknown step is code 2" test $? = 2
"$job" plan > /dev/null 2>&1; check "no build is code 2" test $? = 2

# The plan is the program's own: whether the MLPerf tables fit.
mkdir -p "$work/build"
ln -s "$TESSERA" "$work/build/tessera"
check "the plan of one H200" "$job" plan > "$work/plan"
check "it says so" grep -q '1 commands, 0 failed: none; 0 skipped' "$work/out/summary"
check "all tables on one rank" grep -q '26 tables on 1 ranks of 1 nodes: 26 table_wise' "$work"/out/plan.1.out
check "its command stands first" grep -q '^# .* plan .*mlperf_rowwise.deck --world 1' "$work"/out/plan.1.out

# A program that can't.
rm "$work/build/tessera"
cat > "$work/build/tessera" <<'P'
#!/bin/sh
case $* in *graph=off*) echo broken; exit 5 ;; *) echo "12 samples/s" ;; esac
P
chmod +x "$work/build/tessera"
"$job" mlperf parity > "$work/failing"; check "a failure is code 1" test $? = 1
check "it is noted" grep -q '^FAILED  mlperf.2 (code 5)' "$work/failing"
check "the next goes on" grep -q '^ok      mlperf.4' "$work/failing"
check "what is not there is skipped" grep -q '^SKIPPED parity.6' "$work/failing"
check "the summary" grep -q '6 commands, 2 failed: mlperf.2 mlperf.3; 1 skipped' "$work/out/summary"
check "with the figures" grep -q '12 samples/s' "$work/out/summary"
passed
