#!/bin/sh
# Runs commands inside a guest, two at a time, on what the sensor's suites need of it. Each argument after the second is a command for
# sh. Its output is printed when it ends, between two lines with the mark $1: the first has the number of the command, counted from 0, the
# second its exit code and the seconds it took.
#
# Two at a time, because a test waits for half of its time.
#
# With `disk` as $2, the files that the suites make are on ext4, because the guest's /tmp is a tmpfs, which gives no sign of a truncation by
# path before kernel 6.13, and the modules for the networks of bpf-programs are loaded; with `none`, neither, which takes a few seconds less.
set -eu
mark=$1 disk=$2
shift 2
# CO-RE finds the types of a module only while it is loaded, and the guest's root already uses overlay.
modules=overlay
[ "$disk" = none ] || modules="$modules loop ext4 veth sch_ingress cls_bpf"
# shellcheck disable=SC2086
modprobe -q -a $modules || :
if [ "$disk" = disk ]; then
  truncate -s 256M /tmp/disk.img
  mkfs.ext4 -q -F /tmp/disk.img
  mkdir /tmp/disk
  mount -o loop /tmp/disk.img /tmp/disk
  chmod 1777 /tmp/disk
  export TMPDIR=/tmp/disk
fi
# A file of an overlay.
mkdir -p /tmp/lower /tmp/over
mount -t tmpfs upper /tmp/over
mkdir /tmp/over/upper /tmp/over/work /tmp/over/merged
mount -t overlay -o lowerdir=/tmp/lower,upperdir=/tmp/over/upper,workdir=/tmp/over/work overlay /tmp/over/merged
echo secret > /tmp/over/merged/file
# shellcheck disable=SC2016 # The inner shell expands them.
run='
  number=$2 output=/tmp/output-$2
  read -r begin _ < /proc/uptime
  sh -c "$3" > "$output" 2>&1 && code=0 || code=$?
  read -r end _ < /proc/uptime
  exec 9> /tmp/printing
  flock 9
  echo "$1 begins $number"
  cat "$output"
  echo "$1 ends with $code after $((${end%.*} - ${begin%.*}))"
'
number=0
for command; do
  printf '%s\0' "$mark" "$number" "$command"
  number=$((number + 1))
done | xargs -0 -n 3 -P 2 sh -c "$run" sh
exit 3
