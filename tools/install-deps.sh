#!/bin/sh
# Installs what Helix needs on Debian 12, as root or with sudo. Does nothing when it is all there.
#   tools/install-deps.sh          to build and run
#   tools/install-deps.sh --test   and what the tests need besides
#   tools/install-deps.sh --package   and what makes packages
#   tools/install-deps.sh --fuzz   and what the fuzzers need besides
#   tools/install-deps.sh --arm64   and what builds for arm64 and runs that
#   tools/install-deps.sh --libraries   installs nothing: prints the libraries that the program is built with, a line each
set -eu

packages="build-essential cmake ninja-build ccache mold pkg-config python3
libzmq3-dev libsodium-dev libavahi-core-dev libssl-dev libcurl4-openssl-dev libedit-dev protobuf-compiler libprotobuf-dev libboost-dev nlohmann-json3-dev libcli11-dev
libspdlog-dev libfmt-dev liblemon-dev libpcre2-dev libutf8proc-dev libsqlite3-dev libpq-dev libxxhash-dev libtomlplusplus-dev
coinor-libcbc-dev coinor-libcgl-dev coinor-libclp-dev coinor-libosi-dev coinor-libcoinutils-dev libgtest-dev libgmock-dev
libvulkan-dev libvulkan-volk-dev glslang-tools"
packing="debhelper patchelf"
if [ "${1:-}" = "--test" ]; then
    packages="$packages clang libclang-rt-dev clang-format clang-tidy python3-jinja2 nodejs curl iproute2 procps
mesa-vulkan-drivers vulkan-validationlayers spirv-tools chromium fonts-dejavu-core
$packing systemd-container mmdebstrap etcd-server postgresql"
    # A nodejs from elsewhere brings its own npm and refuses Debian's.
    command -v npm >/dev/null 2>&1 || packages="$packages npm"
elif [ "${1:-}" = "--package" ]; then
    packages="$packages $packing"
elif [ "${1:-}" = "--fuzz" ]; then
    packages="$packages clang libclang-rt-dev"
elif [ "${1:-}" = "--arm64" ]; then
    packages="$packages g++-aarch64-linux-gnu qemu-user-static mmdebstrap debian-archive-keyring"
elif [ "${1:-}" = "--libraries" ]; then
    # shellcheck disable=SC2086  # the list is meant to be split
    printf '%s\n' $packages | grep -e '-dev$'
    exit 0
fi

missing=""
for package in $packages; do
    case "$package" in
        nodejs) command -v node >/dev/null 2>&1 && continue ;;
    esac
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "these packages are missing and this is no Debian, so install them yourself:$missing" >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "run this as root, or install sudo: packages are missing:$missing" >&2
        exit 1
    }
    as_root="sudo"
fi
echo "installing:$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086  # the list is meant to be split
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
    </dev/null >/tmp/helix-apt.log 2>&1 || {
    tail -20 /tmp/helix-apt.log >&2
    exit 1
}
