#!/bin/bash
# Build OUT/{vmlinuz,initrd.gz,gen2.dtb,gen3.dtb,gbeth.dtb}: Debian's arm64 kernel, Linux's ravb from Debian's source,
# unmodified, as a module, and a device tree per variant for QEMU's virt machine with the model behind its PCI bridge.
# Usage: build-ravb.sh OUT QEMU-SYSTEM-AARCH64. Needs root, apt, cpio, xz, dtc.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd) qemu=$2
. "$(dirname "$0")/common.sh"
private_apt arm64
compilers aarch64-linux-gnu
kernel arm64 arm64
root=$out/root
userland "$root" arm64 aarch64-linux-gnu
# The PHY's driver is Debian's own; the MDIO bus is moved bit by bit.
shipped "$root" of_mdio mdio-bitbang micrel
source_of "$out/source" '*/drivers/net/ethernet/renesas/*'
build() { # NAME: what lies in $out/module
	module "$1" arm64 aarch64-linux-gnu
	cp "$out/module/$1.ko" "$root/mod/"
	echo "$1.ko" >>"$root/mod/order"
}
rm -rf "$out/module"
mkdir -p "$out/module"
cp "$here/fanout.c" "$out/module/"
printf 'obj-m := fanout.o\n' >"$out/module/Makefile"
build fanout
rm -rf "$out/module"
mkdir -p "$out/module"
cp "$out"/source/drivers/net/ethernet/renesas/ravb* "$out/module/"
printf 'obj-m := ravb.o\nravb-objs := ravb_main.o ravb_ptp.o\n' >"$out/module/Makefile"
build ravb
cat >"$root/judge.conf" <<'EOF'
driver=ravb carrier_bar=10000000 mtus='576 1280 1500 1800 2026' peer_mtu=2026 sizes='1473 4000 7000' features='rx tx'
tests=up,ping,tcp,v6,offload,mtu,modes,stats,bounce,rebind,down
EOF
cp "$(find "$kernel" -name 'vmlinuz-*' | head -1)" "$out/vmlinuz"

# The device trees: QEMU's own and a node. BAR 0 comes to lie at 0x10000000, the start of the bridge's window; slot 1's
# INTA is SPI 4, level high. Gen3's driver wants a line per source: the fan-out runs all of them on the one there is.
"$qemu" -M "virt,gic-version=2,dumpdtb=$out/virt.dtb" -cpu cortex-a57 -m 256 -nodefaults -nographic >&2
tree() { # NAME COMPATIBLE INTERRUPTS CLOCKS PHY-MODE PHY-ADDRESS
	{
		dtc -q -I dtb -O dts "$out/virt.dtb"
		cat <<-EOF
			/* An empty slot of QEMU's reads 0 and ignores writes: a reset controller nobody has to be behind. */
			/delete-node/ &{/virtio_mmio@a003e00};
			/ {
				mac_reset: reset-controller@a003e10 {
					compatible = "snps,dw-high-reset";
					reg = <0 0x0a003e10 0 0x10>;
					#reset-cells = <1>;
				};
				mac_clock: mac-clock {
					compatible = "fixed-clock";
					#clock-cells = <0>;
					clock-frequency = <133333333>;
				};
				fanout: interrupt-fanout {
					compatible = "trireme,interrupt-fanout";
					interrupts = <0 4 4>;
					interrupt-controller;
					#interrupt-cells = <1>;
					status = "$(case $3 in *fanout*) echo okay ;; *) echo disabled ;; esac)";
				};
				ethernet@10000000 {
					compatible = $2;
					reg = <0 0x10000000 0 0x1000>;
					$3
					$4
					resets = <&mac_reset 0>;
					phy-mode = "$5";
					phy-handle = <&phy>;
					local-mac-address = [02 54 52 41 56 01];
					#address-cells = <1>;
					#size-cells = <0>;
					mdio {
						#address-cells = <1>;
						#size-cells = <0>;
						phy: ethernet-phy@$6 { reg = <$6>; };
					};
				};
			};
		EOF
	} >"$out/guest.dts"
	dtc -q -I dts -O dtb -o "$out/$1.dtb" "$out/guest.dts"
}
one='interrupts = <0 4 4>;'
clock='clocks = <&mac_clock>;'
tree gen2 '"renesas,etheravb-r8a7790", "renesas,etheravb-rcar-gen2"' "$one" "$clock" rgmii 0
tree gen3 '"renesas,etheravb-r8a7795", "renesas,etheravb-rcar-gen3"' \
	'interrupt-parent = <&fanout>; interrupts = <0>, <1>, <18>, <19>, <22>, <24>;
	interrupt-names = "ch0", "ch1", "ch18", "ch19", "ch22", "ch24";
	rx-internal-delay-ps = <0>; tx-internal-delay-ps = <2000>;' "$clock" rgmii 0
tree gbeth '"renesas,r9a07g044-gbeth", "renesas,rzg2l-gbeth"' "$one" \
	'clocks = <&mac_clock>, <&mac_clock>, <&mac_clock>; clock-names = "axi", "chi", "refclk";' rgmii-id 7
pack "$root"
rm -rf "$root" "$out/source" "$out/module" "$kernel" "$out/virt.dtb" "$out/guest.dts"
