#!/bin/bash
# Instructions and modelled line time per frame of our image on the VT6105M's model: MTU 576, 1000, 1500, transmit
# checksums off, on and auto, beside what was published. Usage: [REPEAT=N] rhine.sh IMAGE (of `./run.sh image peer`).
# Prints a Markdown table. Needs root. `./run.sh bench rhine` puts it into docs/measurements.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
qemu=~/.cache/trireme/bin/qemu-system-x86_64
if [ "${RHINE_WORK:-}" ]; then
	# As the QEMU command of measure.py, in its namespace: MTU, checksums, TAP, then QEMU's arguments.
	[ "$1" != --version ] || exec $qemu --version
	mtu=$1 sums=$2 tap=$3 work=$RHINE_WORK
	shift 3
	ip link set "$tap" mtu "$mtu"
	rm -f "$work/card"
	RUST_LOG=trireme_vfio=info "$root/target/release/rhine-model" --once --socket "$work/card" --tap "$tap" \
		--mac 52:54:00:12:34:56 2>>"$work/model.log" &
	echo $! >"$work/model.pid"
	until [ -S "$work/card" ]; do sleep 0.05; done
	exec $qemu "$@" \
		-append "ip=10.77.0.2::10.77.0.1:255.255.255.0:::off rhine.tx-checksumming=$sums" \
		-device "{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"$work/card\"}}"
fi
image=$(realpath "$1")
bytes=$((16 << 20))
cargo build --quiet --release -p trireme-rhine-model --manifest-path "$root/Cargo.toml"
work=$(mktemp -d)
# A model whose QEMU never came is still waiting.
trap '[ ! -e "$work/model.pid" ] || kill "$(cat "$work/model.pid")" 2>/dev/null || true; rm -rf "$work"' EXIT
echo "| MTU | checksums | instructions per frame sent | line, Mbit/s | published, Mbit/s | summed by the card | published, CPU |"
echo "|---|---|---|---|---|---|---|"
for mtu in 576 1000 1500; do
	for sums in off on auto; do
		: >"$work/model.log"
		result=$(RHINE_WORK=$work python3 "$here/measure.py" custom --label rhine --ports tx=5002 --metrics tx --ready listening --bytes $bytes --repeat "${REPEAT:-7}" \
			--ram 64 --boot-timeout 60 -- "$here/rhine.sh" $mtu $sums @TAP@ \
			-machine q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=64M,share=on -m 64 \
			-cpu qemu64,+rdrand,+rdseed -accel tcg -icount shift=0 -nodefaults -display none -serial stdio -no-reboot \
			-kernel "$image")
		for i in $(seq 50); do grep -q Counters "$work/model.log" && break; sleep 0.1; done
		MTU=$mtu SUMS=$sums MODEL=$(grep Counters "$work/model.log" | tail -1) python3 - "$result" <<'P'
import json, os, re, sys
lines = [json.loads(l) for l in sys.argv[1].splitlines() if l.startswith("{")]
tx = next(l for l in lines if l["metric"].startswith("TCP guest to host"))
model = {k: int(v) for k, v in re.findall(r"(\w+): (\d+)", os.environ["MODEL"])}
mtu = int(os.environ["MTU"])
# Of full frames: 40 bytes of headers, no options in our segments.
cost = tx["median"] * (mtu - 40) if tx.get("median") else float("nan")
rate = (model["tx_bytes"] + 4 * model["tx_frames"]) * 8e3 / model["line_ns"]
share = 100 * model["tx_checksums"] / max(model["tx_frames"], 1)
# docs/hardware/rhine.md 5.2
published = {(1500, "off"): ("about 99", "about 11 %"), (1500, "on"): ("about 91", "about 9 %"), (1000, "on"): ("about 98", "")}
line, cpu = published.get((mtu, os.environ["SUMS"]), ("", ""))
print(f"| {mtu} | {os.environ['SUMS']} | {cost:.0f} | {rate:.1f} | {line} | {share:.0f} % | {cpu} |", flush=True)
P
	done
done
