#!/bin/sh
# Installs packages of zester: install.sh [--key FILE] [--version VERSION] [--from URL] PACKAGE…
# PACKAGE is zester, zester-master or zester-peel.
# It checks the signature of SHA256SUMS with the public key of the releases, which is in this file or in FILE, and each package
# by its sum, before it installs anything.
# It is one function that the last line calls, so that half of a download does nothing.
set -eu

main() {
  signer='' # .ci/package writes the public key here, if the releases have one
  key= version= from=https://github.com/seed-c01c3da5/zester/releases/download packages=
  while [ $# -gt 0 ]; do
    case $1 in
    --key) key=$2 && shift 2 ;;
    --version) version=$2 && shift 2 ;;
    --from) from=$2 && shift 2 ;;
    zester | zester-master | zester-peel) packages="$packages $1" && shift ;;
    *) fail "unknown argument $1; packages are zester, zester-master and zester-peel" ;;
    esac
  done
  [ -n "$packages" ] || fail 'name a package: zester, zester-master or zester-peel'
  [ -n "$version" ] || fail 'name a version, as in --version 0.2.0'
  [ -n "$signer$key" ] || fail 'name the public key of the releases, as in --key zester.pub, which you got from somebody you trust'
  [ "$(id -u)" = 0 ] || fail 'run this as root'
  command -v ssh-keygen >/dev/null || fail 'install ssh-keygen (Debian: openssh-client), which checks the signature'

  case $(uname -m) in
  x86_64) deb=amd64 rpm=x86_64 ;;
  aarch64) deb=arm64 rpm=aarch64 ;;
  *) fail "there is no package for $(uname -m)" ;;
  esac
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  cd "$dir"
  get SHA256SUMS
  get SHA256SUMS.sig
  if [ -n "$key" ]; then signer=$(cat "$key") || fail "cannot read the public key $key"; fi
  printf 'releases %s\n' "$signer" >allowed
  ssh-keygen -q -Y verify -f allowed -I releases -n file -s SHA256SUMS.sig <SHA256SUMS ||
    fail 'the signature of SHA256SUMS is not by that key: nothing is installed'

  files=
  for package in $packages; do
    if command -v apt-get >/dev/null; then name=${package}_${version}_$deb.deb; else name=$package-$version-1.$rpm.rpm; fi
    get "$name"
    grep -F "  $name" SHA256SUMS | sha256sum -c --quiet - || fail "$name does not have the sum in SHA256SUMS: nothing is installed"
    files="$files ./$name"
  done
  # shellcheck disable=SC2086 # names of packages have no spaces
  if command -v apt-get >/dev/null; then apt-get install -y $files; else dnf install -y $files; fi
}

get() {
  curl -fsSL --proto '=https,file' -o "$1" "$from/v$version/$1" || fail "cannot get $from/v$version/$1"
}

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

main "$@"
