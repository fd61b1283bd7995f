#!/bin/sh
# bench_gpu.sh - jobs/bench_gpu without a GPU: what it would run, in which order
# and time; that a step that fails is noted, the next goes on and the summary
# says so; that a later call goes on where one was interrupted.
# seconds: 20
. "$srcdir/tests/support/common.sh"
job=$srcdir/jobs/bench_gpu
TESSERA_SRC=$srcdir TESSERA_OUT=$work/out TESSERA_BUILD=$work/build TESSERA_GPU_ENV=$srcdir/jobs/bench_gpu.env
export TESSERA_SRC TESSERA_OUT TESSERA_BUILD TESSERA_GPU_ENV
unset TESSERA_PARITY_DIR

dry() { "$job" --dry "$@" > "$work/dry"; }
says() { grep -q -- "$1" "$work/dry"; }
check "a dry run" dry
for word in test_cuda_graph_gpu memcheck 'bench tbe' 'plan .*topology_h200' 'bench step .*pipeline=sparse_dist .*run.graph=auto' 'n 4 .*bench pipeline .*comm.backend=mpi' 'pin_memory=false' 'TESSERA_BACKEND=cuda .*parity.sh' \
  'TESSERA_TESTS=.* compute-sanitizer' 'NCCL_SHARED=1'; do
  check "it has $word" says "$word"
done
check "nothing was written" test ! -e "$work/out"
headings() { sed -n 's/^== \([a-z]*\): \([0-9]*\) s at most, \([0-9]*\) s.*/\1 \2 \3/p' "$@"; }
check "in the order of their worth" test "$(headings "$work/dry" | sed 's/ .*//' | tr '\n' ' ')" = \
  "look kernels sanitizer tbe parity mlperf suites plan sparsenn pinned "
check "half an hour at most, a first answer in 3 minutes" eval \
  'headings "$work/dry" | awk "{ sum += \$2; if (\$3 > \$2) exit 1; if (NR == 1 && \$2 > 180) exit 1 } END { exit sum > 1800 }"'
families=$(sed -n 's/^kernels: .* tests.kernels.//p' "$work/dry" | sort)
sed -n '/^check_PROGRAMS/,/[^\\]$/p' "$srcdir/tests/kernels/local.mk" | grep -o 'tests/kernels/[a-z_]*' | sed 's/.*kernels.//' | sort > "$work/families"
check "every contract of kernels" test "$families" = "$(cat "$work/families")"
sed -n 's/^sanitizer: .*TESSERA_TESTS=\(.*\) compute-sanitizer .* tests.kernels.\(.*\)/\2 \1/p' "$work/dry" > "$work/small"
check "the sanitizer's are as many" test "$(wc -l < "$work/small")" = $((2 * $(echo "$families" | wc -l)))
while read -r family tests; do
  for t in $tests; do check "$family has $t" grep -qE "^TS_TESTS?\($t[,)]" "$srcdir/tests/kernels/$family.c" "$srcdir/tests/kernels/${family}_double.c" -s; done
done < "$work/small"
(cd "$(dirname "$TESSERA")" && TESSERA_TESTS="swap clip" tests/kernels/flat; TESSERA_TESTS=swa tests/kernels/flat) > "$work/named" 2>&1; check "no test of that name is code 1" test $? = 1
check "two tests of a program" grep -q 'Checks: 2, Failures: 0' "$work/named"
check "one step alone" dry plan
check "which is one command" test "$(wc -l < "$work/dry")" = 2
for bad in nonsense '--minutes' '--minutes x'; do
  "$job" --dry $bad > /dev/null 2>&1; check "$bad is code 2" test $? = 2
done
(cd "$work" && "$srcdir/jobs/gpu_kit" kit) 2> "$work/none"; check "no kit without nvcc" test $? = 1
check "it says so" grep -q 'no CUDA backend' "$work/none"
"$job" plan > /dev/null 2>&1; check "no build is code 2" test $? = 2

# The plan is the program's own: whether the MLPerf tables fit.
mkdir -p "$work/build" "$work/bin"
ln -s "$TESSERA" "$work/build/tessera"
check "the plan of one H200" "$job" plan > "$work/plan"
check "it says so" grep -q '^plan [0-9]* s: 1 commands, 0 failed: none; 0 skipped' "$work/out/summary"
check "all tables on one rank" grep -q '26 tables on 1 ranks of 1 nodes: 26 table_wise' "$work"/out/plan.1.out
check "its command stands first" grep -q '^# .* plan .*mlperf_rowwise.deck --world 1' "$work"/out/plan.1.out

