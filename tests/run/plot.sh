#!/bin/sh
# plot.sh - `tessera plot`: drawings of runs that were trained, resumed, broken
# off; its messages and codes; those of `tessera trace`, too.
. "$srcdir/tests/support/common.sh"

says() { # what, code, text, arguments of plot, or of what $command is...
  what=$1 code=$2 text=$3; shift 3
  "$TESSERA" ${command:-plot} "$@" > "$work/out" 2>&1; rc=$?
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
check "lines of four figures and two runs" [ "$(grep -c '<polyline.*width="1.6"' "$work/x.svg")" = 8 ]
check "thin ones of three evaluations" [ "$(grep -c '<polyline.*width="0.8"' "$work/x.svg")" = 6 ]
check "a resumed run has double points" [ "$(points 1)" = 20 ]
check "a run at a time" [ "$(points 2)" = 20 ]
check "evaluations at 10, 20, 30, 40 of three figures" [ "$(marks)" = 24 ]
check "paper without colours" has 'stroke-dasharray="7 3"'
check "nothing to note" [ ! -s "$work/out" ]

# In several files, gone on with amidst them, killed before one has its number,
# and before the next is there: the lines and the drawing of one.
lines_of() {
  for n in $(ls "$work/$1" | sed -n 's/^metrics\.\([0-9]*\)\.jsonl$/\1/p' | sort -n); do cat "$work/$1/metrics.$n.jsonl"; done |
    cat - "$work/$1/metrics.jsonl" | grep -v '"checkpoint":true' | sed 's/,"\(samples_per_s\|seconds\)":[^,}]*//'
}
few="--set run.eval_every=10 --set run.log_every=2 --set checkpoint.keep=9 --set metrics.rotate_mib=0.0003"
check "several files" train 2 cut $few --set checkpoint.every=6 --set run.steps=20
check "some" [ -s "$work/cut/metrics.3.jsonl" ]
rm "$work"/cut/checkpoints/step-*[12]?.h5
if has_faults; then
  for fault in rename:rank0:nth1 rename:rank0:nth3 open:rank0:nth14 open:rank0:nth17 open:rank0:nth20; do
    (export TESSERA_FAULT=$fault:KILL; train 2 cut $few) > /dev/null 2>&1
    check "$fault: killed" [ $? = 137 ]
  done
  check "amidst it" [ -s "$work/cut/metrics.4.jsonl" ]
fi
check "going on" train 2 cut $few
lines_of whole > "$work/x"; lines_of cut > "$work/y"
check "the same lines" cmp "$work/x" "$work/y"
check "a drawing" draws "$work/whole" --what loss,ne,auc
sed 's/>whole\([<,]\)/>cut\1/' "$work/x.svg" > "$work/whole.svg"
check "of several files" draws "$work/cut" --what loss,ne,auc
check "the same" cmp "$work/x.svg" "$work/whole.svg"

check "one figure" draws "$work/parts" --what auc
check "only AUC, its curve and its evaluations" [ "$(grep -c '<polyline' "$work/x.svg")" = 2 ]

check "no PNG" sh -c "! '$TESSERA' plot '$work/parts' --out '$work/x.png' 2> '$work/err' && grep -q 'give a name that ends with .svg' '$work/err' && test ! -e '$work/x.png'"

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

# To the byte: who changes a drawing looks at it and puts its new sum here.
sum_is() { # SUM FILE
  [ "$(cksum < "$2")" = "$1" ] || { echo "not $1 but $(cksum < "$2")"; cat "$2"; false; }
}
for scale in 1e-12 0.0003 1 1700 9e3 1e7 3e10 7e13; do # of an axis
  awk -v s=$scale 'BEGIN { for (i = 0; i < 9; i++) printf "{\"step\":%d,\"loss\":%.9g,\"samples\":%.9g}\n", i, s * (i * i % 7 - 1), 99 * s * i }' > "$work/at$scale.jsonl"
  check "scale $scale" draws "$work/at$scale.jsonl" --what loss
  cat "$work/x.svg" >> "$work/scales"
done
check "numbers of all sizes" sum_is "1213924231 20251" "$work/scales"
awk 'BEGIN { for (i = 1; i < 3000; i++) { # more than pixels, two tasks, one of them late
    printf "{\"step\":%d,\"loss\":%.6f,\"samples\":%d,\"samples_per_s\":%d,\"window_ne\":%.6f}\n", i, 1 / i + i % 13 / 40, 64 * i, 5e4 + i * 7919 % 4099, 0.9 - i / 9e4 }
    for (i = 1; i < 4; i++) { # at and between steps
      if (i > 1) printf "{\"step\":%d,\"eval\":true,\"task\":\"buy\",\"ne\":0.%d,\"logloss\":7}\n", 2996 + i, 7 * i
      printf "{\"step\":%d,\"eval\":true,\"task\":\"click\",\"ne\":0.%d,\"auc\":0.7%d}\n", 2996 + i, 9 * i, 8 * i } }' > "$work/tasks.jsonl"
