#!/bin/sh
# plot.sh - `tessera plot`: drawings of runs that were trained, resumed, broken
# off; its messages and codes.
. "$srcdir/tests/support/common.sh"

says() { # what, code, text, arguments of plot...
  what=$1 code=$2 text=$3; shift 3
  "$TESSERA" plot "$@" > "$work/out" 2>&1; rc=$?
  check "$what: code $rc, not $code" [ $rc = "$code" ]
  check "$what: no \"$text\"" grep -qF -- "$text" "$work/out"
}
draws() { # arguments of plot...
  "$TESSERA" plot "$@" -o "$work/x.svg" > "$work/out" 2>&1 || { cat "$work/out"; return 1; }
  if command -v python3 > /dev/null; then # well-formed
    python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$work/x.svg"
  fi
}
has() { grep -q -- "$1" "$work/x.svg"; }
# Points of the N-th line, marks of all.
points() { grep -o 'points="[^"]*"' "$work/x.svg" | sed -n "$1p" | grep -o '[0-9.]*,[0-9.]*' | wc -l; }
marks() { grep -c '<title>.*step' "$work/x.svg"; }

# A run in two parts is one line; evaluations are marks.
train 2 parts --set run.steps=20 --set run.eval_every=10 --set run.log_every=2
printf '{"step":21,"loss":9}\n{"step":22,"lo' >> "$work/parts/metrics.jsonl" # behind the checkpoint
train 1 parts --set run.eval_every=10 --set run.log_every=2
check "lines behind the checkpoint are dropped" [ "$(grep -c '"loss":9}\|"lo$' "$work/parts/metrics.jsonl")" = 0 ]
train 2 whole --set run.eval_every=10 --set run.log_every=2
check "two runs" draws "$work/parts" "$work/whole/metrics.jsonl"
for text in 'loss (nats)' 'normalised entropy' '>AUC<' 'samples/s' '>parts<' '>whole<'; do
  check "no $text" has "$text"
done
check "lines of four figures and two runs" [ "$(grep -c '<polyline' "$work/x.svg")" = 8 ]
check "a resumed run has double points" [ "$(points 1)" = 20 ]
check "a run at a time" [ "$(points 2)" = 20 ]
check "evaluations at 10, 20, 30, 40 of three figures" [ "$(marks)" = 24 ]
check "paper without colours" has 'stroke-dasharray="7 3"'
check "nothing to note" [ ! -s "$work/out" ]

check "one figure" draws "$work/parts" --what auc
check "only AUC" [ "$(grep -c '<polyline' "$work/x.svg")" = 1 ]

# Half a line at the end, and names that are text in an SVG.
mkdir "$work/a<&b"
head -c -20 "$work/whole/metrics.jsonl" > "$work/a<&b/metrics.jsonl"
check "half a line" draws "$work/a<&b" --smooth 5
n_lines=$(grep -c '' "$work/a<&b/metrics.jsonl")
check "counted" grep -q "NOTE: .*: 1 of $n_lines lines could not be read" "$work/out"
check "name" has 'a&lt;&amp;b'

# Runs that lack figures, many points, one point, no window.
printf '{"step":1,"loss":0.5,"samples":10}\n' > "$work/one.jsonl"
check "one point" draws "$work/one.jsonl" "$work/parts"
check "what is missing" grep -q 'NOTE: one.jsonl has no figures of auc' "$work/out"
check "a point" has '<circle'
check "no figures" draws "$work/one.jsonl"
check "left out" grep -q 'no run has figures of ne: left out' "$work/out"
awk 'BEGIN { for (i = 1; i <= 100000; i++) printf "{\"step\":%d,\"loss\":%g,\"samples\":%d}\n", i, 1 / i, 10 * i }' > "$work/long.jsonl"
check "many points" draws "$work/long.jsonl" --what loss
check "no more than the eye sees" [ "$(wc -c < "$work/x.svg")" -lt 30000 ]
check "same names" draws "$work/parts" "$work/parts/metrics.jsonl"
check "paths" has "$work/parts/metrics.jsonl"

says "no run" 2 'usage: tessera plot' 
says "no --out" 2 'usage: tessera plot' "$work/parts"
says "figure" 2 '--what: no figure "los"; there are: loss, ne, auc, samples_per_s' "$work/parts" --out "$work/y.svg" --what auc,los
says "smooth" 2 '--smooth 0 is no number' "$work/parts" --out "$work/y.svg" --smooth 0
says "no such run" 3 'none/metrics.jsonl: No such file' "$work/none/metrics.jsonl" --out "$work/y.svg"
mkdir "$work/empty"
says "empty folder" 3 'empty/metrics.jsonl: No such file' "$work/empty" --out "$work/y.svg"
says "not metrics" 3 'no line of it is one of a run' "$work/small.deck" --out "$work/y.svg"
says "nothing" 3 'there is nothing to draw' "$work/one.jsonl" --what auc --out "$work/y.svg"
says "can't be written" 1 'No such file' "$work/parts" --out "$work/none/y.svg"
says "over its input" 2 'is a file to read' "$work/one.jsonl" --out "$work/one.jsonl"
check "nothing was drawn" [ ! -e "$work/y.svg" ]
check "input is whole" [ "$(wc -l < "$work/one.jsonl")" = 1 ]
passed
