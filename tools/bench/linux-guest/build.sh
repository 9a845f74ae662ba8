#!/bin/bash
# Build OUT/<arch>/{vmlinuz,initrd.gz,initrd-min.gz} from Debian packages only. Usage: build.sh OUT x86_64|aarch64
# Needs apt, cpio, gcc (and gcc-aarch64-linux-gnu for aarch64). Nothing is installed: a private apt folder is used.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd) arch=$2
case $arch in
x86_64) deb=amd64 cc=gcc strip=strip ;;
aarch64) deb=arm64 cc=aarch64-linux-gnu-gcc strip=aarch64-linux-gnu-strip ;;
*) echo "unknown architecture $arch" >&2; exit 1 ;;
esac
apt=$out/apt
mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc/apt.conf.d,etc/preferences.d} "$out/debs"
: >>"$apt/state/status"
# The mirror this machine's own packages come from.
mirror=$(apt-get indextargets --format '$(ORIGIN)/$(LABEL) $(REPO_URI)' | sed -n 's|^Debian/Debian ||p' | head -1)
[ -n "$mirror" ] || { echo "apt-get knows no Debian mirror here" >&2; exit 1; }
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >"$apt/etc/sources.list"
cat >"$apt/apt.conf" <<EOF
Dir "$apt"; Dir::State "state"; Dir::Cache "cache"; Dir::Etc "etc"; Dir::State::status "$apt/state/status";
APT::Architecture "amd64"; APT::Architectures {"amd64";"arm64";}; APT::Sandbox::User "root";
EOF
export APT_CONFIG=$apt/apt.conf
[ -n "$(ls "$apt/state/lists" | grep Packages || true)" ] || apt-get -q update >&2
kernel=$(apt-cache depends "linux-image-$deb:$deb" | sed -n 's/.*Depends: \(linux-image-[^ :]*\).*/\1/p' | head -1)
w=$out/$arch
rm -rf "$w" && mkdir -p "$w/kernel" "$w/root"/{bin,lib/modules,www,etc,usr/sbin,usr/bin}
(cd "$out/debs" && for p in "$kernel" busybox-static nginx iperf3 libiperf0 libsctp1 libc6 libcrypt1 libpcre2-8-0 libssl3 zlib1g; do
	ls "${p}"_*_"$deb".deb >/dev/null 2>&1 || apt-get -q download "$p:$deb" >&2
done)
d() { dpkg-deb -x "$out"/debs/"$1"_*_"$deb".deb "$2"; }
d "$kernel" "$w/kernel"
cp "$w"/kernel/boot/vmlinuz-* "$w/vmlinuz"
for m in failover net_failover virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_mmio virtio_net; do
	f=$(find "$w/kernel/lib" -name "$m.ko" | head -1)
	[ -z "$f" ] || cp "$f" "$w/root/lib/modules/"
done
mkdir "$w/x"
d busybox-static "$w/x"
cp "$w/x/bin/busybox" "$w/root/bin/"
ln -s busybox "$w/root/bin/sh"
$cc -O2 -static "$here/peerd.c" -o "$w/root/bin/peerd" && $strip "$w/root/bin/peerd"
cp "$here/init" "$w/root/init" && chmod +x "$w/root/init"
head -c 1024 /dev/zero | tr '\0' x >"$w/root/www/1k"
printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\n' >"$w/root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\nwww-data:x:33:\n' >"$w/root/etc/group"
pack() { (cd "$w/root" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -9) >"$1"; }
pack "$w/initrd-min.gz"
for p in nginx iperf3 libiperf0 libsctp1 libc6 libcrypt1 libpcre2-8-0 libssl3 zlib1g; do d $p "$w/x"; done
cp "$w/x/usr/sbin/nginx" "$w/root/usr/sbin/"
cp "$w/x/usr/bin/iperf3" "$w/root/usr/bin/"
cp "$here/nginx.conf" "$w/root/etc/"
lib=$arch-linux-gnu
mkdir -p "$w/root/lib/$lib" "$w/root/lib64"
for l in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 libcrypt.so.1 libpcre2-8.so.0 libssl.so.3 libcrypto.so.3 libz.so.1 libiperf.so.0 libsctp.so.1; do
	f=$(find "$w/x" -name "$l" | head -1)
	cp -L "$f" "$w/root/lib/$lib/$l"
done
for l in $(find "$w/x" -name 'ld-linux-*.so.*'); do cp -L "$l" "$w/root/lib/"; cp -L "$l" "$w/root/lib64/"; done
pack "$w/initrd.gz"
rm -rf "$w/x"
ls -l "$w"/vmlinuz "$w"/initrd*.gz
