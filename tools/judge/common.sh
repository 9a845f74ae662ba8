# Sourced by the build scripts of guests whose kernel module has to be compiled. Root is needed for a chroot.
#
# Nothing is installed: an apt of its own downloads Debian trixie's packages into $cache, and they are unpacked.
#   $out    the guest's folder             $cache  shared by all guests of this machine
#   $debs   downloaded packages            $cross  a trixie with compilers, to chroot into
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(dirname "$out")/shared
debs=$cache/debs cross=$cache/cross apt=$cache/apt
mkdir -p "$debs" "$apt"/{state/lists/partial,cache/archives/partial,etc/apt.conf.d,etc/preferences.d}
# Two guests may be built at once, and have this folder in common.
exec 9>"$cache/lock"
flock 9

# private_apt ARCH...: apt-get and apt-cache below know trixie for these architectures, and no installed package.
private_apt() {
	local mirror
	mirror=$(apt-get indextargets --format '$(ORIGIN)/$(LABEL) $(REPO_URI)' | sed -n 's|^Debian/Debian ||p' | head -1)
	[ -n "$mirror" ] || { echo "apt-get knows no Debian mirror here" >&2; exit 1; }
	: >"$apt/state/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$apt/etc/sources.list"
	cat >"$apt/apt.conf" <<-EOF
		Dir "$apt"; Dir::State "state"; Dir::Cache "cache"; Dir::Etc "etc"; Dir::State::status "$apt/state/status";
		Dir::Cache::archives "$debs";
		APT::Architecture "amd64"; APT::Architectures { $(printf '"%s"; ' amd64 "$@") };
		APT::Sandbox::User "root"; Acquire::Languages "none";
	EOF
	export APT_CONFIG=$apt/apt.conf DEBIAN_FRONTEND=noninteractive
	# Old lists name packages the mirror has no more.
	apt-get -q update >&2 || echo "no newer package lists to be had, going on with those there are" >&2
}

# fetch PACKAGE[:ARCH]...: downloads what is not there; prints the files.
fetch() {
	local p n a f
	for p; do
		n=${p%%:*} a=${p##*:}
		[ "$a" != "$p" ] || a='*'
		f=$(compgen -G "$debs/${n}_*_$a.deb" || compgen -G "$debs/${n}_*_all.deb" || true)
		if [ -z "$f" ]; then
			(cd "$debs" && apt-get -q download "$p" >&2)
			f=$(compgen -G "$debs/${n}_*_$a.deb" || compgen -G "$debs/${n}_*_all.deb")
		fi
		echo "$f" | sort -V | tail -1
	done
}

# unpack FOLDER PACKAGE[:ARCH]...
unpack() {
	local folder=$1 deb
	shift
	mkdir -p "$folder"
	fetch "$@" | while read -r deb; do dpkg-deb -x "$deb" "$folder"; done
}

# compilers TRIPLE: a trixie with make and a cross compiler in $cross, dependencies and all.
compilers() {
	[ -e "$cross/$1.done" ] && return
	local list deb
	mkdir -p "$cross/tmp" "$cross/proc" "$cross/dev"
	list=$(apt-get -qq --print-uris --no-install-recommends install -y base-files dash coreutils sed grep mawk findutils \
		make "gcc-$1" kmod xz-utils | sed -n "s/^'\([^']*\)' \([^ ]*\).*/\2/p")
	apt-get -q -y --download-only --no-install-recommends install base-files dash coreutils sed grep mawk findutils \
		make "gcc-$1" kmod xz-utils >&2
	# base-files first: it makes /bin and /lib links into /usr, which others would make folders.
	for deb in $(echo "$list" | grep ^base-files_) $(echo "$list" | grep -v ^base-files_); do
		dpkg-deb -x "$debs/$deb" "$cross"
	done
	ln -sf mawk "$cross/usr/bin/awk"
	[ -e "$cross/usr/bin/sh" ] || ln -s dash "$cross/usr/bin/sh"
	: >"$cross/$1.done"
}

# inside COMMAND...: runs it in $cross, with the guest's folder as /out.
inside() {
	unshare -m bash -ec '
		mkdir -p "$1/out"
		mount --bind "$2" "$1/out"
		mount -t proc proc "$1/proc"
		mount --bind /dev "$1/dev"
		root=$1; shift 2
		cd /; exec chroot "$root" "$@"' - "$cross" "$out" "$@" 9>&-
}

# kernel FLAVOUR DEBARCH: image, headers, build tools and driver sources of trixie's kernel. Sets $release and $kernel.
kernel() {
	local common
	common=$(apt-cache depends "linux-headers-$1:$2" | sed -n "s/.*Depends: linux-headers-\(6[^ :]*\)-$1.*/\1/p" | head -1)
	[ -n "$common" ] || { echo "no kernel for $1" >&2; exit 1; }
	release=$common-$1 kernel=$out/kernel
	unpack "$kernel" "linux-image-$release:$2"
	# These find each other by absolute paths.
	unpack "$cross" "linux-headers-$release:$2" "linux-headers-$common-common" "linux-kbuild-$common:amd64"
}

# source_of FOLDER PATH...: these files of Debian's kernel source, unmodified.
source_of() {
	local folder=$1 deb
	shift
	mkdir -p "$folder"
	deb=$(fetch linux-source-6.12)
	dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
		tar -xJ -C "$folder" --strip-components=1 --wildcards "$@"
}

# module NAME KARCH TRIPLE: builds /out/module/NAME.ko against the headers.
module() {
	inside make -s -C "/usr/src/linux-headers-$release" M=/out/module "ARCH=$2" "CROSS_COMPILE=$3-" \
		CONFIG_DEBUG_INFO_BTF_MODULES= modules >&2
	inside "$3-strip" -g "/out/module/$1.ko"
}

# userland ROOT DEBARCH MULTIARCH: busybox and ethtool.
userland() {
	local x=$out/x l
	rm -rf "$1" "$x"
	mkdir -p "$1"/{bin,lib,mod,proc,sys,dev,tmp}
	unpack "$x" "busybox-static:$2" "ethtool:$2" "libc6:$2" "libmnl0:$2"
	cp "$x/usr/bin/busybox" "$x/usr/sbin/ethtool" "$1/bin/"
	for l in "$x"/usr/lib/"$3"/{ld-linux*,libc.so.6,libm.so.6,libmnl.so.0}; do cp -L "$l" "$1/lib/"; done
	rm -rf "$x"
}

# shipped ROOT MODULE...: modules of the kernel's package with all they need, in the order they load in.
shipped() {
	local root=$1 m
	shift
	[ -e "$kernel/lib" ] || ln -s usr/lib "$kernel/lib"
	inside depmod -b /out/kernel "$release"
	for m; do
		inside modprobe -d /out/kernel -S "$release" --show-depends "$m"
	done | sed -n 's|^insmod /out/\([^ ]*\).*|\1|p' | awk '!seen[$0]++' | while read -r m; do
		xz -dc "$out/$m" >"$root/mod/$(basename "$m" .xz)"
		basename "$m" .xz
	done >"$root/mod/order"
}

# pack ROOT: $out/initrd.gz, with judge/init as its init.
pack() {
	cp "$here/init" "$1/init"
	chmod +x "$1/init"
	(cd "$1" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -1) >"$out/initrd.gz.new"
	mv "$out/initrd.gz.new" "$out/initrd.gz"
}
