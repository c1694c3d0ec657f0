# Shared by the other scripts; sourced with the repository's root as working directory.

# Objects are found again in another clone, and in another build directory.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD

# Where scripts/setup puts what it fetches.
cache_directory() { echo "${BARGE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/barge}"; }

# is_cuda_root DIRECTORY: whether it has nvcc 12 or later and what libbarge_cuda.so is linked with.
is_cuda_root() {
  local release
  release=$("$1/bin/nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  [[ -n $release ]] && (( release >= 12 )) &&
    [[ -f $1/include/cublasLt.h && -e $1/lib64/libcublasLt.so && -f $1/lib64/libcudart_static.a ]]
}

# cuda_root: the CUDA toolkit to build with: $CUDA_HOME, the usual place, that of the nvcc in $PATH,
# or what `scripts/setup --cuda` fetched. Fails if there is none.
cuda_root() {
  local root in_path
  in_path=$(readlink -f "$(command -v nvcc || true)" || true)
  for root in "${CUDA_HOME-}" /usr/local/cuda "${in_path%/bin/nvcc}" "$(cache_directory)/cuda"; do
    if [[ $root && -x $root/bin/nvcc ]] && is_cuda_root "$root"; then
      echo "$root"
      return
    fi
  done
  return 1
}

# configure PRESET [CMAKE ARGUMENTS...]: silent unless it fails.
configure() {
  local preset=$1 log cuda; shift
  if [[ $preset == cuda ]]; then
    if ! cuda=$(cuda_root); then
      echo "configure: no CUDA toolkit of version 12 or later; scripts/setup --cuda fetches one" >&2
      return 1
    fi
    set -- -DCMAKE_CUDA_COMPILER="$cuda/bin/nvcc" -DCUDAToolkit_ROOT="$cuda" "$@"
  fi
  log=$(mktemp)
  if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "configure: cmake --preset $preset failed; scripts/setup installs what it needs" >&2
    return 1
  fi
  rm -f "$log"
}

# targets PRESET: the names of all programs and libraries, one a line.
targets() { ninja -C "build/$1" -t targets all 2>/dev/null | sed -n 's/: .*//p' | grep -v /; }

# cuda_targets PRESET: the plug-in, or its emulation, and what tests and measures it.
cuda_targets() {
  targets "$1" | grep -E '^(barge_cuda(_emulation)?|cuda_([a-z_]+_)?(test|bench))$' | sort -u
}

# build PRESET TARGETS...: ninja's own progress on a terminal, a line every ten seconds elsewhere.
build() {
  local preset=$1 line last=$SECONDS; shift
  if [[ -t 1 ]]; then
    NINJA_STATUS='[%f/%t %es] ' cmake --build "build/$preset" --target "$@"
    return
  fi
  cmake --build "build/$preset" --target "$@" 2>&1 | while IFS= read -r line; do
    if [[ $line != \[*/*\]* ]]; then
      echo "$line"  # what the compiler says
    elif (( SECONDS - last >= 10 )); then
      echo "$line"
      last=$SECONDS
    fi
  done
  return "${PIPESTATUS[0]}"
}
