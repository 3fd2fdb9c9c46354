/**
 * Paths at which policies may not create files: those that loaders, shells, logins, cron and the like use by
 * themselves. A created file has the mode from the policy. If others may write to it and root uses it, every process of
 * the container can become root; and even an empty file can change what programs do. Watching such a path without
 * `create` is harmless.
 */

/** Directories below which no file is created, at any depth. */
const directories: Readonly<Record<string, readonly string[]>> = {
  'the dynamic linker': [
    ...['lib', 'lib32', 'lib64', 'libx32', 'libexec'].flatMap((name) => [
      `/${name}`,
      `/usr/${name}`,
      `/usr/local/${name}`,
    ]),
    '/etc/ld.so.conf.d',
  ],
  // A file there hides a program of the same name in a later directory of PATH.
  'command lookup': ['', '/usr', '/usr/local'].flatMap((prefix) => [`${prefix}/bin`, `${prefix}/sbin`]),
  shells: ['/etc/profile.d', '/etc/bash_completion.d', '/etc/zsh', '/etc/fish', '/etc/skel'],
  logins: ['/etc/pam.d', '/etc/security', '/etc/sudoers.d', '/etc/ssh', '/etc/polkit-1'],
  // Hooks and configuration of programs that root runs: package and network managers, boot loaders, messages at login.
  'the system': [
    ...[
      'apt',
      'dpkg',
      'dnf',
      'yum',
      'yum.repos.d',
      'apk',
      'zypp',
      'network',
      'NetworkManager',
      'dhcp',
      'ppp/ip-up.d',
      'ppp/ip-down.d',
      'networkd-dispatcher',
    ],
    ...[
      'update-motd.d',
      'logrotate.d',
      'kernel',
      'initramfs-tools',
      'dracut.conf.d',
      'grub.d',
      'X11',
      'xdg',
      'perl',
      'python3',
    ],
    ...['acpi', 'pm', 'resolvconf', 'ca-certificates', 'alternatives'],
  ].map((name) => `/etc/${name}`),
  cron: [
    ...['d', 'hourly', 'daily', 'weekly', 'monthly'].map((name) => `/etc/cron.${name}`),
    ...['/etc/periodic', '/var/spool/cron', '/var/spool/at'],
  ],
  'the init system': [
    ...['/etc/init', '/etc/init.d', '/etc/rc.d', '/etc/runit', '/etc/sv', '/etc/systemd', '/run/systemd'],
    ...['0', '1', '2', '3', '4', '5', '6', 's'].map((level) => `/etc/rc${level}.d`),
    ...['binfmt', 'modprobe', 'modules-load', 'sysctl', 'tmpfiles'].map((name) => `/etc/${name}.d`),
    '/etc/udev',
  ],
};

/** Files in /etc; `*` is any part of a name. */
const inEtc: Readonly<Record<string, string>> = {
  'the dynamic linker': 'ld.so.* ld-musl-* suid-debug',
  shells: 'profile bash.* bashrc zshrc zshenv zprofile zlogin zlogout csh.* inputrc shells',
  logins:
    'passwd passwd- shadow shadow- group group- gshadow gshadow- subuid subuid- subgid subgid- sudo* doas.conf environment login.defs nologin securetty hosts.equiv',
  cron: 'crontab anacrontab cron.* at.allow at.deny',
  'the init system': 'rc.local inittab fstab modules sysctl.conf',
  'name resolution': 'nsswitch.conf hosts host.conf resolv.conf gai.conf',
  git: 'gitconfig',
};

/** Files in home directories, which may be anywhere; `**` matches anything below. */
const inHome: Readonly<Record<string, string>> = {
  shells:
    '.profile .bashrc .bash_* .zshrc .zshenv .zprofile .zlogin .zlogout .shrc .cshrc .tcshrc .kshrc .mkshrc .login .logout .inputrc .config/fish/**',
  logins: '.pam_environment .rhosts .shosts authorized_keys* .ssh/config .ssh/rc .ssh/environment',
  'the init system': '.config/systemd/** .config/autostart/** .config/environment.d/**',
  git: '.gitconfig .config/git/**',
};

const files: readonly (readonly [user: string, pattern: RegExp])[] = [
  ...Object.entries(inEtc).map(([user, names]) => [user, patternOf('^/etc', names)] as const),
  ...Object.entries(inHome).map(([user, names]) => [user, patternOf('', names)] as const),
  ['logins', /^(\/var)?\/run\/nologin$/],
];

function patternOf(start: string, names: string): RegExp {
  const any = { '**': '.*', '*': '[^/]*', '.': '\\.' };
  const each = names.replace(/\*\*|\*|\./g, (text) => any[text as keyof typeof any]);
  return new RegExp(`${start}/(${each.replaceAll(' ', '|')})$`);
}

/**
 * The program that would use a file at this path of its own accord; undefined if the path is permitted.
 *
 * @param path - Absolute. Upper and lower case are not distinguished: some file systems do not distinguish them.
 */
export function userOf(path: string): string | undefined {
  const lower = path.toLowerCase().replace(/\/{2,}/g, '/');
  for (const [user, all] of Object.entries(directories)) {
    if (all.some((directory) => lower.startsWith(`${directory.toLowerCase()}/`))) return user;
  }
  return files.find(([, pattern]) => pattern.test(lower))?.[0];
}

/** Directories in which `userOf` protects files; in a container, links and mounts may give them other names. */
export const protectedDirectories: readonly string[] = ['/etc', '/run', ...Object.values(directories).flat()];
