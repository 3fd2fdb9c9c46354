/** Every kind of change, made by a Perl program to files in a directory, and the expected reports. */
import type { ChangeKind } from './change.ts';

export interface KindCase {
  readonly name: string;
  /** Runs in the directory; `file` is in it, `outside` and the directory `tree` beside it in `../out`. */
  readonly program: string;
  /** By names in the directory, and `.`, the directory itself: kinds that are reported at least. */
  readonly reported: Readonly<Record<string, readonly ChangeKind[]>>;
  /** inotify does not report it: only a sensor that sees the inode does. */
  readonly onlyInode?: true;
  /**
   * On overlay, the upper layer's names change: without a record of the event itself, the author is unknown.
   */
  readonly names?: true;
}

const DIRECTORY = { '.': ['changed'] } as const;
const mmap = `sysopen(my $h, 'file', O_RDWR) or die; my $at = syscall(9, 0, 4096, 3, 1, fileno($h), 0);
  die if $at == -1; `;
const poke = `pipe(my $r, my $w); syswrite($w, 'hello'); syscall(0, fileno($r), $at, 5) == 5 or die;`;

export const kindCases: readonly KindCase[] = [
  {
    name: 'create',
    program: `sysopen(my $h, 'new', O_WRONLY | O_CREAT | O_EXCL) or die`,
    reported: { new: ['created'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'create and write',
    program: `open(my $h, '>', 'new') or die; print $h 'x'`,
    reported: { new: ['created', 'modified', 'closed'], ...DIRECTORY },
  },
  {
    name: 'write',
    program: `sysopen(my $h, 'file', O_WRONLY) or die; syswrite($h, 'y')`,
    reported: { file: ['modified', 'closed'] },
  },
  {
    name: 'append',
    program: `open(my $h, '>>', 'file') or die; print $h 'x'`,
    reported: { file: ['modified', 'closed'] },
  },
  { name: 'truncate by path', program: `truncate('file', 1) or die`, reported: { file: ['modified'] } },
  {
    name: 'truncate while opening',
    program: `sysopen(my $h, 'file', O_WRONLY | O_TRUNC) or die`,
    reported: { file: ['modified'] },
  },
  { name: 'chmod', program: `chmod(0600, 'file') or die`, reported: { file: ['attributes'] } },
  { name: 'chown', program: `chown(1, 1, 'file') or die`, reported: { file: ['attributes'] } },
  { name: 'utimes', program: `utime(1, 1, 'file') or die`, reported: { file: ['attributes'] } },
  {
    name: 'setxattr',
    program: `my ($f, $n, $v) = ('file', 'trusted.rampart', 'x'); syscall(188, $f, $n, $v, 1, 0) == 0 or die $!`,
    reported: { file: ['attributes'] },
  },
  {
    name: 'rename within',
    program: `rename('file', 'other') or die`,
    reported: { file: ['moved-from'], other: ['moved-to'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'rename over',
    program: `rename('file', 'second') or die`,
    reported: { file: ['moved-from'], second: ['moved-to'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'rename out',
    program: `rename('file', '../out/file') or die`,
    reported: { file: ['moved-from'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'rename in',
    program: `rename('../out/outside', 'inside') or die`,
    reported: { inside: ['moved-to'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'rename a directory in',
    program: `rename('../out/tree', 'tree') or die`,
    reported: { tree: ['moved-to'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'link',
    program: `link('file', 'linked') or die`,
    reported: { linked: ['created'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'link from elsewhere',
    program: `link('../out/outside', 'linked') or die`,
    reported: { linked: ['created'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'unlink',
    program: `unlink('file') or die`,
    reported: { file: ['deleted'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'mkdir',
    program: `mkdir('sub') or die`,
    reported: { sub: ['created'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'rmdir',
    program: `rmdir('empty') or die`,
    reported: { empty: ['deleted'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'symlink',
    program: `symlink('nowhere', 'soft') or die`,
    reported: { soft: ['created'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'mknod',
    program: `my $f = 'pipe'; syscall(133, $f, 010644, 0) == 0 or die $!`,
    reported: { pipe: ['created'], ...DIRECTORY },
    names: true,
  },
  {
    name: 'bind',
    program: `use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; bind($s, pack_sockaddr_un('socket')) or die $!`,
    reported: { socket: ['created'], ...DIRECTORY },
    names: true,
  },
  { name: 'chmod of the directory', program: `chmod(0711, '.') or die`, reported: { '.': ['attributes'] } },
  {
    name: 'write to a mapping',
    program: `${mmap} ${poke}`,
    reported: { file: ['changed'] },
    onlyInode: true,
  },
  {
    name: 'atomic save',
    program: `open(my $h, '>', 'file.new') or die; print $h 'new'; close $h; rename('file.new', 'file') or die`,
    reported: { 'file.new': ['created', 'moved-from'], file: ['moved-to'], ...DIRECTORY },
  },
  {
    name: 'write through a hard link elsewhere',
    program: `open(my $h, '>>', '../out/hard') or die; syswrite($h, 'x')`,
    reported: { hard: ['modified'] },
    onlyInode: true,
  },
];

/** Makes the files that the programs start from, in `$ARGV[0]`. */
export const prepareKindCase = `
  chdir($ARGV[0]) or die; mkdir 'w'; mkdir 'out'; mkdir 'w/empty'; mkdir 'out/tree';
  for my $name ('w/file', 'w/second', 'out/outside', 'w/hard') { open(my $h, '>', $name) or die; print $h 'x' x 4096 }
  link('w/hard', 'out/hard') or die;
  stat('w/hard');
`;