# A program that can't.
rm "$work/build/tessera"
cat > "$work/build/tessera" <<'P'
#!/bin/sh
case $* in *graph=auto*) echo broken; exit 5 ;; *iters=8) sleep "${SLOW:-0}" ;; *) echo "12 samples/s" ;; esac
P
chmod +x "$work/build/tessera"
"$job" look > "$work/none" 2>&1; check "no GPU is code 77" test $? = 77
check "it says so" grep -q '^no GPU is here' "$work/none"
check "and what it would do" grep -q '^mlperf: .*bench step' "$work/none"
"$job" mlperf parity > "$work/failing"; check "a failure is code 1" test $? = 1
check "it is noted" grep -q '^FAILED  mlperf.2 (code 5)' "$work/failing"
check "the next goes on" grep -q '^ok      mlperf.4' "$work/failing"
check "what is not there is skipped" grep -q '^SKIPPED parity.1' "$work/failing"
check "but not done" eval '! grep -q "^parity" "$work/out/state"'
check "the summary" grep -q '^mlperf [0-9]* s: 5 commands, 1 failed: mlperf.2; 0 skipped' "$work/out/summary"
check "with the figures" grep -q '12 samples/s' "$work/out/summary"

# Later calls: with a GPU that has the memory of two.
cat > "$work/bin/nvidia-smi" <<'P'
#!/bin/sh
case $* in *memory.total*) echo 81559 ;; esac
P
chmod +x "$work/bin/nvidia-smi"
PATH=$work/bin:$PATH
"$job" mlperf > "$work/again"; check "what failed before is code 1" test $? = 1
check "nothing ran" test "$(grep -c '^ok\|^FAILED' "$work/again")" = 0
check "it says so" grep -q '^== mlperf: done before' "$work/again"
"$job" --again mlperf > "$work/again"
check "but asked for" grep -q '^ok      mlperf.4' "$work/again"
check "with tables that fit" grep -q '^        81559 MiB: tables of 22000000 rows' "$work/again"
check "of the five largest" test "$(grep -o 22000000 "$work/out/mlperf_22000000.deck" | wc -l)" = 5
# The state is that of one program.
echo >> "$work/build/tessera"
"$job" mlperf > "$work/again"
check "another program does it again" grep -q '^ok      mlperf.1' "$work/again"
# Stopped in the first step.
SLOW=60 "$job" look plan > "$work/stopped" & stopped=$!
until_holds $stopped grep -q '^ok      look.1' "$work/stopped"
kill -TERM $stopped; wait $stopped; check "a stop is code 130" test $? = 130
check "no step was done" test "$(grep -c '^look\|^plan ' "$work/out/state")" = 1
# Stopped among commands side by side: none of them is left.
mkdir -p "$work/build/tests/kernels"
for t in $families; do printf '#!/bin/sh\nsleep %s\n' 1$$ > "$work/build/tests/kernels/$t"; chmod +x "$work/build/tests/kernels/$t"; done
asleep() { cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\0' ' ' | grep -q "sleep [1]$$ "; }
"$job" plan kernels > "$work/stopped" & stopped=$!
until_holds $stopped asleep
kill -TERM $stopped; wait $stopped; check "a stop is code 130, there, too" test $? = 130
sleep 0.3
check "and leaves no command" eval '! asleep'
"$job" --minutes 3 look kernels plan > "$work/minutes"; check "what fits" test $? = 1
check "what was interrupted runs again" grep -q '^ok      look.2' "$work/minutes"
check "what doesn't fit is left" grep -q '^left for later: kernels$' "$work/out/summary"
# A command without an end has what is left of its step, and no more.
sed 's/^times="look .*/times="look 6 6 1/' "$job" > "$work/short"
SLOW=60 bash "$work/short" --again look > "$work/late"; check "no end is code 1" test $? = 1
check "it is noted" grep -q '^FAILED  look.2 (no end within [1-6] s)' "$work/late"
check "what had no time left" grep -q '^LATE    look.3' "$work/late"
check "is counted" grep -qE '^look [0-9]* s: .* 1 failed: look.2; [01] skipped, [3-9] late' "$work/out/summary"
passed