check "three runs" draws "$work/one.jsonl" "$work/at1.jsonl" "$work/tasks.jsonl" --smooth 3
check "they are as they were" sum_is "1220159135 45801" "$work/x.svg"
check "two figures" draws "$work/tasks.jsonl" --what ne,auc
check "beside each other" sum_is "203599427 17824" "$work/x.svg"

# Spans as a trace: name, kind, rank, row, start, length, phase, batch, bytes.
awk 'BEGIN { print "{\"otherData\":{\"program\":\"tessera\"},\"traceEvents\":[" }
  { printf "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s,\"args\":{\"phase\":\"%s\",\"batch\":%d,\"bytes\":%d}},\n", $1, $2, $3, $4, $5, $6, $7, $8, $9 }
  END { print "{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"out<&>\"}}]}" }' > "$work/trace" <<'T'
lookup compute 0 0 1000 300 forward 7 0
lookup compute 1 1 1010.5 280.25 forward 7 0
optimizer compute 0 1 1200 200 backward 6 0
dist comm 0 2 1100 500 forward 8 1024
dist comm 1 2 900 350 forward 8 2048
dist comm 1 2 1300 100 backward 6 64
read data 1 3 1005 20 - 10 4096
read data 0 3 1400 50 - 11 0
check data 0 3 1640 120 - 0 0
wait wait 0 0 1300 100 - 7 0
loss compute 0 0 1400 90 forward 7 0
loss compute 1 1 1300.75 0.1 forward -1 0
lookup compute 0 0 1600 300 forward 8 0
optimizer compute 0 1 1605 25 backward 7 0
optimizer compute 0 1 1850 9.5 backward 123456 0
T
printf '{"otherData":{"program":"tessera"},"traceEvents":[]}' > "$work/none"
check "summary" "$TESSERA" trace summary "$work/trace" > "$work/summary"
check "its lines" diff "$work/summary" - <<'T'
2 ranks, batches 0 to 123456, 1.000 ms; times in ms, averages of a rank

stage                      lane      spans        sent       time     hidden    exposed  % hid   exp. min   exp. max
lookup                     compute       3                  0.440      0.000      0.440    0.0      0.280      0.600
optimizer                  compute       3                  0.117      0.067      0.050   57.4      0.000      0.100
loss                       compute       2                  0.045      0.000      0.045    0.0      0.000      0.090
read                       data          2     4.0 KiB      0.035      0.032      0.003   92.1      0.000      0.005
check                      data          1                  0.060      0.060      0.000  100.0      0.000      0.000
dist, forward              comm          2     3.0 KiB      0.425      0.315      0.110   74.1      0.110      0.111
dist, backward             comm          1        64 B      0.050      0.000      0.050    0.1      0.000      0.100
wait                       wait          1                  0.050      0.000      0.050    0.0      0.000      0.100
T
: > "$work/traces"
for what in '' '--steps 7:9' '--steps 7:8' '--steps 8:9 --rank 0' '--rank 1'; do
  check "trace plot $what" "$TESSERA" trace plot "$work/trace" $what -o "$work/x.svg"
  cat "$work/x.svg" >> "$work/traces"
done
# The legends of all five: "#rrggbb stage".
sed -n 's/^<rect.*fill="\(#[^"]*\)"\/><text[^>]*>\(.*\)<.text>$/\1 \2/p' "$work/traces" | sort -u > "$work/legend"
check "eight stages" [ "$(cut -d' ' -f2- "$work/legend" | sort -u | wc -l)" = 8 ]
check "a stage has one colour in every drawing" [ "$(wc -l < "$work/legend")" = 8 ]
check "drawings of it" sum_is "1212969804 23320" "$work/traces"
command=trace
for rank in 2 -1 x 1x ''; do says "rank $rank" 2 "--rank $rank: the trace has ranks 0 to 1" plot "$work/trace" -o "$work/y.svg" --rank "$rank"; done
says "no batches" 2 'no spans of batches 90 to 91' plot "$work/trace" -o "$work/y.svg" --steps 90:92
says "no spans" 3 'the trace has no spans to draw' plot "$work/none" -o "$work/y.svg"
for steps in 7:7 7 -1:2 7:x 7:8x :8; do says "steps $steps" 2 "--steps $steps is not A:B" plot "$work/trace" -o "$work/y.svg" --steps "$steps"; done
says "no file" 1 'No such file' summary "$work/none.json"
says "no --out" 2 'usage: tessera trace' plot "$work/trace"
says "two files" 2 'usage: tessera trace' summary "$work/trace" "$work/trace"
passed
