# shellcheck shell=bash
# Shared by tools/bench and tools/test: configures and builds a build folder, quietly. Sourced, not run.
# Expects `root`, the source folder.
: "${root:?}"

show_failure() {
  tail -n 60 "$2" >&2
  echo "$1 failed; the whole log: $2" >&2
}

# A build folder that a cut-off configuration left half made has no build.ninja or none of meson's own files.
configured() {
  [ -s "$1/build.ninja" ] && [ -s "$1/meson-private/coredata.dat" ] && [ -s "$1/meson-private/build.dat" ]
}

# Removes a build folder, only if it is one: empty, or with meson's marks.
remove_build() {
  [ -e "$1" ] || return 0
  if [ -d "$1" ] && { [ -z "$(ls -A "$1")" ] || [ -e "$1/meson-private" ] || [ -e "$1/meson-logs" ] || [ -e "$1/meson-info" ]; }; then
    rm -rf "$1"
    return
  fi
  echo "$1 is there but is no build folder of meson; move it away and try again" >&2
  return 1
}

configure() {
  local folder=$1 log
  shift
  log=$(mktemp "${TMPDIR:-/tmp}/ronde-configure.XXXXXX")
  if ! meson setup "$folder" "$root" "$@" > "$log" 2>&1; then
    show_failure "meson setup $folder" "$log"
    return 1
  fi
  rm -f "$log"
}

# True when ninja's log shows not a compile error but a folder that ninja or meson cannot use any more (cut off, another
# version, a moved tree).
unusable() {
  ! grep -q '^FAILED: .*\.\(o\|so\|a\)\b' "$1" && grep -q '^ninja: error\|^FAILED: build.ninja\|ERROR: ' "$1"
}

# configure_and_build FOLDER TARGETS MESON-ARGUMENTS...: TARGETS are words, maybe "all". One at a time for one source tree: two ninjas in
# one folder disturb each other.
configure_and_build() {
  local folder=$1 log=$1/build.log targets
  read -r -a targets <<< "$2"
  shift 2
  exec 9< "$root"
  flock 9
  if ! configured "$folder"; then
    remove_build "$folder" && configure "$folder" "$@" || return
  fi
  if ! ninja -C "$folder" "${targets[@]}" > "$log" 2>&1; then
    if unusable "$log"; then
      echo "$folder is unusable; configuring it from new" >&2
      remove_build "$folder" && configure "$folder" "$@" || return
      ninja -C "$folder" "${targets[@]}" > "$log" 2>&1
    else
      false
    fi || { show_failure "the build in $folder" "$log"; return 1; }
  fi
  exec 9<&-
}
