/** Traps that containers set to lead the agent to the host's files. */

export interface Variant {
  /** A script that plants it, in an empty directory; `$O` is a directory of the host that the container has not. */
  readonly plant: string;
  /** The trap's; `$D` is that directory, and `$N` a name that nothing has. */
  readonly path: string;
  /** Where the trap's path leads inside of the container, at a `$D`-like path; or why it cannot be resolved. */
  readonly ends: { readonly inside: string } | { readonly why: RegExp };
}

const nowhere = { why: /does not exist/ };
const ownOfEach = { why: /another directory for each process/ } as const;

/** In a container as most are. */
export const ordinary: Readonly<Record<string, Variant>> = {
  'an absolute link to a file of the host': { plant: 'ln -s $O/secret x', path: '$D/x', ends: nowhere },
  'an absolute link to a new file': { plant: 'ln -s $O/$N x', path: '$D/x', ends: nowhere },
  'an absolute link to a new file in a directory that both have': {
    plant: 'ln -s /tmp/$N x',
    path: '$D/x',
    ends: nowhere,
  },
  'a link with more .. than there are directories': {
    plant: 'ln -s ../../../../../../../../../../../../../..$O/secret x',
    path: '$D/x',
    ends: nowhere,
  },
  'an absolute link as parent': { plant: 'ln -s $O d', path: '$D/d/secret', ends: nowhere },
  'an absolute link as parent of a new file': { plant: 'ln -s $O d', path: '$D/d/$N', ends: nowhere },
  'a link to /tmp as parent of a new file': {
    plant: 'ln -s /tmp d',
    path: '$D/d/$N',
    ends: { inside: '/tmp/$N' },
  },
  'a relative link to /tmp as parent': {
    plant: 'ln -s ../../../../../../../../../tmp d',
    path: '$D/d/$N',
    ends: { inside: '/tmp/$N' },
  },
  'a link to above the root as parent': { plant: 'ln -s /.. d', path: '$D/d$O/$N', ends: nowhere },
  '.. behind a link': {
    plant: 'ln -s / d; ln -s d/../../tmp e',
    path: '$D/e/$N',
    ends: { inside: '/tmp/$N' },
  },
  'into a directory and further back': {
    plant: 'mkdir -p a/b; ln -s a/b/../../../../../../../tmp d',
    path: '$D/d/$N',
    ends: { inside: '/tmp/$N' },
  },
  'a chain of links': {
    plant: 'ln -s $O a0; for i in $(seq 30); do ln -s a$((i-1)) a$i; done',
    path: '$D/a30/$N',
    ends: nowhere,
  },
  'a chain that is too long': {
    plant: 'ln -s /tmp a0; for i in $(seq 60); do ln -s a$((i-1)) a$i; done',
    path: '$D/a60/$N',
    ends: { why: /Circular links are not followed/ },
  },
  'a link to itself': { plant: 'ln -s x x', path: '$D/x', ends: { why: /Circular links are not followed/ } },
  'a loop of links as parent': {
    plant: 'ln -s b a; ln -s a b',
    path: '$D/a/$N',
    ends: { why: /Circular links are not followed/ },
  },
  'the root of process 1': {
    plant: '',
    path: '/proc/1/root/tmp/$N',
    ends: { why: /the links of procfs/ },
  },
  'its own root, by a link': {
    plant: 'ln -s /proc/self/root d',
    path: '$D/d$O/$N',
    ends: ownOfEach,
  },
  'the working directory': {
    plant: 'ln -s /proc/1/cwd d',
    path: '$D/d/tmp/$N',
    ends: { why: /the links of procfs/ },
  },
  'the root of a thread': {
    plant: 'ln -s /proc/thread-self/root d',
    path: '$D/d/tmp/$N',
    ends: ownOfEach,
  },
  'a descriptor': { plant: 'ln -s /proc/self/fd/0 x', path: '$D/x', ends: ownOfEach },
  'standard input': { plant: '', path: '/dev/stdin', ends: ownOfEach },
  'a link in a volume to beside it': {
    plant: 'ln -sf ../outside /volume/d',
    path: '/volume/d/$N',
    ends: nowhere,
  },
  'a link to .. behind a volume': {
    plant: 'ln -s /volume/../outside d',
    path: '$D/d/$N',
    ends: nowhere,
  },
  'a link in a volume to the host’s path of what is beside it': {
    plant: 'ln -sf $O/$N /volume/x',
    path: '/volume/x',
    ends: nowhere,
  },
  'a hard link': { plant: 'echo > a; ln a b', path: '$D/b', ends: { inside: '$D/a' } },
  'a FIFO': { plant: 'mkfifo x', path: '$D/x', ends: { why: /FIFO/ } },
  'a FIFO as parent': { plant: 'mkfifo d', path: '$D/d/$N', ends: { why: /directory|does not exist/ } },
  'a link to a FIFO': { plant: 'mkfifo f; ln -s f x', path: '$D/x', ends: { why: /FIFO/ } },
  'a socket': {
    plant: 'syslogd; while [ ! -e /dev/log ]; do sleep 0.01; done',
    path: '/dev/log',
    ends: { why: /socket/ },
  },
  'a device node': { plant: 'mknod x c 1 5', path: '$D/x', ends: { inside: '$D/x' } },
  'the node of a disk': { plant: 'mknod x b 7 200', path: '$D/x', ends: { inside: '$D/x' } },
  'a directory': { plant: 'mkdir x', path: '$D/x', ends: { why: /Name a file in it/ } },
  'a file as parent': { plant: 'echo > d', path: '$D/d/$N', ends: { why: /directory|does not exist/ } },
  'a name of 255 bytes, and a path of 4,000': {
    plant: 'n=$(printf %0250d 0); p=.; for i in $(seq 15); do mkdir $p/$n; p=$p/$n; done; ln -s $p d',
    path: '$D/d/$N',
    ends: { inside: '$D/d/$N' },
  },
};

