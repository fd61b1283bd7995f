#!/bin/sh
# tune.sh - a search over a folder of runs: spaces that can't be, trials that
# are killed and gone on with, two searches on one folder, halving, trials that
# fail, a launcher.  seconds: 60
. "$srcdir/tests/support/common.sh"
command -v flock > /dev/null || { echo "flock (util-linux) is not here"; exit 77; }
cd "$work" || exit 99
cat > model.deck <<'DECK'
run = { name = "m"; steps = 36; threads = 1; log_every = 12; valid_every = 4; };
data = { format = "synthetic"; global_batch = 64;
         synthetic = { samples = 600; eval_samples = 200; pooling = [1]; }; };
tables = ( { name = "a"; rows = 50; dim = 4; features = ["fa"]; optimizer = { kind = "adam"; lr = 0.01; }; } );
model = { kind = "dlrm"; dense_features = 3; dense_arch = [8, 4]; over_arch = [8, 1]; };
optimizer = { kind = "adam"; lr = 1e-2; };
sharding = { topology = "default"; };
checkpoint = { every = 4; };
DECK
cat > space <<'SPACE'
optimizer = { lr = { from = 1e-4; to = 1e-1; scale = "log"; }; };
tables = { a = { optimizer = { lr = [0.001, 0.01, 0.1]; }; }; };
model = { over_arch = ( [8, 1], [16, 8, 1] ); };
run = { seed = { from = 2; to = 8; step = 2; }; };
SPACE
four="tune model.deck --space space --trials 4 --parallel 2"
search() { "$TESSERA" $four "$@"; }
column() { awk -F '\t' -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next } { print $c }' "$1/trials.tsv"; }

# ---- straight through ----------------------------------------------------------
check "a search" search --out straight > out
check "four have ended" test "$(column straight state | grep -c ended)" = 4
check "a line for each, with the best and what is left" test "$(grep -c '^trial ./4: auc 0\..* best 0\..* ETA 00:' out)" = 4
best=$(sed -n 's/^best: trial \([0-9]*\), .*/\1/p' out)
check "the best is the table's" test "$(column straight auc | sort -g | tail -n 1)" = "$(column straight auc | sed -n "${best}p")"
check "what it logged is the table's" grep -q "\"valid\":true.*\"auc\":$(column straight auc | sed -n "${best}p")" "straight/trial-000$best/metrics.jsonl"
check "rates within the range" sh -c "! awk -F '\t' 'NR > 1 && (\$6 < 1e-4 || \$6 > 0.1)' straight/trials.tsv | grep -q ."
check "whole numbers by the step" test -z "$(column straight run.seed | grep -vx '[2468]')"
check "not all the same" test "$(column straight optimizer.lr | sort -u | wc -l)" = 4
line=$(grep '^tessera train' out)
check "the line to copy trains the same" sh -c "$TESSERA ${line#tessera} --quiet"
check "to the same figures" test "$(grep '"valid":true' straight/best/metrics.jsonl)" = "$(grep '"valid":true' "straight/trial-000$best/metrics.jsonl")"
check "a drawing with four marks" test "$(grep -c '<circle' straight/tune.svg)" = 4
cp straight/trials.tsv before
check "again" search --out straight > again
check "nothing is run twice" test "$(grep -c '^trial' again)" = 0
check "the same table" cmp before straight/trials.tsv
check "fewer trials now are the first of them" sh -c "'$TESSERA' tune model.deck --space space --trials 2 --out fewer > /dev/null && head -n 3 before | cmp - fewer/trials.tsv"
check "logs in several files" search --out several --set metrics.rotate_mib=0.0003
check "there are some" test -s several/trial-0001/metrics.5.jsonl
check "their best of all files" cmp before several/trials.tsv

# ---- killed --------------------------------------------------------------------
running() { grep -q running killed/trials.tsv && ls killed/trial-*/checkpoints/step-*.h5; }
for signal in KILL TERM; do
  rm -rf killed
  "$TESSERA" $four --out killed > out 2>&1 & pid=$!
  until_holds $pid running > /dev/null
  kill -$signal $pid
  wait $pid; code=$?
  [ $signal = KILL ] || check "$signal ends with 75, not $code" test $code = 75
  check "$signal came in the middle" grep -q 'running\|waiting' killed/trials.tsv
  check "going on after $signal" search --out killed > out
  cmp straight/trials.tsv killed/trials.tsv || cat out
  check "the same table after $signal" cmp straight/trials.tsv killed/trials.tsv
