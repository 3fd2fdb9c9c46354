#!/bin/sh
# Runs the sensor's suites inside a guest, in the mode named by $1. The files they make are on ext4, because
# the guest's /tmp is a tmpfs, which gives no sign of a truncation by path before kernel 6.13.
set -eu
mode=$1
shift
modprobe -q loop || :
modprobe -q ext4 || :
# CO-RE finds the types of a module only while it is loaded, and the guest's root already uses this one.
modprobe -q overlay || :
truncate -s 256M /tmp/disk.img
mkfs.ext4 -q -F /tmp/disk.img
mkdir -p /tmp/disk
mount -o loop /tmp/disk.img /tmp/disk
chmod 1777 /tmp/disk
export TMPDIR=/tmp/disk RAMPART_SENSOR_MODE="$mode"
exec node --test --test-concurrency=1 --test-reporter=spec "$@"
