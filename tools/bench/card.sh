#!/bin/bash
# Stands for QEMU in a command of measure.py: starts one of our models on the TAP, then QEMU, whose card it is.
# Usage: QEMU=PROGRAM MODEL="COMMAND OPTIONS" CARD=SOCKET card.sh TAP ARGUMENTS-OF-QEMU. The model ends with QEMU.
set -euo pipefail
[ "$1" != --version ] || exec "$QEMU" --version
tap=$1
shift
rm -f "$CARD"
# shellcheck disable=SC2086 # several words
setpriv --pdeathsig TERM -- $MODEL --once --socket "$CARD" --tap "$tap" </dev/null >&2 &
until [ -S "$CARD" ]; do
	kill -0 $! # it may have ended at once
	sleep 0.05
done
exec "$QEMU" "$@" -device "{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"$CARD\"}}"
