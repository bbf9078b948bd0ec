#!/usr/bin/env bash
# Plants errors by hand, one at a time, in a copy of the tree and says which bar goes red.
#
#   tests/planted/run.sh [NAME...]     all patches of this folder, or those named; prints a Markdown table
#
# A patch NAME.patch plants one error. Its header lines, above the diff, say what it is and which bars to run:
#   What: a view declares less than it touches
#   Bars: //tests/exec/ops:registry_test //tests/equivalence:touched_test
# Exit 0 when every planted error turned at least one of its bars red, 4 otherwise. The tree itself is not touched.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/tideline
copy=$cache/planted
mkdir -p "$copy" "$cache/bazel"

names=("$@")
if [ ${#names[@]} = 0 ]; then
  for file in "$here"/*.patch; do names+=("$(basename "$file" .patch)"); done
fi

fresh_copy() {  # an exact copy of the tracked files; Bazel keeps its output tree for this path between runs
  rm -rf "$copy" && mkdir -p "$copy"
  (cd "$root" && git ls-files -z | tar --null --files-from=- --create) | tar --extract --directory "$copy"
}

missed=0
echo '| planted error | bars that went red | bars that stayed green |'
echo '| --- | --- | --- |'
for name in "${names[@]}"; do
  patch_file=$here/$name.patch
  what=$(sed -n 's/^What: //p' "$patch_file")
  bars=$(sed -n 's/^Bars: //p' "$patch_file")
  fresh_copy
  if ! (cd "$copy" && GIT_CEILING_DIRECTORIES=$cache git apply "$patch_file" >&2); then
    echo "planted: $name.patch no longer applies: make it anew" >&2
    exit 5
  fi
  red=() green=()
  for bar in $bars; do
    echo "planted: $name: $bar" >&2
    if (cd "$copy" && bazel test --disk_cache="$cache/bazel" --test_output=summary "$bar") >"$cache/planted.log" 2>&1; then
      green+=("$bar")
    elif grep -q "$bar .*FAILED" "$cache/planted.log" && ! grep -q 'FAILED TO BUILD' "$cache/planted.log"; then
      red+=("$bar")
    else
      tail -20 "$cache/planted.log" >&2
      echo "planted: $name: $bar did not build, so it says nothing" >&2
      exit 70
    fi
  done
  [ ${#red[@]} -gt 0 ] || missed=$((missed + 1))
  printf '| %s | %s | %s |\n' "$what" "${red[*]:-none}" "${green[*]:-none}"
done
[ "$missed" = 0 ] || { echo "planted: $missed errors turned no bar red" >&2; exit 4; }
