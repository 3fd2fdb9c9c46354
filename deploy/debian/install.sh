#!/bin/sh
# Puts Rampart in place without a package manager:
#
#   ./install.sh [--prefix DIR]                  default: /usr/local
#   PREFIX/lib/rampart/install.sh --remove       removes it again, and what it left in the kernel; configuration and data stay
#
# Needs glibc 2.36 or later, libbpf (1.0 or later) and libnftables. The service is installed where systemd runs.
set -eu
from="$(dirname "$(readlink -f "$0")")"
prefix=/usr/local
action=install
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix) prefix="${2:?install.sh: --prefix needs a directory}"; shift ;;
    --prefix=*) prefix="${1#--prefix=}" ;;
    --remove) action=remove ;;
    *) echo 'usage: ./install.sh [--prefix DIR] [--remove]' >&2; exit 2 ;;
  esac
  shift
done
# What is shared with others in PREFIX/share, and where it comes from.
shared='man/man1/rampart.1.gz bash-completion/completions/rampart zsh/site-functions/_rampart fish/vendor_completions.d/rampart.fish'
unit=/etc/systemd/system/rampart.service
has_service() { [ -d /run/systemd/system ] && [ "$(id -u)" = 0 ]; }

if [ "$action" = remove ]; then
  # Where this script is, unless it is that of the unpacked archive.
  case "$from" in */lib/rampart) prefix="${from%/lib/rampart}" ;; esac
  [ -x "$prefix/lib/rampart/bin/rampart" ] || { echo "install.sh: nothing is installed in $prefix" >&2; exit 2; }
  if has_service; then systemctl disable --now rampart.service || true; fi
  if [ "$(id -u)" = 0 ]; then
    # With the options of the service, which say where its pins and rules are; of all guards, as those left out may have been at work
    # before. As systemd.exec(5) has it, the file is no shell script: a value may do without quotes.
    options=
    if [ -e /etc/rampart/rampart.conf ]; then
      options="$(sed -n 's/^RAMPART_OPTIONS=//p' /etc/rampart/rampart.conf | tail -n 1 | tr -d "\"'")"
    fi
    "$prefix/lib/rampart/bin/rampart" uninstall node --keep-data $options \
      --guards file-access,file-integrity,network-policy,policy-audit,bpf-programs ||
      echo 'install.sh: something is left in the kernel, see above; a restart of the machine removes it' >&2
  fi
  rm -rf "$prefix/lib/rampart" "$prefix/share/doc/rampart"
  rm -f "$prefix/bin/rampart"
  for path in $shared; do rm -f "$prefix/share/$path"; done
  if has_service; then
    rm -f "$unit" /etc/logrotate.d/rampart /etc/tmpfiles.d/rampart.conf
    systemctl daemon-reload
  fi
  echo "Removed from $prefix. Left, if they were there: /etc/rampart, /var/lib/rampart, /var/log/rampart"
  exit 0
fi

for library in libbpf.so.1 libnftables.so.1; do
  PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2> /dev/null | grep -q "$library" ||
    echo "install.sh: $library was not found; install the package of the distribution that has it" >&2
done
mkdir -p "$prefix/lib" "$prefix/bin" "$prefix/share/doc"
prefix="$(readlink -f "$prefix")"
# A process that runs keeps the files that it has open.
rm -rf "$prefix/lib/rampart" "$prefix/share/doc/rampart"
cp -R "$from/usr/lib/rampart" "$prefix/lib/rampart"
cp -R "$from/usr/share/doc/rampart" "$prefix/share/doc/rampart"
cp "$from/install.sh" "$prefix/lib/rampart/install.sh"
for path in $shared; do
  mkdir -p "$prefix/share/${path%/*}"
  cp "$from/usr/share/$(echo "$path" | sed 's|site-functions|vendor-completions|')" "$prefix/share/$path"
done
ln -sfn ../lib/rampart/bin/rampart "$prefix/bin/rampart"

if has_service; then
  mkdir -p /etc/rampart/policies
  mkdir -p -m 0750 /var/log/rampart
  cp "$from/usr/lib/tmpfiles.d/rampart.conf" /etc/tmpfiles.d/rampart.conf
  [ -e /etc/rampart/rampart.conf ] || cp "$from/etc/rampart/rampart.conf" /etc/rampart/rampart.conf
  [ ! -d /etc/logrotate.d ] || cp "$from/etc/logrotate.d/rampart" /etc/logrotate.d/rampart
  sed "s|/usr/bin/rampart|$prefix/bin/rampart|; s|/usr/share/doc|$prefix/share/doc|" "$from/usr/lib/systemd/system/rampart.service" > "$unit"
  systemctl daemon-reload
  if systemctl is-active --quiet rampart.service; then
    systemctl restart rampart.service
  else
    echo 'The service is installed and not started: systemctl enable --now rampart'
  fi
fi
echo "Installed: rampart $("$prefix/bin/rampart" --version) in $prefix. To remove it: $prefix/lib/rampart/install.sh --remove"
