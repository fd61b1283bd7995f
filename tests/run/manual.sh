#!/bin/sh
# manual.sh - the manual says what the program says: messages, keys, files and
# commands that it names are there, its deck is one; it is well-formed, and its
# links lead somewhere, where makeinfo is there to say so.
[ -z "${TESSERA_SANITIZED:-}" ] || { echo "runs without sanitizers only: it reads texts"; exit 77; }
set -u
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
n_checks=0 failed=0
fail() { echo "FAILED: $*"; failed=$((failed + 1)); }
doc=$srcdir/doc
# Texinfo's own signs away.
plain() { sed 's/@dots{}/.../g; s/@\([@{}]\)/\1/g'; }

# Each message is part of one text of the source, in which "..." stands for
# whatever is put in or left out.  One line a source file; \001 is a quote
# within a text.
find "$srcdir/src" "$srcdir/io" "$srcdir/cuda" '(' -name '*.c' -o -name '*.cu' ')' -exec awk '
  FNR == 1 && NR > 1 { print "" } { printf "%s ", $0 } END { print "" }' {} + |
  sed "s/'\"'//g; s/\\\\\"/\x01/g; s/\"  *\"//g" > "$dir/texts"
sed -n 's/^@itemx* //p' "$doc"/messages*.texi | plain | tr '"' '\001' |
  sed 's/\.\.\./\x02/g; s/[][\\.*^$+?(){}|]/\\&/g; s/\x02/[^"]*/g' > "$dir/messages"
while IFS= read -r message; do
  n_checks=$((n_checks + 1))
  grep -qE -- "$message" "$dir/texts" || fail "no such message: $message"
done < "$dir/messages"
[ $n_checks -gt 100 ] || fail "only $n_checks messages"

# Keys.
"$TESSERA" help deck --texinfo > "$dir/deck.texi" || fail "help deck --texinfo"
"$TESSERA" help model --texinfo > "$dir/kinds.texi" || fail "help model --texinfo"
cat "$doc"/*.texi | grep -oE '@code\{[a-z_]+(\.[a-z0-9_]+)+( = [^}]*)?\}' |
  sed 's/@code{//; s/[ }].*//' | sort -u |
  grep -E '^(run|data|model|optimizer|dense|comm|sharding|pipeline|checkpoint|metrics|tables)\.' > "$dir/keys"
while read -r key; do
  n_checks=$((n_checks + 1))
  grep -qE "^@item $key(\.|\$)" "$dir/deck.texi" || fail "no such key: $key"
done < "$dir/keys"
[ "$(wc -l < "$dir/keys")" -gt 30 ] || fail "few keys"

# Files of the source, and commands.
for file in $(cat "$doc"/*.texi | grep -oE '@(file|command)\{(doc|input|jobs)/[^ }]*' | sed 's/.*{//' | sort -u); do
  n_checks=$((n_checks + 1))
  [ -e "$srcdir/$file" ] || fail "no such file: $file"
done
for command in $("$TESSERA" --help | sed -n 's/^  \([a-z-]\{1,\}\) .*/\1/p'); do
  n_checks=$((n_checks + 1))
  cat "$doc"/*.texi | grep -q "tessera $command" || fail "not in the manual: $command"
done

# The deck for a cluster is one.
sed -n '/^# criteo.deck/,/^@end/p' "$doc/cluster.texi" | grep -v '^@end' | plain > "$dir/criteo.deck"
SCRATCH=$dir "$TESSERA" plan "$dir/criteo.deck" --world 16 --ranks-per-node 4 \
  --topology "$srcdir/input/topology_example" > "$dir/plan" || fail "criteo.deck"
grep -q '^26 tables on 16 ranks of 4 nodes' "$dir/plan" || fail "criteo.deck: plan"

# So are the others; of data that are not here, they are read that far.
for deck in $(sed -n 's/^# \([a-z_]*\.deck\)$/\1/p' "$doc"/*.texi); do
  n_checks=$((n_checks + 1))
  cat "$doc"/*.texi | sed -n "/^# $deck/,/^@end/p" | grep -v '^@end' | plain > "$dir/$deck"
  SCRATCH=$dir "$TESSERA" plan "$dir/$deck" --world 64 > "$dir/plan" 2>&1 || grep -q "no such file" "$dir/plan" || fail "$deck: $(cat "$dir/plan")"
done

# Pictures: of each type of sharding and pipeline, as text and as SVG.
cp "$doc"/*.svg "$doc"/*.txt "$dir" 2> /dev/null
if command -v python3 > /dev/null; then
  python3 "$srcdir/jobs/manual-pictures" "$dir" || fail "manual-pictures"
fi
for name in $(sed -n 's/^@picture{\([^,]*\),.*/\1/p' "$doc"/*.texi); do
  n_checks=$((n_checks + 1))
  [ -s "$dir/$name.svg" ] && [ -s "$dir/$name.txt" ] || fail "no picture: $name"
done
for kind in $("$TESSERA" help pipeline.kind | sed -n 's/.*text; \([^;]*\);.*/\1/p' | tr -d '|') \
  $("$TESSERA" help tables.sharding | sed -n 's/.*text; auto | \([^;]*\);.*/\1/p' | tr -d '|'); do
  n_checks=$((n_checks + 1))
  grep -q "^@picture{[a-z]*-$kind," "$doc"/*.texi || fail "no picture of $kind"
done

# The form.
if (makeinfo --version) > /dev/null 2>&1; then
  touch "$dir/tessera.info" "$dir/tessera.html"
  (cd "$dir" && makeinfo --no-split -I "$dir" -I "$doc" -o tessera.info "$doc/tessera.texi" &&
    makeinfo --html --no-split -I "$dir" -I "$doc" -o tessera.html "$doc/tessera.texi") > "$dir/warnings" 2>&1 ||
    fail "makeinfo"
  [ ! -s "$dir/warnings" ] || { fail "makeinfo warns"; head -n 20 "$dir/warnings"; }
  grep -oE "(id|name)=[\"'][^\"']*" "$dir/tessera.html" | sed "s/.*=[\"']//" | sort -u > "$dir/places"
  grep -oE "href=[\"']#[^\"']*" "$dir/tessera.html" | sed 's/.*#//' | sort -u > "$dir/links"
  n_checks=$((n_checks + $(wc -l < "$dir/links")))
  comm -23 "$dir/links" "$dir/places" > "$dir/lost"
  [ ! -s "$dir/lost" ] || fail "links that lead nowhere: $(cat "$dir/lost")"
  for picture in $(grep -oE '<img src="[^"]*"' "$dir/tessera.html" | sed 's/.*="//; s/"//'); do
    n_checks=$((n_checks + 1))
    [ -s "$dir/$picture" ] || fail "no picture: $picture"
  done
  [ "$(grep -c '<img ' "$dir/tessera.html")" -ge 12 ] || fail "pictures are missing in HTML"
  grep -aq '|11113333|' "$dir/tessera.info" || fail "info lacks the text of pictures"
else
  echo "left out: the form and links of the manual: makeinfo is not here"
fi
echo "100%: Checks: $n_checks, Failures: $failed, Errors: 0"
[ $failed = 0 ]
