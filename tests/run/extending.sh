#!/bin/sh
# extending.sh - each diff of doc/extending.md applies to the source as it is
# and touches no more files than a file of its own and two lists, a kernel four
# in all; the program with all of them trains, with the losses of what the new
# parts stand for, and the kernel computes.
# What `make` has built is used where the diffs leave it alone.  seconds: 60
. "$srcdir/tests/support/common.sh"
[ -z "${TESSERA_SANITIZED:-}" ] || { echo "runs without sanitizers only: what it adds is of the diffs"; exit 77; }
command -v patch > "$work/which" || { echo "needs patch"; exit 77; }
copy=$work/copy
mkdir "$copy"
cp -R "$srcdir/src" "$srcdir/io" "$srcdir/cuda" "$srcdir/input" "$copy"
cp config.h "$copy"

# $work/NAME.diff for each block, NAME the heading's last word.
awk -v to="$work" '/^## /{ name = $NF } /^```$/{ on = 0 } on { print > (to "/" name ".diff") } /^```diff$/{ on = 1 }' "$srcdir/doc/extending.md"
touched() { sed -n 's|^+++ b/||p' "$work/$1.diff"; }
parts="model layer optimizer type pipeline format"
for name in $parts; do
  check "$name: a file and a line in two lists" [ "$(touched $name | wc -l)" = 3 ]
  check "$name: one line each" [ "$(sed '/^--- .dev.null/,$d' "$work/$name.diff" | grep -c '^[-+][^-+]')" = 2 ]
  check "$name applies" patch -s -p1 -F0 -d "$copy" -i "$work/$name.diff"
done

sh "$copy/src/model/zoo_decks.sh" "$copy"/input/models/*.deck > "$copy/src/model/zoo_decks.h"

# What `make` has built serves but for new files, and those that depend on what
# the diffs change.
cat > "$work/print.mk" <<'MAKE'
print-compile: ; @echo '$(COMPILE)'
print-link: ; @echo '$(CCLD) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS)'
print-emulate: ; @echo '$(if $(emulated_cppflags),$(CXX) -x c++ $(emulated_cppflags) $(emulated_cxxflags))'
print-libs: ; @echo '$(CUDA_LIBS) $(LIBS)'
MAKE
of_make() { env -u MAKEFLAGS -u MFLAGS make -s -f Makefile -f "$work/print.mk" "print-$1" | tail -n 1; }
changed=$(for name in $parts; do cat "$work/$name.diff"; done | sed -n 's|^+++ b/\(.*\.[ch]\)$|\1|p' | sort -u | sed 's/\./\\./g' | paste -sd'|')
up_to_date() { # source
  deps=${1%/*}/.deps/$(basename "$1" .c).Po
  [ -f "$deps" ] && ! grep -qE "/($changed)( |\$)" "$deps"
}
sources=$(cat "$copy"/src/*/local.mk "$copy/io/local.mk" | grep -oE '(src|io)/[a-z0-9_/]+\.c' | grep -v serve/alone; echo src/commands/main.c)
for file in $sources; do up_to_date "$file" || echo "${file%.c}"; done | sort -u > "$work/stale"
compile=$(of_make compile | sed "s|-I$(echo "$srcdir" | sed 's/\./\\./g')|-I$copy|g; s| -I\. | -I$copy&|")
build() {
  xargs -P 2 -I@ $compile -O1 -c "$copy/@.c" -o "$copy/@.o" < "$work/stale" &&
    $(of_make link) -o "$work/tessera" src/commands/main.o $(sed "s|.*|$copy/&.o|" "$work/stale") libtessera.a $(of_make libs)
}
check "new files are among them" [ "$(grep -c -e square -e half_sgd -e last_wise -e patient -e numbers "$work/stale")" = 5 ]
check "builds" build