done

# ---- two on one folder ---------------------------------------------------------
"$TESSERA" $four --out both > one & pid=$!
check "another one" search --out both > two
check "the first one" wait $pid
check "the same table by two" cmp straight/trials.tsv both/trials.tsv
check "no trial twice" test "$(cat one two | grep -c '^trial')" = 4
# A trial that another process holds is waited for.
rm both/trial-0003/tune.record
flock both/trial-0003/tune.lock sleep 1 & pid=$!
sleep 0.2
check "with one held" search --out both > two
check "it was waited for" grep -q 'run by other processes' two
wait $pid
check "and then run" cmp straight/trials.tsv both/trials.tsv

# ---- halving -------------------------------------------------------------------
check "halving" "$TESSERA" tune model.deck --space space --trials 9 --parallel 2 --halving --out halving > out
check "nobody is waited for" sh -c "! grep -q other out"
check "three rungs" test "$(grep -c '^rung' out)" = 3
check "most end soon" test "$(column halving steps | grep -cx 4)" -ge 3
check "the best go on" test "$(column halving steps | grep -cx 12)" -ge 1
check "and one to the end" test "$(column halving steps | grep -cx 36)" -ge 1
full=$(awk -F '\t' '$4 == 36 { print $1; exit }' halving/trials.tsv)
check "from its checkpoint" grep -q '^resumed at step 12' "halving/trial-000$full/log"
check "the best at a rung are those that went on" awk -F '\t' 'NR == 1 { next } $3 == 0 && $5 > top { top = $5 } $3 == 2 { end = $5 } END { exit !(end >= top) }' halving/trials.tsv
cp -r halving shrunk
check "with fewer trials later" "$TESSERA" tune model.deck --space space --trials 3 --halving --out shrunk > out
check "rungs are as they were" test "$(grep -c '^rung' out)" = 3
check "nothing is run anew" test "$(grep -c '^trial' out)" = 0

# ---- a job ------------------------------------------------------------------------
check "as a job" env TESSERA_DRY=1 TESSERA_JOBS="$srcdir/jobs/slurm" SLURM_NTASKS=3 bash "$srcdir/jobs/slurm/tune.sbatch" model.deck --space space > out
check "trials by the job's launcher" grep -q 'tune model.deck --space space --launch mpirun .* -n 3$' out

# ---- a launcher, a metric that is a cost, trials that fail ----------------------
check "by mpirun" "$TESSERA" tune model.deck --space space --trials 1 --metric logloss --launch "${MPIRUN:-mpirun} -q -n 2" --out launched > out
check "its input is left alone" sh -c "echo kept | { '$TESSERA' tune model.deck --space space --trials 1 --launch '${MPIRUN:-mpirun} -q -n 1 --stdin all' --out fed --quiet > out; cat; } | grep -x kept"
check "children that nobody waits for" timeout -k 5 50 sh -c "trap '' CHLD; exec '$TESSERA' tune model.deck --space space --trials 1 --out child" > out
check "on two ranks" grep -q '2 ranks' launched/trial-0001/log
echo 'optimizer = { lr = [1e-2, 1e9]; };' > wild
check "some fail" "$TESSERA" tune model.deck --space wild --trials 4 --parallel 2 --metric logloss --set optimizer.kind=sgd --out wild.o > out
check "they are lines" grep -q '^trial ./4 failed with code 3: ' out
check "of the table" test "$(column wild.o state | sort -u | tr '\n' ' ')" = "ended failed "
check "the best is the least" test "$(column wild.o logloss | grep . | sort -g | head -n 1 | cut -c 1-6)" = "$(sed -n 's/^best: .* logloss \([0-9.]*\),.*/\1/p' out | cut -c 1-6)"

