#!/bin/sh
# Runs guest-capabilities.ts inside a guest: with all capabilities, then with those in $1 (+bpf,+perfmon), in the mode $2.
set -eu
# Types of a module are there while it is loaded.
modprobe -q overlay || :
mkdir -p /tmp/lower /tmp/over
mount -t tmpfs upper /tmp/over
mkdir /tmp/over/upper /tmp/over/work /tmp/over/merged
mount -t overlay -o lowerdir=/tmp/lower,upperdir=/tmp/over/upper,workdir=/tmp/over/work overlay /tmp/over/merged
echo secret > /tmp/over/merged/file
export RAMPART_SENSOR_MODE="$2"
node test/kernel/guest-capabilities.ts /tmp/over/merged/file
exec setpriv --bounding-set="-all,$1" --inh-caps=-all --no-new-privs node test/kernel/guest-capabilities.ts /tmp/over/merged/file
