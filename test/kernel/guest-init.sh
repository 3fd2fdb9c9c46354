#!/bin/busybox sh
# The guest's first program, in the initramfs: builds the root out of the host's files and hands over
# to guest-run.sh as process 1 in it. Its own output goes to the console.
# The number in a step is the kernel's uptime in seconds.
# Set by /settings: CHECKOUT, MODULES (host path of /lib/modules/<release>), MARK, launch().

b=/bin/busybox
step() { read -r u _ </proc/uptime; echo "guest: $u $*"; }
die() { step "FAILED: $*"; $b poweroff -f; }

$b mkdir -p /proc /sys /dev /lower /upper /root
$b mount -t proc proc /proc || die 'mount /proc'
$b mount -t sysfs sysfs /sys || die 'mount /sys'
$b mount -t devtmpfs devtmpfs /dev || die 'mount /dev'
. /settings
step 'kernel booted'

for module in /modules/*; do
  $b insmod "$module" || die "insmod $module"
done
step 'modules loaded'

# The host's disk: read only already in qemu. Nothing changes it during the run as far as the guest
# is concerned, so the guest may keep what it has read (cache=loose).
$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose rampart-root /lower ||
  die 'mount the host root over 9p'
$b mount -t tmpfs -o mode=755 tmpfs /upper || die 'mount tmpfs'
$b mkdir /upper/data /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /root ||
  die 'mount overlay'
step 'root mounted'

# Plain tmpfs where programs keep their temporary files; a checkout below one of them is put back.
$b mkdir /checkout
$b mount -o bind "/root$CHECKOUT" /checkout || die "bind $CHECKOUT"
for path in /tmp /var/tmp /run; do
  $b mkdir -p "/root$path"
  $b mount -t tmpfs -o mode=1777 tmpfs "/root$path" || die "mount $path"
done
if [ ! -e "/root$CHECKOUT" ]; then
  $b mkdir -p "/root$CHECKOUT"
  $b mount -o bind /checkout "/root$CHECKOUT" || die "bind $CHECKOUT"
fi
$b umount /checkout
$b chmod 755 /root/run

release=$($b uname -r)
$b mkdir -p /root/lib/modules
[ -e "/root/lib/modules/$release" ] || $b ln -s "$MODULES" "/root/lib/modules/$release"

for path in /proc /sys /dev; do
  $b mkdir -p "/root$path"
  $b mount -o move "$path" "/root$path" || die "move $path"
done
$b mkdir -p /root/run/rampart
$b cp /bin/busybox /settings /guest-run.sh /root/run/rampart/
exec $b switch_root -c /dev/console /root /run/rampart/busybox sh /run/rampart/guest-run.sh
