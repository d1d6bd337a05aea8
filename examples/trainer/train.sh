#!/bin/sh
# Trains the demo's checkpoints again: train.sh OUT [more arguments of `tidemill-trainer train`].
# One thread per shard, and memory stays with the process: giving it back after each step costs a third of the processor time.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
export RAYON_NUM_THREADS=1
export MALLOC_TRIM_THRESHOLD_=8000000000 MALLOC_MMAP_THRESHOLD_=8000000000 MALLOC_TOP_PAD_=268435456
cd "$(dirname "$0")/../.."
exec cargo run --release --package tidemill-trainer -- train --out "$out" "$@"
