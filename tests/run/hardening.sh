#!/bin/sh
# hardening.sh - what configure says of the build's protection, held against
# the program that was built.  seconds: 400
set -u
command -v readelf > /dev/null || { echo "readelf (binutils) is not here"; exit 77; }
words=$(sed -n 's/^#define TS_HARDENING "\(.*\)"$/\1/p' "$(dirname "$TESSERA")/config.h")
case $words in
" no" | " no,"*) echo "this build has none:$words"; exit 77 ;;
esac
n=0; failed=0
has() { # word, text, command...: the command's output has TEXT
  word=$1 text=$2; shift 2
  n=$((n + 1))
  "$@" "$TESSERA" 2> /dev/null | grep -Eq -- "$text" || { echo "FAILED: $word: no $text"; failed=$((failed + 1)); }
}
for word in $words; do
  case $word in
  pie) has pie '^ *Type: *DYN' readelf -hW ;;
  relro) has relro 'GNU_RELRO' readelf -lW ;;
  now) has now 'BIND_NOW|Flags:.* NOW' readelf -dW ;;
  noexecstack) has noexecstack 'GNU_STACK .* RW +0x' readelf -lW ;;
  stack-protector) has stack-protector '__stack_chk_fail' readelf --dyn-syms -W ;;
  fortify-*) has fortify '__(snprintf|vsnprintf|memcpy|fprintf)_chk' readelf --dyn-syms -W ;;
  cf-protection) has cf-protection 'endbr64' objdump -d --no-show-raw-insn ;;
  stack-clash) ;; # leaves nothing that could be named
  *) echo "FAILED: nothing is known of $word"; failed=$((failed + 1)) ;;
  esac
done
# Where the compiler is one of these, this much is to be had.
for word in pie relro now noexecstack stack-protector fortify; do
  case "$words " in
  *" $word"*) n=$((n + 1)) ;;
  *) echo "FAILED: configure found no $word"; failed=$((failed + 1)) ;;
  esac
done
echo "100%: Checks: $n, Failures: $failed, Errors: 0"
[ $failed = 0 ]
