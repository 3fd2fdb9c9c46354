/**
 * The configuration of a FileIntegrity that names none. It is written for the host; `convertAideConf` leads it to a mount.
 *
 * It suits Debian, Ubuntu, RHEL and its kin, RHCOS and other image based systems, Talos and its kin: a path that is not
 * there selects nothing. It reads the same with AIDE 0.18 and 0.19: no negative rule with a `$` has a directory for its aim.
 */

export const defaultAideConf = `# File integrity of a Kubernetes node.
#
# Of all rules that match a file, those of the deepest directory come first, and the first one of them decides.
# A rule with ! leaves out what it matches, and all below.

database_in=file:/etc/kubernetes/aide.db.gz
database_out=file:/etc/kubernetes/aide.db.gz.new
gzip_dbout=yes
log_level=warning
report_level=changed_attributes
report_url=file:/etc/kubernetes/aide.log.new
report_url=stdout

# Who may do what. Times are left out: they change without a change, and the content tells more.
Access = ftype+p+u+g+acl+selinux+xattrs+caps
# And what is in it: links, size, where a symbolic link leads, the content.
Content = Access+n+s+l+sha512
# Directories get and lose files in day-to-day work; each file in them is told by itself.
Place = Access

# --- What the node starts from: kernel, initramfs, boot loader.
# Written at each boot by Fedora and its kin: whether the last boot went well.
!/boot/(.*/)?grubenv$
/boot d Place
/boot Content

# --- Programs and libraries; /bin, /sbin and /lib are links to /usr on most systems. /usr/local has the kubelet on some.
# Sources and kernel headers: many files, nothing runs from there.
!/usr/src/
# A link to /var/tmp on RHEL.
!/usr/tmp/
# Caches that programs make for themselves when they start.
!/usr/(.*/)?__pycache__/
!/usr/share/mime/
!/usr/share/icons/.*/icon-theme\\.cache$
/usr d Place
/usr Content
/bin Content
/sbin Content
/lib Content
# Network plugins, which the kubelet runs as root, and the programs of image based systems.
/opt/(cni/)?bin/ Content

# --- What the administrator says.
# Lists of what is mounted, of clocks, of locks: written by the system itself.
!/etc/mtab$
!/etc/adjtime$
!/etc/fake-hwclock\\.data$
!/etc/\\.pwd\\.lock$
!/etc/(.*/)?\\.updated$
!/etc/lvm/(archive|backup|cache)/
# What editors leave.
!/etc/(.*/)?[^/]*~$
!/etc/(.*/)?\\.[^/]*\\.sw[a-z]$
# Network plugins and the network of OpenShift write their configuration when they start.
!/etc/cni/net\\.d/
!/etc/cni/multus/
!/etc/kubernetes/cni/
!/etc/NetworkManager/system-connections/
!/etc/openvswitch/
# OpenShift: the machine config daemon's own books, registries' certificates and pull secrets that are renewed, certificates
# in Java's form (which differ each time they are made), the policy that is rebuilt with each module.
!/etc/machine-config-daemon/
!/etc/docker/certs\\.d/
!/etc/mco/
!/etc/cvo/
!/etc/pki/ca-trust/extracted/java/
!/etc/selinux/[^/]*/(active|policy|contexts/files)/
# Revisions of static pods, written by OpenShift's operators. The manifests themselves stay watched: what is written
# there runs on the node. Where operators write those often too, add !/etc/kubernetes/manifests/
!/etc/kubernetes/static-pod-resources/
# Certificates that are renewed by rotation.
!/etc/kubernetes/kubelet-ca\\.crt$
# Findings of node feature discovery and of scanners, and the databases of this guard.
!/etc/kubernetes/node-feature-discovery/
!/etc/kubernetes/compliance-operator/
!/etc/kubernetes/(aide|integrity)[^/]*
/etc d Place
/etc Content

# --- The kubelet: its configuration, not what it keeps of pods, plugins and rotated certificates.
/var/lib/kubelet/(config\\.yaml|kubeadm-flags\\.env|kubeconfig)$ Content
/var/lib/kubelet/config\\.json$ Access

# --- Jobs that run by the clock.
/var/spool/cron d Place
/var/spool/cron Content
/var/spool/(at|anacron) Access

# --- Root's own files: who may write them, and which keys may log in. Histories and caches change with each session.
!/root/\\.(kube|cache|local|npm|ansible)/
!/root/\\.[^/]*(history|hist|hsts|viminfo|lesshst)$
!/root/\\.(viminfo|lesshst|rnd)$
/root/\\.ssh/ Content
/root/\\.(bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|cshrc|tcshrc)$ Content
/root d Place
/root/\\. Access
`;
