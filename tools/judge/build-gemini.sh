#!/bin/bash
# Build OUT/{vmlinuz,initrd.gz,dtb}: Debian's armhf kernel, Linux's gemini from Debian's source, unmodified, as a module,
# and a device tree for QEMU's virt machine with the model behind its PCI bridge.
# Usage: build-gemini.sh OUT QEMU-SYSTEM-ARM. Needs root, apt, cpio, xz, dtc.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd) qemu=$2
. "$(dirname "$0")/common.sh"
private_apt armhf
compilers arm-linux-gnueabihf
kernel armmp armhf
rm -rf "$out/module"
source_of "$out/source" '*/drivers/net/ethernet/cortina/*'
mkdir -p "$out/module"
cp "$out"/source/drivers/net/ethernet/cortina/gemini.[ch] "$out/module/"
# modpost runs on a 64-bit machine and measures this 32-bit kernel's of_device_id wrongly. The alias table it then refuses
# is only for loading on demand, so it is left out, from outside the source.
cat >"$out/module/no_alias.h" <<'C'
#include <linux/module.h>
#undef MODULE_DEVICE_TABLE
#define MODULE_DEVICE_TABLE(type, name)
C
printf 'obj-m := gemini.o\nCFLAGS_gemini.o := -include $(src)/no_alias.h\n' >"$out/module/Makefile"
module gemini arm arm-linux-gnueabihf
root=$out/root
userland "$root" armhf arm-linux-gnueabihf
shipped "$root" of_mdio fixed_phy
cp "$out/module/gemini.ko" "$root/mod/"
echo gemini.ko >>"$root/mod/order"
cat >"$root/judge.conf" <<'EOF'
driver=gemini carrier_bar=10000000 mtus='576 1280 1500 1800 2026' peer_mtu=2026 sizes= features='rx tx sg tso gso gro'
tests=up,ping,tcp,v6,offload,mtu,modes,both,stats,bounce,down
EOF
cp "$(find "$kernel" -name 'vmlinuz-*' | head -1)" "$out/vmlinuz"

# The device tree: QEMU's own and a node. BAR 0 comes to lie at 0x10000000, the start of the bridge's window. The driver
# knows its ports by device name, 60008000.ethernet-port and 6000c000.ethernet-port. Linux makes such a name of the
# translated "reg"; but below a node of type "pci" it takes the resources from "assigned-addresses". So "reg" says where
# the chip has its ports, "assigned-addresses" where the BAR has them. All interrupts are the slot's INTA, SPI 4.
port() { # NUMBER DMA GMAC
	cat <<-EOF
		ethernet-port@0,6000$2 {
			compatible = "cortina,gemini-ethernet-port";
			reg = <0x02000000 0 0x6000$2 0 0x2000>, <0x02000000 0 0x6000$3 0 0x2000>;
			assigned-addresses = <0x02000000 0 0x1000$2 0 0x2000>, <0x02000000 0 0x1000$3 0 0x2000>;
			interrupts = <0 4 4>;
			clocks = <&port_clock>;
			clock-names = "PCLK";
			resets = <&port_reset $1>;
			phy-mode = "rgmii";
			local-mac-address = [02 54 52 47 4d 0$1];
			fixed-link { speed = <1000>; full-duplex; pause; };
		};
	EOF
}
"$qemu" -M "virt,gic-version=2,highmem=off,dumpdtb=$out/virt.dtb" -cpu cortex-a15 -m 256 -nodefaults -nographic >&2
{
	dtc -q -I dtb -O dts "$out/virt.dtb"
	cat <<-EOF
		/* An empty slot of QEMU's reads 0 and ignores writes: a reset controller nobody has to be behind. */
		/delete-node/ &{/virtio_mmio@a003e00};
		/ {
			port_reset: reset-controller@a003e10 {
				compatible = "snps,dw-high-reset";
				reg = <0 0x0a003e10 0 0x10>;
				#reset-cells = <1>;
			};
			port_clock: port-clock {
				compatible = "fixed-clock";
				#clock-cells = <0>;
				clock-frequency = <150000000>;
			};
			ethernet@10000000 {
				compatible = "cortina,gemini-ethernet";
				reg = <0 0x10000000 0 0x4000>, <0 0x10004000 0 0x2000>, <0 0x10006000 0 0x2000>;
				device_type = "pci";
				#address-cells = <3>;
				#size-cells = <2>;
				ranges = <0x02000000 0 0x60000000 0 0x60000000 0 0x10000>,
					<0x02000000 0 0x10000000 0 0x10000000 0 0x10000>;
				$(port 0 8000 a000)
				$(port 1 c000 e000)
			};
		};
	EOF
} >"$out/guest.dts"
dtc -q -I dts -O dtb -o "$out/dtb" "$out/guest.dts"
pack "$root"
rm -rf "$root" "$out/source" "$out/module" "$kernel" "$out/virt.dtb"
