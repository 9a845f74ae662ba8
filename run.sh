#!/bin/sh
# The front door: finds cargo, builds tools/ and hands over. `./run.sh --help` says what it can do.
set -eu
cd_to=$(dirname -- "$0")
TRIREME_ROOT=$(cd -- "$cd_to" && pwd)
export TRIREME_ROOT
if ! command -v cargo >/dev/null 2>&1; then
	[ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ] || {
		echo "run.sh: cargo is missing. Install Rust with rustup, from Debian's package 'rustup' or https://rustup.rs" >&2
		exit 1
	}
	PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
	export PATH
fi
# In the repository's folder, so that rust-toolchain.toml chooses the toolchain; the caller's folder stays ours.
(cd -- "$TRIREME_ROOT" && cargo build --quiet --package trireme-tools --bin trireme-tools >&2)
exec "${CARGO_TARGET_DIR:-$TRIREME_ROOT/target}/debug/trireme-tools" "$@"
