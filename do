#!/bin/sh
# What a bare Debian or Ubuntu lacks, by apt where missing and possible, then make: ./do demo, ./do test, ./do TARGET.
set -eu
cd "$(dirname "$0")"
target=${1:-demo}

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
python=
for name in python3 python3.14 python3.13 python3.12 python3.11; do
    if [ -z "$python" ] && fits "$name"; then python=$name; fi
done
if [ -z "$python" ]; then
    echo "./do: Python 3.11 or newer is needed and no python3 here is" >&2
    exit 1
fi

has() { command -v "$1" >/dev/null 2>&1; }
sanitizes() { echo 'int main(void) { return 0; }' | clang -fsanitize=address,undefined -x c -o /dev/null - 2>/dev/null; }
narrow() { echo '#include <math.h>
int main(void) { return 0; }' | gcc -m32 -x c -o /dev/null - 2>/dev/null; }
header='import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'

needed=
has make || needed="$needed make"
has cc || needed="$needed gcc libc6-dev"
"$python" -c 'import ensurepip, venv' 2>/dev/null || needed="$needed $python-venv"
"$python" -c "$header" || needed="$needed $python-dev"

tools=
case $target in
demo | setup) ;;
*)
    has c++ || tools="$tools g++"
    has clang-format || tools="$tools clang-format"
    has clang || tools="$tools clang"
    has clang && sanitizes || tools="$tools libclang-rt-dev"
    has aarch64-linux-gnu-gcc || tools="$tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    has s390x-linux-gnu-gcc || tools="$tools gcc-s390x-linux-gnu libc6-dev-s390x-cross"
    if [ "$(uname -m)" = x86_64 ] && has gcc && ! narrow; then # gcc-multilib would remove cross compilers
        tools="$tools libc6-dev-i386 lib32gcc-$(gcc -dumpversion | cut -d. -f1)-dev"
    fi
    has arm-none-eabi-gcc || tools="$tools gcc-arm-none-eabi libnewlib-arm-none-eabi"
    has chromium || tools="$tools chromium"
    has clang-tidy || tools="$tools clang-tidy"
    has cmake || tools="$tools cmake"
    has cppcheck || tools="$tools cppcheck"
    has llvm-mca || tools="$tools llvm"
    has qemu-aarch64 || tools="$tools qemu-user"
    has qemu-system-arm || tools="$tools qemu-system-arm"
    has riscv64-unknown-elf-gcc || tools="$tools gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"
    has qemu-system-riscv32 || tools="$tools qemu-system-misc"
    has clang-19 || tools="$tools clang-19"
    has verilator || tools="$tools verilator"
    has wasm-ld || tools="$tools lld wasi-libc wasm-builtins"
    ;;
esac

if [ -n "$needed$tools" ]; then
    echo "./do: apt-get install$needed$tools" >&2
    apt="env DEBIAN_FRONTEND=noninteractive apt-get -qq"
    [ "$(id -u)" = 0 ] || apt="sudo $apt"
    $apt update >/dev/null || true
    # shellcheck disable=SC2086 # words
    if [ -n "$needed" ] && ! $apt install -y --no-install-recommends $needed >/dev/null; then
        echo "./do: cannot install$needed; install them by hand, then ./do $target" >&2
        exit 1
    fi
    for package in $tools; do # the tests that want one of these are skipped without it
        [ "$package" != wasm-builtins ] || package=libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev-wasm32
        $apt install -y --no-install-recommends "$package" >/dev/null || echo "./do: no $package" >&2
    done
fi

exec make --no-print-directory PYTHON="$python" "${@:-demo}"
