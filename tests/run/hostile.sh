#!/bin/sh
# hostile.sh - what a deck says stays text: no shell, no way out through
# includes and names, nothing of other files in messages.  seconds: 300
set -u
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
n=0; failed=0
fail() { echo "FAILED: $*"; failed=$((failed + 1)); }

# refused CODE TEXT COMMAND...: its code, one message with TEXT.
refused() {
  code=$1 text=$2
  shift 2
  n=$((n + 1))
  timeout 300 "$@" > "$dir/out" 2> "$dir/err" < /dev/null
  rc=$?
  [ $rc = "$code" ] || fail "$*: code $rc, not $code"
  [ "$(grep -c '^tessera: error:' "$dir/err")" = 1 ] || fail "$*: not one message"
  grep -qF -- "$text" "$dir/err" || { fail "$*: no \"$text\""; cat "$dir/err"; }
}
# Nothing of the file that is no deck, which says "secret".
silent() {
  n=$((n + 1))
  if grep -q 'secret' "$dir/out" "$dir/err"; then fail "a message shows a file's content"; cat "$dir/err"; fi
}
deck() { # name, first lines...
  name=$1; shift
  printf '%s\n' "$@" > "$dir/$name"
  cat >> "$dir/$name" << 'DECK'
data = { format = "synthetic"; batch_per_rank = 4; };
tables = ( { name = "t"; rows = 100; dim = 4; features = ["f"]; } );
model = { dense_features = 2; dense_arch = [4]; over_arch = [1]; };
DECK
}

# No program is started by this one, but by tune: itself, behind the words of
# --launch, which the command line alone can say.  And nothing is loaded but
# Arrow's module, from beside the program or where that was installed: neither
# input nor the environment names it.
n=$((n + 1))
grep -nE '\b(system|popen|exec[lv]p?e?|posix_spawnp?|wordexp|fork|dlopen) *\(' \
  $(find "$srcdir/src" "$srcdir/io" "$srcdir/cuda" '(' -name '*.[ch]' -o -name '*.cu' ')' ! -path '*/src/commands/tune_run.c' ! -path '*/io/parquet_load.c') && fail "a call that starts programs"
n=$((n + 1))
grep -nE '\b(system|popen|exec[lv]p?e?|posix_spawnp?|wordexp|fork|getenv) *\(' "$srcdir/io/parquet_load.c" && fail "a module by the environment"

# Substitutions stay text, in names, paths and --set.
mkdir "$dir/x"
deck shell.deck 'run = { steps = 1; name = "$(touch x)`touch x`;touch x|"; output = "out;touch x"; };' \
  'checkpoint = { dir = "$(touch x)"; };'
n=$((n + 1))
(cd "$dir/x" && "$TESSERA" train ../shell.deck --quiet --set 'data.cache_dir=x' > "$dir/out" 2>&1)
(cd "$dir/x" && "$TESSERA" train ../shell.deck --quiet > "$dir/out" 2>&1) || { fail "a deck with shell's characters"; cat "$dir/out"; }
[ -d "$dir/out;touch x" ] || fail "output is not the folder that the deck says"
[ -f "$dir/\$(touch x)/step-00000001.h5" ] || fail "checkpoints are not in the folder that the deck says"
[ -e "$dir/x/x" ] && fail "a deck's text came to a shell"
[ -e "$dir/x" ] && [ -z "$(ls -A "$dir/x")" ] || fail "something is made where the program was started"

