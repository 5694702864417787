#!/usr/bin/env python3
"""Packs what CMake has built into a tarball that runs where its libraries are not installed.

usage: tarball.py BUILD OUT      BUILD: the build folder, as build/release; OUT: where the tarball goes

OUT/helix-VERSION-linux-x86_64.tar.xz has the program, its documents, and the libraries that it was linked with but for those
that every system has. They lie in lib/helix, where the program and they look for each other first; their licences are in
share/doc/helix/libraries. Nothing is compiled. XZ_OPT may say how hard xz tries (-T0: on all cores, as it does else).
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What every system has, and what drivers of GPUs bring newer versions of: these are never carried.
SYSTEM = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2", "ld-linux-x86-64.so.2",
          "linux-vdso.so.1", "libstdc++.so.6", "libgcc_s.so.1", "libz.so.1", "libzstd.so.1", "libbz2.so.1.0"}

# Debian's packages that libraries are carried of, and their licences. One that is not here has not been looked at, and is
# refused: nothing under the GPL alone may be linked.
LICENCES = {
    "coinor-libcbc3": "EPL-1.0", "coinor-libcgl1": "EPL-1.0", "coinor-libclp1": "EPL-1.0", "coinor-libcoinutils3v5": "EPL-1.0",
    "coinor-libosi1v5": "EPL-1.0", "libavahi-common3": "LGPL-2.1+", "libavahi-core7": "LGPL-2.1+", "libblas3": "BSD-3-Clause", "libbrotli1": "MIT", "libbsd0": "BSD", "libcom-err2": "MIT",
    "libcurl4": "curl", "libedit2": "BSD-3-Clause", "libffi8": "MIT", "libfmt9": "MIT", "libgfortran5": "GPL-3.0+ with GCC runtime exception",
    "libgmp10": "LGPL-3.0+ or GPL-2.0+", "libgnutls30": "LGPL-2.1+", "libgssapi-krb5-2": "MIT", "libhogweed6": "LGPL-3.0+ or GPL-2.0+",
    "libidn2-0": "LGPL-3.0+ or GPL-2.0+", "libk5crypto3": "MIT", "libkeyutils1": "LGPL-2.0+", "libkrb5-3": "MIT", "libkrb5support0": "MIT",
    "liblapack3": "BSD-3-Clause", "libldap-2.5-0": "OLDAP-2.8", "libmd0": "BSD", "libnettle8": "LGPL-3.0+ or GPL-2.0+",
    "libnghttp2-14": "MIT", "libnorm1": "NRL, BSD", "libopenblas0-pthread": "BSD-3-Clause", "libp11-kit0": "BSD-3-Clause", "libpcre2-8-0": "BSD-3-Clause", "libpgm-5.3-0": "LGPL-2.1", "libpq5": "PostgreSQL",
    "libprotobuf32": "BSD-3-Clause", "libpsl5": "MIT", "libquadmath0": "LGPL-2.1+", "librtmp1": "LGPL-2.1+", "libsasl2-2": "BSD-4-Clause-UC, MIT",
    "libsodium23": "ISC", "libspdlog1.10": "MIT", "libspdlog1.10-fmt9": "MIT", "libsqlite3-0": "public domain", "libssh2-1": "BSD-3-Clause",
    "libssl3": "Apache-2.0", "libtasn1-6": "LGPL-2.1+", "libtinfo6": "MIT", "libtomlplusplus3": "MIT", "libunistring2": "LGPL-3.0+ or GPL-2.0+",
    "libutf8proc2": "MIT, Unicode", "libxxhash0": "BSD-2-Clause", "libzmq5": "LGPL-3.0+ with linking exception",
}

LIBRARIES = """# Libraries of others

lib/helix has libraries of {system}, as its packages have them. They are linked dynamically: another build of one may be put in its
place. The sources are those of the packages (`apt-get source PACKAGE=VERSION`, or https://snapshot.debian.org); the full licences are beside this
file.

Corrections of their security come with Debian's updates to the packages of Helix, and to this tarball only when it is made anew.

| library | package | version | source | licence |
| --- | --- | --- | --- | --- |
"""


def output(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def linked(program):
    """Name and path of each library that the program is loaded with, whatever loads it."""
    said = output("ldd", program)
    missing = re.findall(r"(\S+) => not found", said)
    if missing:
        raise SystemExit(f"tarball.py: {missing} are not installed here")
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", said, re.MULTILINE))


def owner(path):
    """The package that a library is of."""
    real = os.path.realpath(path)
    for name in (real, real.removeprefix("/usr"), path, "/usr" + path):
        found = subprocess.run(["dpkg-query", "--search", name], check=False, capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise SystemExit(f"tarball.py: {path} is of no package, so that its licence is not known")


def carry_libraries(program, tree):
    """Copies the libraries and their licences; the lines of the table."""
    library_folder, licence_folder = tree / "lib/helix", tree / "share/doc/helix/libraries"
    library_folder.mkdir(parents=True)
    licence_folder.mkdir(parents=True)
    lines = []
    for name, path in sorted(linked(program).items()):
        if name in SYSTEM:
            continue
        package = owner(path)
        if package not in LICENCES:
            raise SystemExit(f"tarball.py: {name} is of {package}, whose licence has not been looked at")
        version, source, source_version = output("dpkg-query", "--show", "--showformat", "${Version} ${source:Package} ${source:Version}",
                                                 package).split()
        copied = library_folder / name
        shutil.copy(os.path.realpath(path), copied)
        copied.chmod(0o644)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", str(copied)], check=True)
        shutil.copy(f"/usr/share/doc/{package}/copyright", licence_folder / f"{package}.txt")
        lines.append(f"| {name} | {package} | {version} | {source} {source_version} | {LICENCES[package]} |\n")
    return lines


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    version = output(build / "bin/helix", "--version").split()[1]
    name = f"helix-{version}-linux-x86_64"
    with tempfile.TemporaryDirectory(dir=out) as folder:
        tree = pathlib.Path(folder) / name
        subprocess.run(["cmake", "--install", str(build), "--prefix", str(tree)], check=True, stdout=subprocess.DEVNULL)
        lines = carry_libraries(build / "bin/helix", tree)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN/../lib/helix", str(tree / "bin/helix")], check=True)
        system = re.search(r'^PRETTY_NAME="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.MULTILINE).group(1)
        (tree / "share/doc/helix/libraries/README.md").write_text(LIBRARIES.format(system=system) + "".join(lines), encoding="utf-8")
        os.environ.setdefault("XZ_OPT", "-T0")
        packed = out / f"{name}.tar.xz"
        subprocess.run(["tar", "--create", "--xz", "--file", str(packed), "--directory", folder, "--owner=0", "--group=0", "--numeric-owner",
                        "--sort=name", name], check=True)
    print(packed)


if __name__ == "__main__":
    main()
