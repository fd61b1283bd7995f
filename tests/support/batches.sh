# batches.sh - sourced behind common.sh by scripts that say which batches a run
# has: CSV files of numbered ones.
# Batches of 8 samples; "x" are the dense features.
head="label,x,y,z,fa,fb,fc,fd,fe,ff"
batch() { # number, "bad" or nothing
  for i in 1 2 3 4 5 6 7 8; do
    k=$(($1 * 8 + i))
    x=0.$((k % 9)),0.$((k % 7)),0.5
    [ -z "$2" ] || x=3e38,-3e38,3e38
    echo "$((k % 3 == 0)),$x,$(((k * 7 + k / 5) % 31)),$((k % 5)),$((k % 3)),$((k % 6)),$((k % 8)),$((k % 4))"
  done
}
data() { # file, batches: a number, or bad
  out=$1; shift
  { echo $head; for b in "$@"; do if [ "$b" = bad ]; then batch 5 bad; else batch "$b" ""; fi; done; } > "$work/$out"
}
# Cross layers square what they get, and no ReLU hides what comes of it.
csv() { # file
  echo "--set data.format=csv --set data.train=$work/$1 --set data.csv.dense=[\"x\",\"y\",\"z\"] --set data.csv.dense_transform=none --set data.global_batch=8 --set tables.e.weighted=false --set run.steps=10 --set model.kind=dcnv2 --set model.dcn.layers=2 --set model.dcn.rank=4 --set model.over_arch=[1]"
}
