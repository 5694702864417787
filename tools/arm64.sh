#!/bin/sh
# Builds the program for arm64 on Debian 12 for amd64, and tests it under qemu-user beside the one for amd64. Everything goes into build/.
#   tools/arm64.sh            fetches libraries, builds both, tests
#   tools/arm64.sh build      fetches libraries and builds for arm64, no more
#   tools/arm64.sh package    the same, and makes the Debian packages for arm64, in build/packages-arm64
# JOBS says how many compilers run at a time.
set -eu
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
root=build/arm64-sysroot
triple=aarch64-linux-gnu

# The libraries for arm64 that the build links with, from where this machine has its own packages. None of their scripts is run.
fetch_libraries() {
    libraries="libc6-dev libstdc++6 $(tools/install-deps.sh --libraries | paste -sd' ')"
    [ "$(cat "$root/packages" 2>/dev/null)" = "$libraries" ] && return
    echo "arm64: fetching libraries into $root"
    rm -rf "$root" "$root.new"
    # shellcheck disable=SC1091
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    set --
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
        [ ! -e "$file" ] || set -- "$@" "$file"
    done
    mmdebstrap --mode=chrootless --variant=extract --format=directory --architectures=arm64 --skip=cleanup/apt \
        --include="$(echo "$libraries" | tr ' ' ',')" "$release" "$root.new" "$@" >build/arm64-sysroot.log 2>&1 || {
        tail -20 build/arm64-sysroot.log >&2
        exit 1
    }
    note_packages "$root.new"
    # Only libraries are wanted of it: qemu-user looks for every file here first.
    for name in "$root.new"/*; do
        case "${name##*/}" in lib | usr | dpkg) ;; *) rm -rf "$name" ;; esac
    done
    find "$root.new" -type l -lname '/*' | while read -r link; do
        ln -snf "$(realpath -m -s --relative-to="$(dirname "$link")" "$root.new$(readlink "$link")")" "$link"
    done
    # What the packages' scripts choose among alternatives.
    for name in blas lapack; do
        for file in lib$name.so lib$name.so.3; do ln -s "$name/$file" "$root.new/usr/lib/$triple/$file"; done
    done
    echo "$libraries" >"$root.new/packages"
    mv "$root.new" "$root"
}

# What dpkg-shlibdeps reads of installed packages, in DIR/dpkg: names, versions, files and symbols.
note_packages() {
    mkdir -p "$1/dpkg/info" "$1/dpkg/updates"
    echo 1 >"$1/dpkg/info/format"
    for deb in "$1"/var/cache/apt/archives/*.deb; do
        package=$(dpkg-deb --field "$deb" Package)
        dpkg-deb --ctrl-tarfile "$deb" >"$1/dpkg/control.tar"
        # Only libraries that programs are linked with have these.
        tar -xOf "$1/dpkg/control.tar" ./shlibs >"$1/dpkg/shlibs" 2>/dev/null || continue
        info=$1/dpkg/info/$package:arm64
        mv "$1/dpkg/shlibs" "$info.shlibs"
        tar -xOf "$1/dpkg/control.tar" ./symbols >"$info.symbols" 2>/dev/null || rm "$info.symbols"
        # Under the names that they have here.
        dpkg-deb --fsys-tarfile "$deb" | tar -tf - | sed "s|^\.|$(realpath -m "$root")|; s|/$||" >"$info.list"
        dpkg-deb --field "$deb" Package Version Architecture Multi-Arch >>"$1/dpkg/status"
        printf 'Status: install ok installed\nMaintainer: Debian\nDescription: %s\n\n' "$package" >>"$1/dpkg/status"
    done
    rm -f "$1/dpkg/control.tar" "$1/dpkg/shlibs"
}

build() {
    tools/install-deps.sh --arm64
    mkdir -p build
    fetch_libraries
    cmake --preset arm64 >build/arm64.log 2>&1 || { tail -20 build/arm64.log >&2; exit 1; }
    cmake --build --preset arm64 -j "$jobs" --target helix helix_device_values helix_base_test helix_core_test helix_engine_test helix_model_test \
        helix_spec_test helix_text_test helix_wire_test -- --quiet
}

[ "$(uname -m)" = x86_64 ] || { echo "arm64.sh: this is no amd64 machine; on arm64 everything is built as it is on amd64" >&2; exit 1; }
case "${1:-}" in
    build) build ;;
    package)
        build
        tools/package.sh build/arm64 build/packages-arm64 "$root"
        ;;
    "")
        build
        cmake --preset release >build/release.log 2>&1 || { tail -20 build/release.log >&2; exit 1; }
        cmake --build --preset release -j "$jobs" --target helix helix_device_values -- --quiet
        HELIX_SWEEPS=all python3 tests/arm64/arm64_test.py build/release/bin/helix build/release/bin/helix_device_values build/arm64
        ;;
    *)
        sed -n 's/^# *//p' "$0" | sed -n 1,5p >&2
        exit 2
        ;;
esac