TESSERA=$work/tessera
cat > "$work/small.deck" <<'DECK'
run = { name = "small"; seed = 11; steps = 12; threads = 1; log_every = 1; };
data = { format = "synthetic"; global_batch = 32; synthetic = { samples = 384; eval_samples = 32; }; };
table_defaults = { rows = 60; dim = 8; sharding = "table_wise"; optimizer = { kind = "sgd"; lr = 0.25; }; };
tables = ( { name = "t{0..4}"; features = ["C{1..5}"]; } );
model = { kind = "sparsenn"; over_arch = [16, 1]; };
sharding = { topology = "default"; };
DECK
is_base() { # folder, options
  train 2 "$@" && [ "$(losses "$1" | wc -l)" = 12 ] && close_losses "$1" base 0 12
}
check "base" train 2 base
check "the model has sparsenn's losses" is_base model --set model.kind=flat --set model.over_arch=[1]
layers() { echo "model.layers=({name=\"h\";kind=\"mlp\";in=\"embeddings\";units=[16];},{name=\"q\";$1},{name=\"y\";kind=\"linear\";in=\"q\";units=1;})"; }
train 2 product --set model.over_arch=[1] --set "$(layers 'kind="multiply";in=["h","h"];')" && train 2 layer --set model.over_arch=[1] --set "$(layers 'kind="square";in="h";')" || exit 1
check "the layer has the losses of a product with itself" close_losses layer product 1e-6 12
check "the optimizer has sgd's at half the rate" is_base optimizer --set table_defaults.optimizer.kind=half_sgd --set table_defaults.optimizer.lr=0.5
check "the sharding type has table_wise's" is_base type --set table_defaults.sharding=last_wise
check "the pipeline has base's" is_base pipeline --set pipeline.kind=patient

# Criteo's text without the dense features, its ids no longer hexadecimal.
"$TESSERA" generate "$work/small.deck" --quiet --out "$work/log.tsv" --format criteo_tsv || exit 1
awk -F '\t' '{ line = $1
  for (k = 15; k < 20; k++) {
    id = 0
    for (i = 1; i <= length($k); i++) id = 16 * id + index("0123456789abcdef", substr($k, i, 1)) - 1
    line = line " " id
  } print line }' "$work/log.tsv" > "$work/log.txt"
check "the format" train 2 format --set data.format=numbers --set "data.train=$work/log.txt"
check "the format has the same data" close_losses format base 0 12
"$TESSERA" help deck > "$work/help" || exit 1
for name in flat half_sgd last_wise patient numbers; do
  check "tessera help knows $name" grep -qw "$name" "$work/help"
done
"$TESSERA" plan "$work/small.deck" --world 4 --set table_defaults.sharding=auto --set table_defaults.allow=last_wise > "$work/plan" || exit 1
check "the planner takes the type" grep -q '5 last_wise' "$work/plan"
sed 's/ [0-9]*$//' "$work/log.txt" > "$work/bad.txt"
train 1 bad --set data.format=numbers --set "data.train=$work/bad.txt" 2> "$work/says"
check "the format refuses short lines" grep -q 'lacks a number' "$work/says"

# The kernel, in a copy of its own: most files read the table of kernels.
kernel=$work/kernel
mkdir "$kernel"
cp -R "$srcdir/src" "$srcdir/io" "$srcdir/cuda" "$srcdir/tests" config.h "$kernel"
check "kernel: four files" [ "$(touched kernel | wc -l)" -le 4 ]
check "kernel applies" patch -s -p1 -F0 -d "$kernel" -i "$work/kernel.diff"
cat > "$work/try.c" <<'C'
#include <stdio.h>
#include "runtime/backends.h"
int main(void) {
  ts_kernels k = {0};
  const float x[] = {-3, 0, 1};
  float y[3];
  ts_flat_kernels_host(&k);
  if (k.softsign(y, x, 3) != TS_OK) return 1;
  printf("%g %g %g\n", y[0], y[1], y[2]);
}
C
compile=$(echo "$compile" | sed "s|$copy|$kernel|g")
try() {
  $compile -O1 -c "$kernel/src/dense/flat.c" -o "$work/flat.o" &&
    $compile -O1 -c "$work/try.c" -o "$work/try.o" &&
    $(of_make link) -o "$work/try" "$work/try.o" "$work/flat.o" libtessera.a $(of_make libs) &&
    [ "$("$work/try")" = "-0.75 0 0.5" ]
}
check "the kernel computes" try
check "its cases compile" $compile -O1 -c "$kernel/tests/kernels/flat.c" -o "$work/cases.o"
# cuda/'s version, where the device of threads is built.
emulate=$(of_make emulate | sed "s|-I$(echo "$srcdir" | sed 's/\./\\./g')|-I$kernel|g")
[ -z "$emulate" ] || check "cuda/'s version compiles" $emulate -O0 -c "$kernel/cuda/dense/flat.cu" -o "$work/cuda.o"
passed
