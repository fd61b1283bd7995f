#!/bin/sh
# manual_commands.sh - every command line that the manual and the README show
# runs, document after document, on small data in a folder that has what they
# name, and writes what it names; the man page's commands are among them.
# sbatch is a stand-in that prints what a job's script would run.  What can't be
# run here is in `elsewhere`, with who does it.  seconds: 300
. "$srcdir/tests/support/common.sh"
not_sanitized
elsewhere='
README jobs/quickstart: installs and builds (jobs/setup.sh, as jobs/check does); the tutorial has its other commands
README jobs/check: is what runs this
README autoreconf -i: jobs/check, from nothing
README make install: install.sh
README man doc/tessera.1: cli_man.sh
tessera.texi man tessera: cli_man.sh
tutorial.texi jobs/quickstart: as above
cluster.texi scancel JOB: slurm.sh
slurm.texi sbatch --dependency=: slurm.sh
slurm.texi make check-slurm: jobs/check
install.texi ./configure --prefix=: jobs/check, without a prefix
install.texi python3 -m venv arrow: jobs/check
install.texi ./configure --with-arrow=: jobs/check
install.texi make install: install.sh
install.texi make uninstall: install.sh
install.texi mpirun -n 2 ./seeds: install.sh
gpus.texi ./configure --with-cuda=: jobs/check, as far as there is CUDA
gpus.texi mpirun -n 4 tessera train model.deck --set run.backend=cuda: a GPU; emulated.sh without one
gpus.texi make gpu-kit: gpu_kit.sh'

# ---- what the documents show: a command a line ------------------------------------
starts='((build/)?tessera [a-z]|(mpirun|srun|sbatch|scancel|make|autoreconf|cd|mkdir|head|tail|for|export|man|python3|pip|git|apt-get|\.) |cat .* \| |\./|jobs/[a-z]+( |$))'
# Examples ($ is a prompt; lines that go on, and loops, are one; two blanks begin
# a remark; a blank line ends those of the README), the items of benchmarks, and
# what sentences name with its arguments.
shown() { # FILE
  sed 's/^    \([^ ]\)/@example\n\1/; s/@dots{}/.../g; :more; /\\$/ { N; s/ *\\\n */ /; b more; }' "$1" | awk '
    !NF || /^@end (small)?example/ { on = 0 + (on && !NF && !readme) }
    /^@itemx? tessera / { sub(/^@itemx? /, ""); print }
    on { line = $0; sub(/^[$] /, "", line)
      if (line ~ /^for /) while (line !~ /done$/ && (getline more) > 0) { sub(/^ */, "", more); line = line (line ~ /do$/ ? " " : "; ") more }
      print line }
    /^@(small)?example/ { on = 1 }' readme=$(test "${1##*.}" = texi; echo $?) |
    sed 's/@\([@{}]\)/\1/g; s/  .*//; s/ \.\.\..*//' | grep -E "^$starts"
  tr '\n' ' ' < "$1" | grep -oE '@(command|code)\{[^{}]* [^{}]*\}' | sed 's/^[^{]*{//; s/}$//; s/  */ /g' |
    grep -E '^(make|man) |^(mpirun .*)?tessera [a-z-]+ [^ ]'
}
for document in "$srcdir/README" "$srcdir"/doc/*.texi; do
  shown "$document" | while IFS= read -r line; do printf '%s %s\n' "${document##*/}" "$line"; done
done > "$work/commands"
n=$(wc -l < "$work/commands")
check "commands: $n" test "$n" -gt 80
printf '%s\n' "$elsewhere" | sed '/^$/d; s/: .*//' > "$work/elsewhere"
while IFS= read -r line; do check "the manual has it still: $line" grep -qF -- "$line" "$work/commands"; done < "$work/elsewhere"
# Once is enough for what needs no file of the command before.
grep -vFf "$work/elsewhere" "$work/commands" | awk '{ line = $0; sub(/^[^ ]* /, "") } !seen[$0]++ || / FILE|^\. / { print line }' > "$work/here"
# What needs Arrow, where it is not in this build.
[ -e "$(dirname "$TESSERA")/io/parquet.so" ] || sed -i '/\.parquet/d' "$work/here"
# Each command of the man page.
sed -n '/^\.SH COMMANDS/,/^\.SH OPTIONS/p' "$srcdir/doc/tessera.1" | sed -n '/^\.TP/ { n; p; }' |
  sed -n 's/^\.B[IR]* "\{0,1\}\(\(bench \|trace \)\{0,1\}[a-z\\-]\{1,\}\).*/\1/p' | tr -d '\\' | sort -u > "$work/man"
