#!/bin/sh
# install.sh - what `make install` puts where serves alone: through the module
# file, jobs of installed decks and their restarts, by a stand-in for sbatch
# that runs a copy of the script, as Slurm does; the manual's program, built
# with the library by pkg-config; all headers; HTML, man and info.  A package's
# DESTDIR holds the same files, and uninstall leaves none.  seconds: 60
. "$srcdir/tests/support/common.sh"
not_sanitized
build=$PWD tree=$work/tree share=$work/tree/share/tessera system_path=$PATH
# As an administrator whose own files are nobody else's.
make_here() { (umask 077; cd "$build" && env -u MAKEFLAGS -u MFLAGS make -s "$@") > "$work/make" 2>&1 || { cat "$work/make"; return 1; }; }
files() { (cd "$1" && find . -type f ! -path '*/info/dir' | sort); }

check "make install" make_here install prefix="$tree"
check "make install of a package" make_here install DESTDIR="$work/package" prefix="$work/opt"
files "$tree" > "$work/files"
packaged=$work/package$work/opt
files "$packaged" > "$work/packaged"
check "a package has the same files" cmp "$work/files" "$work/packaged"
check "all of it is in the prefix" test "$(files "$work/package" | wc -l)" = "$(wc -l < "$work/files")"
names() { grep -rIlF -- "$1" "$2"; }
check "nothing in a package names DESTDIR" test -z "$(names "$work/package" "$work/package")"
check "nothing names the source" test -z "$(names "$srcdir/" "$tree")"
check "nothing names the build" test -z "$(names "$build/" "$tree")"
check "nothing is left to fill in" test -z "$(grep -rIl '@[a-zA-Z]*dir@\|@prefix@\|@VERSION@\|@CC@\|@libs@' "$tree/lib" "$share")"
for file in $(cd "$srcdir" && ls input/*.deck input/topology_* input/models/*.deck); do
  check "$file" cmp "$srcdir/$file" "$share/$file"
done
for file in from_torch join-ml100k; do check "$file" test -x "$share/jobs/$file"; done
readable() { [ -z "$(find "$tree" -type f ! -perm -444)" ]; }
check "everybody can read it" readable

# From here on nothing of the source or the build, but a program of the manual
# and a clone's scripts, which are to end where they should.
version=$("$TESSERA" version | sed -n 's/^tessera //p')
mkdir "$work/user" "$work/bin" "$work/spool"
sed -n '/^\/\* seeds.c/,/^@end/p' "$srcdir/doc/install.texi" | sed '/^@end/d; s/@\([@{}]\)/\1/g' > "$work/user/seeds.c"
sed -n '/^\/\* score.c/,/^@end/p' "$srcdir/doc/serving.texi" | sed '/^@end/d; s/@\([@{}]\)/\1/g' > "$work/user/score.c"
clone=$srcdir/jobs/slurm
cp "$clone/one-node.sbatch" "$work/user/clone.sbatch"
cd "$work/user" || exit 99
unset srcdir TESSERA TESSERA_JOBS TESSERA_CLUSTER

# ---- the module ------------------------------------------------
module=$share/modulefiles/tessera/$version
check "the module file's first words" grep -q '^#%Module' "$module"
check "they are the first" test "$(head -c 8 "$module")" = '#%Module'
sed -n -e 's/^setenv \([A-Z_]*\) \(.*\)/\1="\2"; export \1/p' -e 's/^prepend-path \([A-Z_]*\) \(.*\)/\1="\2:$\1"; export \1/p' \
  -e 's/^append-path \([A-Z_]*\) {}$/\1="$\1:"; export \1/p' "$module" > "$work/load"
check "it sets six variables, one twice" test "$(wc -l < "$work/load")" = 7
unset MANPATH PKG_CONFIG_PATH
. "$work/load"
if command -v tclsh > /dev/null; then
  printf '%s\n' 'proc module-whatis {text} {}' 'proc conflict {name} {}' 'proc setenv {name to} { puts "$name $to" }' \
    'proc prepend-path {name to} { puts "$name $to" }' 'proc append-path {name to} {}' "source {$module}" > "$work/load.tcl"
  check "Tcl reads it" test "$(tclsh "$work/load.tcl" | grep -cF " $tree")" = 6
fi
check "the prefix" test "$TESSERA_ROOT" = "$tree"
check "PATH" test "$(command -v tessera)" = "$tree/bin/tessera"
check "the program" test "$(tessera version | head -n 1)" = "tessera $version"
check "the man page" grep -q '^\.SH COMMANDS' "${MANPATH%%:*}/man1/tessera.1"
check "the system's own stay" test "${MANPATH##*:}" = ""

# ---- documents ------------------------------------------------
doc=$tree/share/doc/tessera
for file in README LICENSE formats.md; do check "$file" test -s "$doc/$file"; done
if grep -q '/tessera.html$' "$work/files"; then
  check "this chapter" grep -q 'make install' "$doc/tessera.html"
  if command -v python3 > /dev/null; then # which draws them
    check "pictures" test "$(grep -c '<img ' "$doc/tessera.html")" -ge 12
    for picture in $(grep -oE '<img src="[^"]*"' "$doc/tessera.html" | sed 's/.*="//; s/"//'); do
      check "$picture" test -s "$doc/$picture"
    done
  fi
  check "info" test -s "$tree/share/info/tessera.info"
else
  check "HTML, where makeinfo is" test "$(sed -n 's/^MAKEINFO = .*no-makeinfo/no/p' "$build/Makefile")" = no
  echo "left out: the manual: makeinfo is not here"
fi

# ---- jobs ------------------------------------------------
printf '#!/bin/sh\nexec %s "$@"\n' "$(PATH=$system_path command -v ${MPIRUN:-mpirun})" > "$work/bin/mpirun"
# Compute nodes with nothing of the module, as with --export=NONE.
cat > "$work/bin/sbatch" <<'SBATCH'
#!/bin/sh
cp "$1" "$SPOOL/slurm_script"; shift
unset TESSERA_ROOT TESSERA_INPUT TESSERA_JOBS TESSERA
SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=2 SLURM_CPUS_PER_TASK=1 SLURM_ARRAY_TASK_ID=1 SLURM_SUBMIT_DIR=$PWD \
  PATH=$NODE_PATH exec bash "$SPOOL/slurm_script" "$@"
SBATCH
chmod +x "$work/bin/mpirun" "$work/bin/sbatch"
PATH=$work/bin:$PATH NODE_PATH=$work/bin:$system_path SPOOL=$work/spool TESSERA_BIND=none
export PATH NODE_PATH SPOOL TESSERA_BIND
into() { to=$1; shift; "$@" > "$to" 2>&1 || { cat "$to"; return 1; }; }
submit() { into "$work/out" sbatch "$@"; }
ln -s "$TESSERA_INPUT" installed
echo '@include "installed/example.deck"' > first.deck
check "a job of a deck that includes an installed one" submit "$TESSERA_JOBS/one-node.sbatch" first.deck --set run.steps=20
check "its checkpoint is beside that deck" test -s runs/example/checkpoints/step-00000020.h5
check "another start of it" submit "$TESSERA_JOBS/one-node.sbatch" first.deck --set run.steps=40
check "goes on where the first ended" grep -q '^resumed at step 20 ' runs/example/log
check "to the end" test -s runs/example/checkpoints/step-00000040.h5
check "an installed deck" tessera train "$TESSERA_INPUT/example.deck" --quiet --set run.steps=5 --set run.output="$PWD/direct"
check "one that names a topology beside it" into plan tessera plan "$TESSERA_INPUT/example.deck" --world 8 --ranks-per-node 8 --set sharding.topology=topology_example
echo "first.deck" > list
for job in one-node nodes gpus sweep tune; do
  deck=first.deck; [ $job != sweep ] || deck=list
  TESSERA_DRY=1; export TESSERA_DRY
  check "$job.sbatch" submit "$TESSERA_JOBS/$job.sbatch" $deck
  check "$job.sbatch runs the installed program" grep -qF "$tree/bin/tessera t" "$work/out"
  cp "$TESSERA_JOBS/$job.sbatch" mine.sbatch
  check "a copy of $job.sbatch" submit mine.sbatch $deck
  check "without Slurm: $job.sbatch" into "$work/out" env -u TESSERA_JOBS SLURM_ARRAY_TASK_ID=1 bash "$TESSERA_JOBS/$job.sbatch" $deck
  check "without Slurm: a clone's $job.sbatch" into "$work/out" env -u TESSERA_JOBS SLURM_ARRAY_TASK_ID=1 bash "$clone/$job.sbatch" $deck
  check "$job.sbatch says what is where" grep -q "sbatch.* $TESSERA_JOBS/$job.sbatch" "$TESSERA_JOBS/$job.sbatch"
  unset TESSERA_DRY
done
sbatch clone.sbatch first.deck > "$work/out" 2>&1; code=$?
check "a clone's job, submitted elsewhere, ends with 2" test $code = 2
check "and says what to set" grep -q 'TESSERA_JOBS names its folder' "$work/out"
check "cluster.env names the program" test "$(TESSERA=; . "$TESSERA_JOBS/cluster.env"; echo "$TESSERA")" = "$tree/bin/tessera"

# ---- the library ------------------------------------------------
if command -v pkg-config > /dev/null; then
  check "the .pc's version" test "$(pkg-config --modversion tessera)" = "$version"
  cc=$(pkg-config --variable=cc tessera)
  check "the manual's program is built" $cc -std=gnu11 -Wall -Werror -o seeds seeds.c $(pkg-config --cflags --libs tessera)
  sed 's/steps = 200/steps = 30/' "$TESSERA_INPUT/example.deck" > few.deck
  check "it runs" into seeds.out mpirun -q -n 2 ./seeds few.deck
  check "it read the deck" grep -q "^seed 3: 5 tables, to $PWD/runs/seed3" seeds.out
  for seed in 1 2 3; do check "it trained, seed $seed" test -s runs/seed$seed/checkpoints/step-00000030.h5; done
  mpirun -q -n 2 ./seeds none.deck 2> err; code=$?
  check "its errors are the program's" test $code = 2 -a "$(grep -c '^tessera: error: .*none.deck' err)" = 1
  sed -n 's|^\./include/tessera/\(.*\.h\)$|#include "\1"|p' "$work/files" > all.c
  check "headers: $(wc -l < all.c)" test "$(wc -l < all.c)" -gt 150
  check "they compile together" $cc -std=c11 -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags tessera) all.c
  # The one that scores: of a compiler that knows nothing of MPI.
  printf 'colour,label\nred,1\nblue,0\nred,1\ngreen,0\n' > colours.csv
  echo 'run = { name = "colours"; epochs = 40.0; }; data = { train = "colours.csv"; global_batch = 4; columns = ( { name = "colour"; kind = "ids"; encoding = "vocabulary"; }, { name = "label"; kind = "label"; } ); };
    tables = ( { name = "c"; rows = "auto"; dim = 4; features = "colour"; } ); model = { layers = ( { name = "y"; kind = "linear"; in = "embeddings"; units = 1; } ); }; optimizer = { kind = "adam"; lr = 0.1; };' > colours.deck
  check "a model of colours" tessera train colours.deck --quiet
  check "exported" tessera export colours.deck --quiet --format serve --out model.tserve
  check "tessera_serve's version" test "$(pkg-config --modversion tessera_serve)" = "$version"
  check "the manual's program that scores is built" cc -std=c99 -Wall -Wextra -Werror -o score score.c $(pkg-config --cflags --libs tessera_serve)
  check "it runs" into scores env LD_LIBRARY_PATH="$tree/lib" ./score
  check "red is liked, and blue is not" awk '{ exit !($1 > 0.8 && $2 < 0.2) }' scores
  check "it needs no MPI" sh -c '! LD_LIBRARY_PATH="$0/lib" ldd ./score | grep -iE "mpi|hdf5"' "$tree"
else
  echo "left out: programs with the library: pkg-config is not here"
fi

# ---- and away ------------------------------------------------
files "$tree" > "$work/after"
check "nothing was written there" cmp "$work/files" "$work/after"
check "make uninstall" make_here uninstall prefix="$tree"
check "of a package" make_here uninstall DESTDIR="$work/package" prefix="$work/opt"
check "no file is left" test -z "$(files "$tree"; files "$work/package")"
check "no folder of its own is left" test -z "$(find "$tree" "$packaged" -name 'tessera*')"
passed
