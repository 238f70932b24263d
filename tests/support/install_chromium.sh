#!/bin/sh
# Installs Debian's Chromium for the tests of the web console, where that is possible: on Debian, as
# root. Elsewhere it says how, and those tests are skipped. It always succeeds.

if command -v chromium >/dev/null 2>&1; then
    exit 0
fi

is_debian=$(. /etc/os-release 2>/dev/null && [ "$ID" = debian ] && echo yes)
if [ -z "$is_debian" ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "there is no chromium, so tests in a browser are skipped; on Debian: apt-get install chromium" >&2
    exit 0
fi

apt() {
    DEBIAN_FRONTEND=noninteractive timeout 600 apt-get -qq -y \
        -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 \
        -o DPkg::Lock::Timeout=120 "$@" >/dev/null 2>&1
}

install() {
    apt install --no-install-recommends chromium fonts-dejavu-core
}

echo "installing chromium for the tests of the web console, once"
install || { apt update && install; } ||
    echo "chromium could not be installed, so tests in a browser are skipped" >&2
exit 0