check "the man page's commands" test "$(wc -l < "$work/man")" -ge 20
while IFS= read -r line; do
  [ "$line" = bench ] || check "the manual runs one: tessera $line" grep -q "tessera $line\( \|$\)" "$work/here"
done < "$work/man"

# ---- a folder with what they name ------------------------------------------------------
mkdir -p "$work/bin" "$work/given/build" "$work/given/runs" "$work/scratch/criteo" "$work/scratch/runs" "$work/data/criteo"
cd "$work/given" || exit 99
printf '#!/bin/sh\nexec %s -q "$@"\n' "$(command -v ${MPIRUN:-mpirun})" > "$work/bin/mpirun"
cat > "$work/bin/sbatch" <<'SBATCH'
#!/bin/bash
# Options of the command line win over the script's.
for word; do case $word in -*) given="$given $word"; shift ;; *) break ;; esac; done
of() { { sed -n 's/^#SBATCH //p' "$script"; printf '%s\n' $given; } | sed -n "s/^--$1=//p" | tail -n 1; }
script=$1
TESSERA_DRY=1 SLURM_JOB_NUM_NODES=$(of nodes) SLURM_NTASKS_PER_NODE=$(of ntasks-per-node) SLURM_CPUS_PER_TASK=$(of cpus-per-task) \
  SLURM_GPUS_ON_NODE=$(of gpus-per-node) SLURM_ARRAY_TASK_ID=1 SLURM_SUBMIT_DIR=$PWD exec bash "$@"
