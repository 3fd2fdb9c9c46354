/**
 * The configuration of a FileIntegrity that names none. It is written for the host; `convertAideConf` adapts it to a
 * mount.
 *
 * It watches everything that the released default of the File Integrity Operator (FIO) watches: it excludes nothing
 * that FIO's default includes. Each exclusion names the noise that it prevents; docs/file-integrity.md has measurements
 * of the remaining noise.
 *
 * It suits Debian, Ubuntu, RHEL and its derivatives, RHCOS and other image-based systems, Talos and the like: a path
 * that does not exist selects nothing. It has the same meaning in AIDE 0.18 and 0.19: no negative rule with a `$`
 * matches a directory.
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
/boot d Place
/boot Content

# --- Programs and libraries; /bin, /sbin and /lib are links to /usr on most systems. /usr/local has the kubelet on some.
# Sources and kernel headers: tens of thousands of files with each update of a kernel, and nothing runs from there.
!/usr/src/
# A link to /var/tmp on RHEL: whatever programs leave there.
!/usr/tmp/
/usr d Place
/usr Content
/bin Content
/sbin Content
/lib Content
# Network plugins, which the kubelet runs as root, and the programs of image based systems.
/opt/(cni/)?bin/ Content

# --- What the administrator says.
# A list of what is mounted: written with each mount, where it is no link.
!/etc/mtab$
# What editors leave: one file for each that is edited.
!/etc/(.*/)?[^/]*~$
# Network plugins write their configuration each time that they start: one file for each restart of a pod.
!/etc/kubernetes/cni/net\\.d
# Connections that NetworkManager makes up for interfaces that come and go.
!/etc/NetworkManager/system-connections/
# The database of Open vSwitch: written with each pod that starts.
!/etc/openvswitch/conf\\.db
# The machine config daemon's own books: written with each change of a machine configuration and each minute.
!/etc/machine-config-daemon/currentconfig$
!/etc/machine-config-daemon/node-annotation\\.jso
# Certificates of multus, of registries, of the kubelet, and a pull secret: renewed by rotation, once a day and more often.
!/etc/cni/multus/certs
!/etc/docker/certs\\.d
!/etc/mco/internal-registry-pull-secret\\.json$
!/etc/kubernetes/kubelet-ca\\.crt$
# Certificates in Java's form: they differ each time they are made of the same certificates.
!/etc/pki/ca-trust/extracted/java/cacerts$
# What the cluster version operator unpacks: with each update of the cluster.
!/etc/cvo/updatepayloads
# The policy of SELinux: compiled anew with each module.
!/etc/selinux/targeted
# Revisions of static pods, written by OpenShift's operators, several a day. The manifests themselves stay watched: what is
# written there runs on the node. Where operators write those often too, add !/etc/kubernetes/manifests/
!/etc/kubernetes/static-pod-resources
# Findings of node feature discovery and of scanners: written each minute, and with each scan.
!/etc/kubernetes/node-feature-discovery
!/etc/kubernetes/compliance-operator
# Databases and logs of AIDE: written by each of its scans.
!/etc/kubernetes/aide
/etc d Place
/etc Content

# --- The kubelet: its configuration, not what it keeps of pods, plugins and rotated certificates.
/var/lib/kubelet/(config\\.yaml|kubeadm-flags\\.env|kubeconfig)$ Content
/var/lib/kubelet/config\\.json$ Access

# --- Jobs that run by the clock.
/var/spool/cron d Place
/var/spool/cron Content
/var/spool/(at|anacron) Access

# --- Root's own files: who may write them, and the content of all that runs or lets somebody in.
# Caches of kubectl: files with each command.
!/root/\\.kube
/root/\\.ssh/ Content
/root/\\.local/(bin|lib|share/systemd)/ Content
/root/\\.config/(systemd|autostart)/ Content
/root/\\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshenv|zshrc|zprofile|zlogin|cshrc|tcshrc|login|vimrc)$ Content
# Of other dot files the content changes with each session: histories, caches.
/root/\\. Access
/root/ d Place
/root d Place
/root/ Content
`;
