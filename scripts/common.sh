# shellcheck shell=bash disable=SC2034  # sourced by bash scripts, which use the variables
# Functions that several scripts share: messages, the installation of the packages that the project needs, and
# clang's tools.

# Debian's and Ubuntu's package, and a command or a file under /usr or /usr/local that the package installs.
build_packages=(
  'cmake               cmake'
  'make                make'
  'g++                 g++'
  'libeigen3-dev       include/eigen3/Eigen/Core'
  'nlohmann-json3-dev  include/nlohmann/json.hpp'
  'libcli11-dev        include/CLI/CLI.hpp'
  'catch2              include/catch2/catch*.hpp'
  'libdnnl-dev         include/dnnl.h'
  'zlib1g-dev          include/zlib.h'
  'libbenchmark-dev    include/benchmark/benchmark.h'
)
clang_packages=(
  'clang            clang++'
  'libclang-rt-dev  lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-*'
)

say() { printf '%s: %s\n' "$(basename "$0")" "$*"; }
die() { say "$*" >&2; exit 1; }
refuse() { say "$*" >&2; exit 2; }  # for errors of the command line
has() { command -v "$1" >/dev/null; }

is_installed() {
  case $1 in
    */*) compgen -G "/usr/$1" >/dev/null || compgen -G "/usr/local/$1" >/dev/null ;;
    *) has "$1" ;;
  esac
}

# Prints the packages of a list that are not installed.
missing_of() {
  local entry package sign
  for entry; do
    read -r package sign <<<"$entry"
    is_installed "$sign" || echo "$package"
  done
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"; }

# Prints those of the given packages that apt knows. In older releases some packages do not exist; a dependency of
# another package then contains their files.
known_to_apt() {
  local package
  for package; do apt-cache show "$package" >/dev/null 2>&1 && echo "$package"; done
}

install_with_apt() {
  local known
  apt update
  mapfile -t known < <(known_to_apt "$@")
  apt install --no-install-recommends "${known[@]}"
}

# Prints the names of the missing packages of a list and installs them with apt. Without apt or root rights, only prints
# the names.
install_packages() {
  local missing log=build/install.log
  mapfile -t missing < <(missing_of "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! has apt-get; then
    say "these packages (Debian's names) are missing, and there is no apt to install them: ${missing[*]}"
  elif [ "$(id -u)" != 0 ] && ! has sudo; then
    say "these packages are missing, and only root can install them: apt-get install ${missing[*]}"
  else
    say "installing with apt: ${missing[*]}"
    mkdir -p build
    install_with_apt "${missing[@]}" >"$log" 2>&1 || { tail -n 15 "$log"; say "apt failed; its full output is in $log"; }
  fi
}

# Installs the missing build packages. Ends the script if cmake, make or g++ is still missing.
require_build_tools() {
  install_packages "${build_packages[@]}"
  local tool
  for tool in cmake make g++; do has "$tool" || die "cannot continue without $tool"; done
}

# Prints the command llvm-cov of clang's release, or else the unversioned one. Fails if there is neither, or no clang++.
llvm_cov() {
  local command
  command -v clang++ >/dev/null || return 1
  for command in "llvm-cov-$(clang++ -dumpversion | cut -d. -f1)" llvm-cov; do
    if has "$command"; then
      echo "$command"
      return
    fi
  done
  return 1
}

# Prints the command of clang-format 14. Its releases format differently, so the project uses one that Debian 12 and
# Ubuntu 22.04 have. Fails if it is not installed.
clang_format() {
  local command
  for command in clang-format-14 clang-format; do
    if has $command && $command --version | grep -q 'version 14\.'; then
      echo $command
      return
    fi
  done
  return 1
}
