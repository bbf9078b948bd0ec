#!/bin/bash
# The suite of a machine with a GPU: trains small GPTs on it and holds losses against emulated devices.
#
#   tests/gpu/run.sh                    builds, then runs
#   tests/gpu/run.sh --prebuilt DIR     runs the programs in DIR: tideline, tideline-worker-emulated, tideline-worker-cuda
#   tests/gpu/run.sh --bundle DIR       builds and puts into DIR the programs with the libraries that a bare machine lacks
#
# Losses of 20 steps: fp32 with exact products and copies, equal to the emulator's in every printed digit; fp32 with
# cuBLAS within 1e-6 and bf16 within 2e-2, relative; eight plans of several ranks by --comm copy, which share the GPU.
# Exit codes: 0 all hold, 4 one does not, 6 there is no GPU, no CUDA worker, or a library is missing (each is named).
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

programs=(tideline tideline-worker-emulated tideline-worker-cuda)
folder=
bundle=
case ${1:-} in
  --prebuilt) folder=$(readlink -f "${2:?--prebuilt needs a folder}") ;;
  --bundle) bundle=${2:?--bundle needs a folder} ;;
  '') ;;
  *) echo "usage: tests/gpu/run.sh [--prebuilt DIR | --bundle DIR]" >&2; exit 2 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ -z $folder ]]; then
  if ! bazel build //cli:tideline //exec/worker:tideline-worker-emulated //exec/worker:tideline-worker-cuda \
    > "$work/build.log" 2>&1; then
    grep -E 'CUDA|ERROR' "$work/build.log" >&2 || tail -20 "$work/build.log" >&2
    echo "gpu suite: the CUDA worker could not be built" >&2
    exit 6
  fi
  folder=$work/programs
  mkdir "$folder"
  cp bazel-bin/cli/tideline bazel-bin/exec/worker/tideline-worker-{emulated,cuda} "$folder"
fi
for program in "${programs[@]}"; do
  if [[ ! -x $folder/$program ]]; then echo "gpu suite: $folder has no $program" >&2; exit 6; fi
done

if [[ -n $bundle ]]; then
  mkdir -p "$bundle/lib"
  cp "${programs[@]/#/$folder/}" "$bundle"
  # The C library belongs to the machine; all else travels.
  for program in "${programs[@]}"; do ldd "$folder/$program"; done |
    awk '$2 == "=>" && $3 ~ /^\// && $1 !~ /^(libc|libm|libpthread|libdl|librt|ld-linux.*)\.so/ { print $3 }' |
    sort -u | xargs -I{} cp -L {} "$bundle/lib"
  echo "bundled in $bundle; there: tests/gpu/run.sh --prebuilt DIR"
  exit 0
fi
if [[ -d $folder/lib ]]; then export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi
tideline=$folder/tideline

# plan NAME DTYPE GPUS PINS
plan() {
  "$tideline" plan gpt:layers=4,hidden=128,heads=4,vocab=512 --seq 64 --global-batch 16 \
    --cluster "emulated:${3}x1GiB" --pin "dtype=$2,$4" -o "$work/$1.json" > /dev/null
}

# losses NAME OUTPUT OPTIONS...
losses() {
  "$tideline" execute "$work/$1.json" --steps 20 --losses "$work/$2.csv" --quiet "${@:3}" > /dev/null
}

plan one fp32 1 pp=1,tp=1,dp=1
code=0
losses one probe --device cuda --numerics exact 2> "$work/probe.err" || code=$?
if (( code == 6 )); then
  echo "gpu suite: nothing is checked, since this machine cannot run --device cuda:" >&2
  cat "$work/probe.err" >&2
  exit 6
fi
if (( code != 0 )); then
  cat "$work/probe.err" >&2
  echo "gpu suite: the first run on the GPU ended with code $code" >&2
  exit 4
fi

missed=0
# compare WHAT EXPECTED GOT TOLERANCE: the largest relative difference of two loss logs.
compare() {
  awk -F, -v what="$1" -v tolerance="$4" '
    FNR == 1 { next }
    NR == FNR { expected[$1] = $2; steps++; next }
    { d = ($2 - expected[$1]) / expected[$1]; d = d < 0 ? -d : d; if (!(d <= worst)) worst = d; found++ }
    END {
      good = steps == 20 && found == steps && worst <= tolerance
      printf "%-52s %2d steps, largest difference %.2e of %.0e  %s\n", what, found, worst, tolerance, good ? "ok" : "MISSED"
      exit !good
    }' "$work/$2.csv" "$work/$3.csv" || missed=$((missed + 1))
}

"$tideline" doctor | grep -E '^(GPUs|CUDA|cuBLAS|NCCL)'
losses one expected
compare "fp32, exact products" expected probe 0
losses one fast --device cuda
compare "fp32, cuBLAS" expected fast 1e-6
plan narrow bf16 1 pp=1,tp=1,dp=1
losses narrow narrow_expected
losses narrow narrow_cuda --device cuda
compare "bf16, cuBLAS" narrow_expected narrow_cuda 2e-2

for pins in 2,pp=1,tp=1,dp=2 2,pp=1,tp=2,dp=1 2,pp=2,tp=1,dp=1 4,pp=2,tp=1,dp=2 4,pp=1,tp=2,dp=2 4,pp=2,tp=2,dp=1 \
  4,pp=4,tp=1,dp=1 8,pp=2,tp=2,dp=2; do
  plan several fp32 "${pins%%,*}" "${pins#*,}"
  losses several several_expected
  losses several several_cuda --device cuda --numerics exact --comm copy
  compare "${pins#*,}: ranks share the GPU" several_expected several_cuda 0
done

echo "$missed comparisons missed"
(( missed == 0 )) || exit 4