/** In a container that may mount. */
export const privileged: Readonly<Record<string, Variant>> = {
  'its root as a mount below itself': {
    plant: 'mkdir m; mount --bind / m',
    path: '$D/m/tmp/$N',
    ends: { inside: '$D/m/tmp/$N' },
  },
  'the host’s path below its root as a mount': {
    plant: 'mkdir m; mount --bind / m',
    path: '$D/m$O/$N',
    ends: nowhere,
  },
  '.. behind a mount': {
    plant: 'mkdir -p a/b m; mount --bind a/b m; ln -s m/../../../../../../..$O d',
    path: '$D/d/$N',
    ends: nowhere,
  },
  'another procfs, and a root in it': {
    plant: 'mkdir m; mount -t proc proc m',
    path: '$D/m/1/root/tmp/$N',
    ends: { why: /the links of procfs/ },
  },
  'the root of process 1 as a mount': {
    plant: 'mkdir m; mount --bind /proc/1/root m',
    path: '$D/m$O/$N',
    ends: nowhere,
  },
  'a link in a tmpfs': {
    plant: 'mkdir m; mount -t tmpfs none m; ln -s $O m/d',
    path: '$D/m/d/$N',
    ends: nowhere,
  },
  'a read-only mount': {
    plant: 'mkdir m; mount -t tmpfs none m; mount -o remount,ro m',
    path: '$D/m/$N',
    ends: { why: /read-only/i },
  },
  'an overlay of the volume': {
    plant:
      'mkdir m; mount -t tmpfs none m; mkdir m/u m/w m/m; mount -t overlay -o lowerdir=/volume,upperdir=$D/m/u,workdir=$D/m/w o m/m; ln -sfn ../outside m/m/d',
    path: '$D/m/m/d/$N',
    ends: nowhere,
  },
  'a mount over the whole of /tmp': {
    plant: 'mount -t tmpfs none /tmp; ln -s /tmp d',
    path: '$D/d/$N',
    ends: { inside: '/tmp/$N' },
  },
};
