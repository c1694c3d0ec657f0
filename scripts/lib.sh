# Shared by build, test and demo; sourced with the repository's root as working directory.

# Objects are found again in another clone, and in another build directory.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD

# configure PRESET [CMAKE ARGUMENTS...]: silent unless it fails.
configure() {
  local preset=$1 log; shift
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
