#!/bin/sh
# Runs commands inside a guest, one after the other, on what the sensor's suites need of it. Each argument is a command for sh;
# what it writes stands between two lines with the mark $1, and the second one tells its exit code and the seconds it took.
#
# The files that the suites make are on ext4, because the guest's /tmp is a tmpfs, which gives no sign of a truncation by path before
# kernel 6.13.
set -eu
mark=$1
shift
modprobe -q loop || :
modprobe -q ext4 || :
# CO-RE finds the types of a module only while it is loaded, and the guest's root already uses this one.
modprobe -q overlay || :
# The networks of bpf-programs.
modprobe -q -a veth sch_ingress cls_bpf || :
truncate -s 256M /tmp/disk.img
mkfs.ext4 -q -F /tmp/disk.img
mkdir -p /tmp/disk /tmp/lower /tmp/over
mount -o loop /tmp/disk.img /tmp/disk
chmod 1777 /tmp/disk
# A file of an overlay.
mount -t tmpfs upper /tmp/over
mkdir /tmp/over/upper /tmp/over/work /tmp/over/merged
mount -t overlay -o lowerdir=/tmp/lower,upperdir=/tmp/over/upper,workdir=/tmp/over/work overlay /tmp/over/merged
echo secret > /tmp/over/merged/file
export TMPDIR=/tmp/disk
for command; do
  echo "$mark begins"
  read -r begin _ < /proc/uptime
  sh -c "$command" && code=0 || code=$?
  read -r end _ < /proc/uptime
  echo "$mark ends with $code after $((${end%.*} - ${begin%.*}))"
done
exit 3
