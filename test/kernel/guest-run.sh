# Process 1 of the guest's root: mounts what a running system has, runs the command with its output on
# the virtio port, and says how it ended.

b=/run/rampart/busybox
step() { read -r u _ </proc/uptime; echo "guest: $u $*"; }
die() { step "FAILED: $*"; $b poweroff -f; }
. /run/rampart/settings

mount_at() { # TYPE PATH [OPTIONS]
  $b mkdir -p "$2" 2>/dev/null
  $b mount -t "$1" ${3:+-o "$3"} "$1" "$2" || step "cannot mount $2"
}
mount_at devpts /dev/pts mode=620,ptmxmode=666
mount_at tmpfs /dev/shm mode=1777
mount_at cgroup2 /sys/fs/cgroup
mount_at bpf /sys/fs/bpf mode=700
mount_at securityfs /sys/kernel/security
mount_at debugfs /sys/kernel/debug
mount_at tracefs /sys/kernel/tracing
for link in 'fd /proc/self/fd' 'stdin /proc/self/fd/0' 'stdout /proc/self/fd/1' 'stderr /proc/self/fd/2'; do
  $b ln -sf "${link#* }" "/dev/${link%% *}"
done
$b ip link set lo up || step 'cannot set lo up'
$b hostname rampart-guest

port=/dev/vport0p1
while [ ! -c $port ]; do $b usleep 5000; done
step 'running the command'
# The command writes into a pipe, not the port: a port can be open only once, so that opening
# /dev/stdout would fail. The marks go the same way, behind everything the command wrote.
{
  printf '%s start\n' "$MARK"
  (launch) </dev/null 2>&1
  printf '%s exit %d\n' "$MARK" $?
} | $b cat >$port
# The host ends the machine when it has read the mark.
$b sleep 10
$b poweroff -f