SBATCH
chmod +x "$work/bin/mpirun" "$work/bin/sbatch"
ln -s "$TESSERA" "$work/bin/tessera"; ln -s "$TESSERA" build/tessera; ln -s "$srcdir/jobs" jobs
PATH=$work/bin:$PATH; export PATH TESSERA=tessera TESSERA_DATA_DIR="$work/data" TESSERA_MPIRUN=-q
# Decks of the source with less to do.
cp -r "$srcdir/input" input; chmod -R u+w input
# As the module sets them.
TESSERA_INPUT=$PWD/input TESSERA_JOBS=$PWD/jobs/slurm; export TESSERA_INPUT TESSERA_JOBS
sed -i 's/\(samples = \)2000000/\110000/; s/\(samples = \)50000/\1500/; s/steps = 1954/steps = 20/' input/quickstart.deck
sed -i 's/\(rows = \)200000/\1200/; s/batch_per_rank = 1024/batch_per_rank = 64/' input/bench_ctr.deck
# Files that the manual shows: their first line is their name.
for document in "$srcdir"/doc/*.texi; do
  awk '/^@end (small)?example/ { name = "" } name { print > name }
    /^@(small)?example/ { getline; name = match($0, /^# [a-z]+\.(deck|space)/) ? substr($0, 3, RLENGTH - 2) : "" }' "$document"
done
sed -i 's/@\([@{}]\)/\1/g' ./*.deck ./*.space
check "decks and spaces" test -s criteo.deck -a -s columns.deck -a -s model.space -a -s clicks.space
# Clicks, as the tutorial tells of them, and those that model.deck trains on.
awk 'BEGIN { srand(5); print "when,user,age,tags,session,clicked"
  for (i = 0; i < 1000; i++) { u = int(40 * rand())
    printf "%d,u%d,%d,%s,s%d,%s\n", 1700000000 + 60 * i, u, 18 + int(60 * rand()), i % 2 ? "a|b" : "", i, (rand() < (u % 2 ? 0.7 : 0.2) ? "yes" : "no") } }' > clicks.csv
{ head -n 1 clicks.csv; tail -n 100 clicks.csv; } | tee test.csv | cut -d, -f1-5 > new.csv
cp clicks.csv train.csv
awk 'BEGIN { print "user,age,city,clicked,ad"; for (i = 0; i < 400; i++)
  printf "u%d,%d,c%d,%d,a%d\n", i, 20 + i % 50, i % 7, i % 3 == 0, i * 7 % 100 }' > rides.csv
cp rides.csv day2.csv
awk 'BEGIN { for (i = 0; i < 400; i++) print i % 40 "," i * 7 % 30 }' > events.csv
awk 'BEGIN { print "user,item,when,kind"; for (i = 0; i < 400; i++) print i % 40 "," i * 7 % 30 "," 10 * i ",k" i % 7 }' > clicks-in-shop.csv
cat > model.deck <<'DECK'
run = { name = "model"; epochs = 4.0; log_every = 5; valid_every = 10; threads = 1; };
data = { train = "rides.csv"; eval = "day2.csv"; format = "csv"; global_batch = 16; split = { valid = 0.25; }; synthetic = { samples = 500; };
  csv = { label = "clicked"; dense = ["age"]; dense_transform = "standardise"; encoding = "vocabulary"; }; };
tables = ( { name = "city"; rows = 20; features = ["city"]; }, { name = "ad"; rows = 300; features = ["ad"]; } );
table_defaults = { dim = 4; optimizer = { kind = "adam"; lr = 0.05; }; };
model = { kind = "dcnv2"; dense_features = 1; dense_arch = [16, 4]; over_arch = [32, 1]; dcn = { layers = 1; rank = 4; }; };
optimizer = { kind = "adam"; lr = 0.02; };
checkpoint = { best = true; };
DECK
for k in 1 2 3 4 5 6 7 8; do echo "model.deck --set run.seed=$k"; done > list
check "train" tessera train model.deck --quiet
cp runs/model/checkpoints/best.h5 CHECKPOINT
tessera export model.deck --quiet --format serve --out SERVED
cp -r runs/model runs/dlrm; cp -r runs/model runs/dcnv2
cp model.deck DECK
tessera generate input/criteo.deck --quiet --set data.format=synthetic --format criteo_tsv --out "$work/data/criteo/train_965.txt" --set data.synthetic.samples=2000
ln -s "$PWD"/* "$work/scratch/criteo"
head -n 400 "$work/data/criteo/train_965.txt" > "$work/scratch/criteo/train.txt"
cp -r runs/model "$work/scratch/runs/criteo"

# ---- each in its turn ------------------------------------------------------------------
# With less to do: fewer ranks, trials, rows; names of what stands for one.
short() {
  sed -E "s,/scratch/[$]USER,$work/scratch,; s/39291957/300/; s/39291958/301/; s/(mpirun -n )([5-9]|[0-9]{2,})/\12/
    s/--trace FILE/& --set checkpoint.resume=never/; s/--trials [0-9]+/--trials 2/; s/trial-[0-9]+/trial-0002/; s/ RANKS\$/ 4/; s/(plot|compare) (A B|RUN RUN)/\1 runs\/dlrm runs\/dcnv2/; s/FEATURE|COLUMN/city/; s/KEY/run.seed/
    s/(bench input DECK).*/\1 iters=4 steps=1 rounds=1/; s/(bench pipeline DECK).*/\1 scale=1 steps=2 warm=1 rounds=1/
    s/(bench step DECK).*/\1 iters=4/; s/bench (tbe|cache)\$/bench \1 tables=1 rows=500 batch=32 iters=4/; s/bench cache.*/& warm=2/; s/bench checkpoint/& mb=1/; s/bench rows\$/& rows=5000 iters=2/; s/serve-bench FILE/serve-bench SERVED --seconds 0.1/; s/bench attention\$/& length=50 tokens=500 iters=2/"
}
outputs() { # COMMAND: what it writes
  case $1 in for*) ;; *) eval "echo $(printf '%s\n' "$1" | sed 's/--sequences .*--out [^ ]*/&.train.h5/' | grep -oE '(--out|-o|--save|--trace|--measure|>) [^ ;-][^ ;]*' | sed 's/.* //' | tr '\n' ' ')" ;; esac
}
run_all() { # DOCUMENT
  while IFS= read -r line <&3; do
    what=$(printf '%s\n' "$line" | short)
    case $line in "mpirun -q "*) # what the job above becomes
      [ "$(tail -n 1 "$work/out")" = "$line" ] && continue ;;
    esac
    rm -f $(outputs "$what")
    eval "$what" < /dev/null > "$work/out" 2> "$work/err" 3<&- || { cat "$work/out" "$work/err"; echo "FAILED: $1: $line"; exit 1; }
    for file in $(outputs "$what"); do [ -s "$file" ] || { echo "FAILED: $1: $line: no $file"; exit 1; }; done
  done 3< "$work/these"
}
for document in README $(cd "$srcdir/doc" && echo *.texi); do
  sed -n "s/^$document //p" "$work/here" > "$work/these"
  cp CHECKPOINT FILE
  (run_all "$document") || exit 1
  n_checks=$((n_checks + $(wc -l < "$work/these")))
done
passed
