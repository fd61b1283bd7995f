#!/bin/sh
# machine_code.sh - what nvcc made of the hot kernels, for sm_90: registers,
# nothing spilled, loads and stores of 128 bits, instructions a run, each at
# most (or at least) as tests/kernels/machine_code.txt has it.  seconds: 300
# sanitizers: none (they are not in machine code)
skip() { echo "$1"; exit 77; }
[ -f cuda/sparse/row_update.o ] || skip "needs a build with CUDA: kernels of another have no machine code"
for folder in /usr/local/cuda/bin $(echo "$srcdir"/build-tools/lib/python3*/site-packages/nvidia/cu*/bin); do PATH=$PATH:$folder; done
for tool in cuobjdump nvdisasm c++filt python3; do
  command -v $tool > /dev/null || skip "needs $tool (cuobjdump and nvdisasm: jobs/check takes them from PyPI)"
done
cuobjdump -lelf cuda/sparse/row_update.o | grep -q sm_90 || skip "needs code for sm_90: configure --with-cuda-archs has others"
python3 "$srcdir/tests/run/machine_code.py" "$srcdir/tests/kernels/machine_code.txt" .