# A run that is killed goes on; one that always is killed is a row.
cat > killer <<'KILLER'
#!/bin/sh
n=$(cat tries 2> /dev/null | wc -l); echo try >> tries
[ "$n" -ge "${KILLS:-1}" ] || kill -KILL $$
exec "$@"
KILLER
chmod +x killer
check "a run that is killed" "$TESSERA" tune model.deck --space space --trials 2 --launch ./killer --out accident > out
check "it is said" grep -q '^trial 1/2 ended with code 137: once more' out
check "nothing of it is seen" sh -c "head -n 3 before | cmp - accident/trials.tsv"
rm tries
check "killed twice" env KILLS=2 "$TESSERA" tune model.deck --space space --trials 2 --launch ./killer --out twice > out
check "it has failed" test "$(column twice state | tr '\n' ' ')" = "failed ended "

# ---- what can't be --------------------------------------------------------------
refused() { # TEXT OPTIONS...
  text=$1; shift
  "$TESSERA" tune model.deck --out refused "$@" > out 2> err; code=$?
  check "code 2, not $code: $text" test $code = 2
  grep -qF -- "$text" err || cat err
  check "$text" grep -qF -- "$text" err
  check "nothing was begun: $text" test ! -e refused/trial-0001
}
bad() { # TEXT SPACE
  printf '%s\n' "$2" > bad
  refused "$1" --space bad
}
bad 'bad:1: unknown key "optimizer.lrr"; did you mean "optimizer.lr"?' 'optimizer = { lrr = { from = 1e-4; to = 1e-1; }; };'
bad 'bad:2: optimizer.lr: the range is empty' '
optimizer = { lr = { from = 0.1; to = 0.1; }; };'
bad 'bad:1: optimizer.lr: a range has from, to, scale and step, no "form"' 'optimizer = { lr = { form = 0.1; to = 0.2; }; };'
bad 'bad:1: optimizer.lr: scale is "linear" or "log"' 'optimizer = { lr = { from = 0.1; to = 0.2; scale = "lg"; }; };'
bad 'bad:1: optimizer.lr: scale = "log" begins above 0' 'optimizer = { lr = { from = 0; to = 0.2; scale = "log"; }; };'
bad 'bad:1: optimizer.lr has no choices' 'optimizer = { lr = []; };'
bad 'bad:1: optimizer.lr: a space has' 'optimizer = { lr = 0.1; };'
bad 'bad:1: run.seed: takes whole numbers' 'run = { seed = { from = 1; to = 3.5; }; };'
bad 'bad:1: optimizer.kind: "adamm" is not one of' 'optimizer = { kind = ["adam", "adamm"]; };'
bad 'bad:1: there is no such table' 'tables = { b = { dim = [4, 8]; }; };'
bad 'bad:2: syntax error' 'optimizer = {'
bad 'the space has no key' ''
refused "--space can't be read: missing" --space missing
bad 'bad: run.output can'"'"'t be searched: it is' 'run = { output = ["a", "b"]; };'
echo 'run = { steps = [4, 8]; };' > bad
refused "bad: run.steps can't be searched with --halving" --space bad --halving
echo "run = { name = [\"it's\"]; };" > quote
check "a quote" "$TESSERA" tune model.deck --space quote --trials 1 --set run.steps=4 --out quoted > out
check "is a word to a shell" sh -c "$(sed -n 's/^tessera train/set --/p' out); test \"\$5\" = \"run.name=it's\""
OMPI_COMM_WORLD_RANK=0 refused 'tune is one process' --space space
refused '--trials 0 is no number' --space space --trials 0
refused 'give run.valid_every' --space space --set run.valid_every=0
refused 'run.stop.metric: "aucc"' --space space --metric aucc
mv straight refused
rm -rf refused/trial-0001
refused 'refused was begun with "seed 1", not with "seed 2"' --space space --seed 2
refused 'refused was begun with "run.seed 2 to 8, step 2", not with "run.seed 2 to 9, step 2"' --space "$(sed 's/to = 8/to = 9/' space > other; echo other)"
refused 'optimizer.lr 0.01 -> 0.5' --space space --set optimizer.lr=0.5
"$TESSERA" tune model.deck --space space --launch nowhere --out nowhere.o > out 2> err; code=$?
check "no launcher: 2, not $code" test $code = 2
check "no launcher" grep -q 'trial 1: nowhere: No such file' err
passed
