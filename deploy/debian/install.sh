#!/bin/sh
# Puts Rampart in place without a package manager:   ./install.sh [--prefix DIR]     (default: /usr/local)
# Needs libbpf (1.0 or later) and libnftables of the distribution. What it wrote is listed in PREFIX/lib/rampart/installed.
set -eu
prefix=/usr/local
case "${1-}" in
  --prefix) prefix="${2:?install.sh: --prefix needs a directory}" ;;
  --prefix=*) prefix="${1#--prefix=}" ;;
  '') ;;
  *) echo 'usage: ./install.sh [--prefix DIR]' >&2; exit 2 ;;
esac
from="$(dirname "$(readlink -f "$0")")"
[ "$(ldconfig -p | grep -c 'libbpf\.so\.1\|libnftables\.so\.1')" -ge 2 ] ||
  echo 'install.sh: libbpf.so.1 or libnftables.so.1 is not here; install the packages of the distribution that have them' >&2

mkdir -p "$prefix/lib" "$prefix/bin" "$prefix/share/doc"
rm -rf "$prefix/lib/rampart" "$prefix/share/doc/rampart"
cp -R "$from/usr/lib/rampart" "$prefix/lib/rampart"
cp -R "$from/usr/share/doc/rampart" "$prefix/share/doc/rampart"
ln -sfn ../lib/rampart/bin/rampart "$prefix/bin/rampart"
installed="$prefix/lib/rampart $prefix/share/doc/rampart $prefix/bin/rampart"

# The service only where the system's own directories are meant, and systemd runs them.
if [ -d /run/systemd/system ] && [ "$(id -u)" = 0 ]; then
  mkdir -p /etc/rampart/policies
  [ -e /etc/rampart/rampart.conf ] || cp "$from/etc/rampart/rampart.conf" /etc/rampart/rampart.conf
  [ ! -d /etc/logrotate.d ] || cp "$from/etc/logrotate.d/rampart" /etc/logrotate.d/rampart
  sed "s|/usr/bin/rampart|$prefix/bin/rampart|" "$from/usr/lib/systemd/system/rampart.service" > /etc/systemd/system/rampart.service
  systemctl daemon-reload
  installed="$installed /etc/systemd/system/rampart.service /etc/logrotate.d/rampart /etc/rampart"
  echo 'The service is not started yet: systemctl enable --now rampart'
fi
printf '%s\n' $installed > "$prefix/lib/rampart/installed"
echo "Installed: $("$prefix/bin/rampart" --version) in $prefix. To remove it, delete what $prefix/lib/rampart/installed lists."
