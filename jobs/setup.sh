# setup.sh - sourced by quickstart and check: packages, configure, build.
#
# set_up BUILD_FOLDER CONFIGURE_OPTIONS...   leaves the program in that folder.
top=$(cd "$(dirname "$0")/.." && pwd)
packages="gcc make autoconf automake pkg-config openmpi-bin libopenmpi-dev
libhdf5-openmpi-dev libdnnl-dev libconfig-dev libjansson-dev zlib1g-dev"
test_packages="hdf5-tools check python3 python3-h5py python3-numpy python3-venv procps
texinfo g++ libblas-dev"
slurm_packages="slurm-wlm munge"
fuzz_packages="clang libclang-rt-14-dev"

# Where nvcc is: cuobjdump and nvdisasm, which tell the registers and the shared
# memory of kernels, onto $PATH; PyPI has them, where nvcc's folder has not.
cuda_tools() { # folder for them
  command -v nvcc > /dev/null || [ -x /usr/local/cuda/bin/nvcc ] || return 0
  command -v cuobjdump > /dev/null && return 0
  [ -x "$1/bin/pip" ] || python3 -m venv "$1" || return 1
  ls "$1"/lib/python3*/site-packages/nvidia/cu*/bin/cuobjdump > /dev/null 2>&1 ||
    "$1/bin/pip" install -q nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm || return 1
  PATH=$(dirname "$1"/lib/python3*/site-packages/nvidia/cu*/bin/cuobjdump):$PATH; export PATH
}

# Apache Arrow of pyarrow, from PyPI: prints its folder, with which configure
# finds Parquet.
arrow_tools() { # folder for it
  [ -x "$1/bin/pip" ] || python3 -m venv "$1" >&2 || return 1
  ls -d "$1"/lib/python3*/site-packages/pyarrow > /dev/null 2>&1 || "$1/bin/pip" install -q pyarrow >&2 || return 1
  echo "$1"/lib/python3*/site-packages/pyarrow
}

missing_packages() {
  for p in "$@"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf ' %s' "$p"
  done
}

# Installs what is missing as root; else says what to install.
install_packages() {
  command -v dpkg-query > /dev/null || { echo "Not a Debian: see README for what is needed."; return 0; }
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    echo "Packages are missing. As root:" >&2
    echo "    apt-get install$missing" >&2
    exit 1
  fi
  echo "Installing:$missing"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing > "${TMPDIR:-/tmp}/tessera-packages.log" 2>&1 || {
    tail -n 20 "${TMPDIR:-/tmp}/tessera-packages.log" >&2
    echo "The packages could not be installed." >&2
    exit 1
  }
}

configure_in() { # build folder, options
  build=$1; shift
  if [ ! -x "$top/configure" ] || [ "$top/configure.ac" -nt "$top/configure" ]; then
    (cd "$top" && autoreconf -i > /dev/null) || exit 1
  fi
  mkdir -p "$build"
  (cd "$build" && "$top/configure" -q "$@") || exit 1
}
set_up() {
  configure_in "$@"
  make -s -C "$build" -j "$(nproc)" || exit 1
}

# take_over FROM TO: copies FROM's objects to TO, which has the same flags, except
# those that depend on a source naming what their two config.h have otherwise.
take_over() {
  names=$(diff "$1/config.h" "$2/config.h" | sed -nE 's/^[<>] .*(define|undef) (\w+).*/\2/p' | sort -u)
  [ -n "$names" ] || { echo "$2 is configured as $1" >&2; return 1; }
  (cd "$1" && find src io cuda tests '(' -name '*.o' -o -name '*.[dP]*' ')' -type f | tar -cf - -T -) | tar -xf - -C "$2" || return 1
  touch -r "$1/config.h" "$2/config.h"
  (cd "$top" && grep -rlwF --include='*.[ch]*' "$names" src io cuda tests) | sed 's|.*|/& \n/&:|' > "$2/asked"
  (cd "$2" && grep -rlF -f asked --include='*.Po' --include='*.d' src io cuda tests) |
    sed -E 's|\.deps/([^/]*)\.Po$|\1.o|; s|\.d$|.o|' | (cd "$2" && xargs rm -f)
}

# Open MPI refuses root and more ranks than cores unless told.
export OMPI_MCA_rmaps_base_oversubscribe=1
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
