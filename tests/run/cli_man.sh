#!/bin/sh
# cli_man.sh - the man page names every command, option and exit code, and is
# well-formed where mandoc is there to say so.
set -u
page=$srcdir/doc/tessera.1
failed=0; n_checks=0
text=$(sed 's/\\f.//g; s/\\-/-/g; s/"//g' "$page")
has() {
  n_checks=$((n_checks + 1))
  printf '%s\n' "$text" | grep -q -- "$1" || {
    echo "FAILED: the man page lacks: $1"
    failed=1
  }
}
for command in $("$TESSERA" --help | sed -n 's/^  \([a-z-]\{1,\}\).*/\1/p'); do
  has "^\.B[IR]* *$command"
done
for option in $({ "$TESSERA" --help
  for command in $("$TESSERA" --help | sed -n 's/^  \([a-z-]\{1,\}\) .*/\1/p'); do "$TESSERA" "$command" --help; done; } | grep -o -- '--[a-z-]*' | sort -u); do
  has "$option"
done
for code in 0 1 2 3 4 5 6 75; do has "^\.B $code\$"; done
if command -v mandoc >/dev/null; then
  mandoc -Tlint -W warning "$page" || failed=1
else
  echo "left out: the form of the page: mandoc is not here"
fi
[ $failed = 0 ] && echo "100%: Checks: $n_checks, Failures: 0, Errors: 0"
exit $failed