# Includes.
printf 'root:secret:0:0:secret:/root:/bin/sh\n' > "$dir/passwd"
printf 'secret = "secret' > "$dir/half"
mkdir "$dir/sub"
deck sub/up.deck '@include "../passwd"' 'run = { steps = 1; };'
refused 2 'passwd:1: syntax error' "$TESSERA" plan "$dir/sub/up.deck"; silent
deck absolute.deck "@include \"$dir/half\""
refused 2 '' "$TESSERA" plan "$dir/absolute.deck"; silent # older libconfigs know no absolute paths
refused 2 'syntax error' "$TESSERA" plan "$dir/passwd"; silent
refused 2 'syntax error' "$TESSERA" plan "$dir/half"; silent
deck zero.deck '@include "/dev/zero"'
refused 2 'zero.deck:1: /dev/zero is not a file' "$TESSERA" plan "$dir/zero.deck"
mkfifo "$dir/pipe"
deck pipe.deck 'run = { steps = 1; };' '  @include "pipe"'
refused 2 'pipe.deck:2:' "$TESSERA" plan "$dir/pipe.deck"
printf '# round\n@include "b.deck"\n' > "$dir/a.deck"
printf '\n\n@include "a.deck"\n' > "$dir/b.deck"
deck round.deck '@include "a.deck"'
refused 2 "/b.deck:3: includes itself: " "$TESSERA" plan "$dir/round.deck"
n=$((n + 1))
grep -qE '/a.deck -> .*/b.deck -> .*/a.deck$' "$dir/err" || fail "no chain of includes: $(cat "$dir/err")"
# Each twice the next: 2^20 files of no text.
for i in 0 1 2 3 4 5 6 7 8; do
  for k in 1 2 3 4 5 6; do printf '@include "%s"\n' "n$((i + 1))"; done > "$dir/n$i"
done
: > "$dir/n9"
deck wide.deck '@include "n0"'
refused 2 'includes make it over 1000 files' "$TESSERA" plan "$dir/wide.deck"
# What only looks like an include is none; one that is, is read.
printf 'run = { steps = 3; };\n' > "$dir/part"
printf 'run = { steps = 5000000000; };\n' > "$dir/long.part"
deck long.deck '@include "long.part"'
refused 2 'long.part: integers over 2147483647 end with L' "$TESSERA" plan "$dir/long.deck"
printf '# \0\n@include "/dev/zero"\n' > "$dir/nul.part"
deck nul.deck '@include "nul.part"'
refused 2 'nul.part is not a text' "$TESSERA" plan "$dir/nul.deck"
deck good.deck '/* "' '@include "/dev/zero"' '*/ # "' 'optimizer = { lr = 0.5; /*' '@include "pipe" */ };' '@include "part"'
n=$((n + 1))
"$TESSERA" plan "$dir/good.deck" 2 > "$dir/out" 2>&1 || { fail "a right include"; cat "$dir/out"; }
# Data from another file than what the deck thinks: plans, topologies.
refused 2 "passwd:1: this is no line of a plan" "$TESSERA" plan "$dir/good.deck" 2 --set sharding.plan="$dir/passwd"; silent
refused 2 "passwd:1: this is no line of a topology" "$TESSERA" plan "$dir/good.deck" 2 --topology "$dir/passwd"; silent
refused 2 "is not a file" "$TESSERA" plan "$dir/good.deck" 2 --set sharding.plan="$dir/pipe"
refused 3 "is not a file" "$TESSERA" train "$dir/good.deck" --set data.format=csv --set data.train="$dir/pipe"
refused 4 "is not a file" "$TESSERA" inspect "$dir/pipe"

# A NUL within a word; one column under two names.
printf 'y,x,u\n1,2,a\n0,3,a\0bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n' > "$dir/nul.csv"
cat > "$dir/csv.deck" << 'DECK'
run = { steps = 1; output = "csv"; };
data = { format = "csv"; train = "nul.csv"; global_batch = 2; csv = { label = "y"; dense = ["x"]; encoding = "vocabulary"; }; };
tables = ( { name = "u"; rows = 9; dim = 4; features = ["u"]; } );
model = { dense_features = 1; dense_arch = [4]; over_arch = [1]; };
DECK
n=$((n + 1))
"$TESSERA" train "$dir/csv.deck" --quiet > "$dir/out" 2>&1 || { fail "a NUL in a word"; cat "$dir/out"; }
sed '3s/features = .*/features = ["C1", "C01"]; } );/; s/"csv"; t/"criteo_tsv"; t/' "$dir/csv.deck" > "$dir/twice.deck"
refused 2 'two features name column C1' "$TESSERA" train "$dir/twice.deck" --set run.output="$dir/o"

# Names that are folders elsewhere.
for name in ../up /tmp/up .. ''; do
  deck name.deck "run = { steps = 1; name = \"$name\"; };"
  refused 2 'is no name for a run' "$TESSERA" plan "$dir/name.deck"
done
echo "100%: Checks: $n, Failures: $failed, Errors: 0"
[ $failed = 0 ]
