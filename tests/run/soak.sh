#!/bin/sh
# soak.sh - jobs/soak in short: runs of several ranks that are killed all the time
# come to the end of one that was left alone, and one that goes on for a while
# grows in nothing.  sanitizers: none  seconds: 120
. "$srcdir/tests/support/common.sh"
[ -x "$srcdir/jobs/soak" ] || { echo "jobs/soak is in a clone alone"; exit 77; }
for needed in python3 h5diff; do command -v $needed > /dev/null || { echo "$needed is not here"; exit 77; }; done
[ -e /proc/self/task ] || { echo "/proc is not here"; exit 77; }
soak() { "$srcdir/jobs/soak" "$@" > "$work/said" 2>&1 || { cat "$work/said"; false; }; }
check "kills" soak kills 6 1 "$work/kills"
check "six of them" grep -q '^6 kills, .*, 0 lost' "$work/said"
check "a few more" soak kills 7 1 "$work/kills"
check "behind the others" grep -q '^7 kills' "$work/said"
check "long" soak long 0.1 "$work/long"
check "nothing has grown" grep -q '^all is well' "$work/said"
check "names of parts" [ "$("$srcdir/jobs/soak" short 2>&1 | grep -c 'jobs/soak long\|jobs/soak kills')" = 2 ]
passed
