#!/bin/bash
# Build OUT/{vmlinuz,initrd.gz}: Debian's kernel with its own via-rhine module, busybox and ethtool, and judge/init.
# Usage: build.sh OUT. Needs apt, cpio and xz. Nothing is installed: a private apt folder is used.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
apt=$out/apt
mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc/apt.conf.d,etc/preferences.d} "$out/debs"
: >>"$apt/state/status"
# The mirror this machine's own packages come from.
mirror=$(apt-get indextargets --format '$(ORIGIN)/$(LABEL) $(REPO_URI)' | sed -n 's|^Debian/Debian ||p' | head -1)
[ -n "$mirror" ] || { echo "apt-get knows no Debian mirror here" >&2; exit 1; }
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$apt/etc/sources.list"
cat >"$apt/apt.conf" <<EOF
Dir "$apt"; Dir::State "state"; Dir::Cache "cache"; Dir::Etc "etc"; Dir::State::status "$apt/state/status";
APT::Architecture "amd64"; APT::Architectures {"amd64";}; APT::Sandbox::User "root"; Acquire::Languages "none";
EOF
export APT_CONFIG=$apt/apt.conf
[ -n "$(ls "$apt/state/lists" | grep Packages || true)" ] || apt-get -q update >&2
# The full kernel: the cloud flavour has no via-rhine.
kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[^ :]*\).*/\1/p' | head -1)
(cd "$out/debs" && for p in "$kernel" busybox-static ethtool libc6 libmnl0; do
	ls "${p}"_*.deb >/dev/null 2>&1 || apt-get -q download "$p" >&2
done)
x=$out/x root=$out/root
rm -rf "$x" "$root"
mkdir -p "$x" "$root"/{bin,lib64,mod,proc,sys,dev,tmp}
for deb in "$out"/debs/*.deb; do dpkg-deb -x "$deb" "$x"; done
cp "$x"/boot/vmlinuz-* "$out/vmlinuz"
for m in mii via-rhine; do
	xz -dc "$(find "$x/usr/lib/modules" -name "$m.ko.xz")" >"$root/mod/$m.ko"
	echo $m.ko
done >"$root/mod/order"
cat >"$root/judge.conf" <<'EOF'
driver=via-rhine mtus='576 1000 1280 1500' peer_mtu=1500 sizes='1473 4000'
tests=up,ping,tcp,v6,mtu,modes,phy,stats,bounce,rebind,down
EOF
cp "$x/usr/bin/busybox" "$x/usr/sbin/ethtool" "$root/bin/"
for l in libc.so.6 libm.so.6 libmnl.so.0; do cp -L "$x/usr/lib/x86_64-linux-gnu/$l" "$root/lib64/"; done
cp -L "$x/usr/lib64/ld-linux-x86-64.so.2" "$root/lib64/"
cp "$here/init" "$root/init"
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -1) >"$out/initrd.gz"
rm -rf "$x" "$root"
