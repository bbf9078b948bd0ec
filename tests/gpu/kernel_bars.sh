#!/bin/bash
# The bars of GPU kernels that need no GPU, as one table: registers, spills, stack and 128-bit accesses of every kernel.
#
#   tests/gpu/kernel_bars.sh            all kernels; about two minutes
#   tests/gpu/kernel_bars.sh norms.cu   those of some files
#
# Each source is compiled to PTX for sm_80 and sm_90 and assembled by ptxas. The command fails when a kernel spills a
# register, or when a memory-bound kernel (Map, Sum or Reduce over views) has no 128-bit access where it has an access
# to global memory of its operands. Exit codes: 0 all bars hold, 4 one does not, 6 there is no nvcc.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

cuda=
for folder in "${CUDA_HOME:-}" /usr/local/cuda "$(dirname "$(dirname "$(command -v nvcc || echo /none/bin/nvcc)")")"; do
  if [[ -x $folder/bin/nvcc && -x $folder/bin/ptxas ]]; then cuda=$folder; break; fi
done
if [[ -z $cuda ]]; then
  echo "kernel_bars: no nvcc and ptxas in \$CUDA_HOME, /usr/local/cuda or \$PATH" >&2
  exit 6
fi

# Kernels whose order of adding is a contract, whose elements lie apart, or that move a few numbers: their accesses are
# narrow, and neighbouring threads' accesses are contiguous.
readonly narrow='ParameterGrad|PositionGrad|SumLoss|ReduceRows|Rotary|Einsum|ReduceElements|CopyElements'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sources=()
for source in exec/ops/*.cu; do
  if (( $# == 0 )); then sources+=("$source"); fi
  for wanted in "$@"; do
    if [[ ${source##*/} == "${wanted##*/}" ]]; then sources+=("$source"); fi
  done
done
if (( ${#sources[@]} == 0 )); then
  echo "kernel_bars: no kernel source is called $*" >&2
  exit 2
fi

for source in "${sources[@]}"; do
  for sm in 80 90; do
    ptx=$work/$(basename "$source" .cu).$sm.ptx
    "$cuda/bin/nvcc" -std=c++20 -O3 -I. --expt-relaxed-constexpr -fmad=false "-arch=compute_$sm" -ptx "$source" -o "$ptx"
    "$cuda/bin/ptxas" -v -O3 "-arch=sm_$sm" "$ptx" -o "$ptx.cubin" 2> "$ptx.log"
  done
done

awk -v narrow="$narrow" -v work="$work" '
  # "..._attention_cu_ed488c0613CausalSoftmaxEJ...": after eight digits of a hash, the length of the name and the name.
  function kernel(mangled,   at, rest, size, text, types) {
    at = index(mangled, "_cu_")
    if (at == 0) return ""
    rest = substr(mangled, at + 12)
    match(rest, /^[0-9]+/)
    size = substr(rest, 1, RLENGTH) + 0
    text = substr(rest, RLENGTH + 1, size)
    rest = substr(rest, RLENGTH + 1 + size)
    types = ""
    if (rest ~ /^I[^J]*8BFloat16/) types = types " bf16"
    if (rest ~ /^I[^J]*7Float16/) types = types " fp16"
    if (rest ~ /^I[^J]*Lb1/) types = types " accumulate"
    return text types
  }
  FNR == 1 {
    n = split(FILENAME, path, "/")
    split(path[n], part, ".")
    sm = part[2]
    log_file = FILENAME ~ /\.log$/
  }
  log_file && /Compiling entry function/ { split($0, quoted, "\047"); entry = quoted[2] }
  log_file && /bytes stack frame/ { stack[entry, sm] = $1; spill[entry, sm] = $5 + $9; seen[entry] = part[1] }
  log_file && /Used [0-9]+ registers/ { match($0, /Used [0-9]+/); registers[entry, sm] = substr($0, RSTART + 5, RLENGTH - 5) }
  !log_file && /\.entry/ { match($0, /_Z[A-Za-z0-9_]+/); entry = substr($0, RSTART, RLENGTH) }
  !log_file && /(ld|st)\.global/ { accesses[entry, sm]++; if ($0 ~ /\.v4\.(b32|f32|u32)|\.v2\.(b64|u64|f64)/) wide[entry, sm]++ }
  END {
    format = "%-11s %-44s %9s %9s %6s %6s %9s %9s\n"
    printf format, "file", "kernel", "reg sm_80", "reg sm_90", "spills", "stack", "accesses", "128-bit"
    bad = 0
    for (entry in seen) {
      name = kernel(entry)
      if (name == "") continue
      spills = spill[entry, 80] + spill[entry, 90]
      mark = ""
      if (spills > 0) mark = "  SPILLS"
      if (wide[entry, 90] + 0 == 0 && name !~ narrow && accesses[entry, 90] > 0) mark = mark "  NO 128-BIT ACCESS"
      if (mark != "") bad++
      line = sprintf(format, seen[entry], name, registers[entry, 80], registers[entry, 90], spills,
                     stack[entry, 80] + stack[entry, 90], accesses[entry, 90], wide[entry, 90] + 0)
      sub(/\n$/, mark "\n", line)
      printf "%s", line | "sort"
      kernels++
    }
    close("sort")
    printf "%d kernels, %d of them miss a bar\n", kernels, bad
    exit bad > 0 || kernels == 0 ? 4 : 0
  }' "$work"/*.log "$work"/*.ptx
