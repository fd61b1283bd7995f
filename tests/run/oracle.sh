#!/bin/sh
# oracle.sh - the graphs that come with the program against PyTorch models of
# the same initial weights (tests/oracle, jobs/oracle): losses of 20 steps, and
# sums over the parameters after them, on any ranks and pipelines.
# TESSERA_BACKEND names what they run on, TESSERA_ORACLE one of them.  seconds: 400
. "$srcdir/tests/support/common.sh"
not_sanitized
cases=$srcdir/tests/oracle/cases

# Of each parameter: name, sum, sum of squares, sum with weights 1 / n .. n / n,
# sum of absolute values.
sums() { # CHECKPOINT
  h5dump -y -m %.9g -g /model "$1" | awk '
    function flush(  k, a, b, c, d) {
      if (name == "" || !n) return
      for (k = 1; k <= n; k++) { a += w[k]; b += w[k] * w[k]; c += k / n * w[k]; d += w[k] < 0 ? -w[k] : w[k] }
      printf "%s %.9g %.9g %.9g %.9g\n", name, a, b, c, d
      n = 0
    }
    /DATASET "/ { flush(); name = $2; gsub(/"/, "", name) }
    /ATTRIBUTE "/ { flush(); name = "" }
    /DATA \{/ { on = name != ""; next }
    /\}/ { on = 0 }
    on { gsub(/,/, " "); for (i = 1; i <= NF; i++) w[++n] = $i }
    END { flush() }'
}
losses_agree() { # TEXT RUN
  losses "$2" > "$work/x"
  sed -n 's/^loss [0-9]* //p' "$1" | paste - "$work/x" | awk '
    { d = $1 - $2; if (d < 0) d = -d; if (!($1 > 0.1 && d <= 1e-5 * $1)) { print "step " NR ": PyTorch, tessera: " $0; bad = 1 } }
    END { exit bad || NR != 20 }'
}
parameters_agree() { # TEXT CHECKPOINT
  sums "$2" > "$work/x"
  awk -v there="$(grep -vc '^loss ' "$1")" '
    function far(a, b, scale,  d) { d = a - b; if (d < 0) d = -d; return !(d <= 2e-6 * scale + 1e-7) }
    NR == FNR { if ($1 != "loss") { s[$1] = $2; q[$1] = $3; r[$1] = $4 } next }
    !($1 in s) { print $1 " is not in the oracle"; bad = 1; next }
    { n++ }
    far($2, s[$1], $5) || far($3, q[$1], 2 * $3) || far($4, r[$1], $5) {
      print "PyTorch: " $1, s[$1], q[$1], r[$1]; print "tessera: " $0; bad = 1 }
    END { exit bad || n != there }' "$1" "$work/x"
}

# The machines of a named backend may lack what reads checkpoints.
no_parameters=''
[ -z "${TESSERA_BACKEND:-}" ] || command -v h5dump > /dev/null || { no_parameters=1; echo "h5dump is not here: losses alone"; }
set -- base sparse_dist fused_sparse_dist
for deck in "$cases"/${TESSERA_ORACLE:-*}.deck; do
  name=$(basename "$deck" .deck)
  sed "s/^run = {/&${TESSERA_BACKEND:+ backend = \"$TESSERA_BACKEND\";}/" "$deck" > "$work/small.deck"
  [ -z "${TESSERA_BACKEND:-}" ] || check "$name: on $TESSERA_BACKEND" grep -q "^run = { backend" "$work/small.deck"
  data=data; all="1 2 4"
  ! grep -q '"none"; features' "$deck" || { data=sequences; all="1 2"; }
  [ -z "${TESSERA_BACKEND:-}" ] || all=1
  for ranks in $all; do
    train $ranks "$name$ranks" --set "data.train=$cases/$data.csv" --set "pipeline.kind=$1" || exit 1
    check "$name: losses on $ranks ranks, $1" losses_agree "$cases/$name.txt" "$name$ranks"
    [ -n "$no_parameters" ] || check "$name: parameters on $ranks ranks, $1" parameters_agree "$cases/$name.txt" "$(newest "$name$ranks")"
    set -- "$2" "$3" "$1"
  done
  set -- "$2" "$3" "$1"
done
for deck in "$srcdir"/input/models/*.deck; do
  name=$(basename "$deck" .deck)
  check "a case of $name" test -f "$cases/$name.txt"
done
passed
