/**
 * Small programs that do one thing to a file by one system call. They are written in Perl because
 * perl-base is on every Debian machine and its `syscall` reaches any of them.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';

/** Runs a Perl program with the file as its first argument; its exit code must be 0. */
export function perl(program: string, ...args: string[]): string {
  return execFileSync('perl', ['-MFcntl', '-e', program, ...args], { encoding: 'utf8' });
}

/** Runs a command as a user without any rights of its own; what it exits with does not matter. */
export function asNobody(command: string, ...args: string[]): void {
  try {
    execFileSync('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', command, ...args], {
      stdio: 'ignore',
    });
  } catch {
    // Being refused is the point of most callers.
  }
}

/** Longer than anything takes, also in a guest whose clock runs ahead of a busy machine. */
const PATIENCE_MS = 300_000;

/** A Perl process that opens the file before the watch and uses descriptor `$fd` when told to. */
export class Holder implements AsyncDisposable {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async open(path: string, program: string): Promise<Holder> {
    const child = spawn(
      'perl',
      [
        '-MFcntl',
        '-e',
        `$| = 1; sysopen(my $h, $ARGV[0], O_RDWR) or die; our $fd = fileno($h); print "open\\n"; while (<STDIN>) { ${program}; print "done\\n"; }`,
        path,
      ],
      { stdio: ['pipe', 'pipe', 'inherit'] },
    );
    const holder = new Holder(child);
    try {
      await holder.#answer();
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
    return holder;
  }

  /** Does it once. */
  async act(): Promise<void> {
    this.#child.stdin?.write('go\n');
    await this.#answer();
  }

  async #answer(): Promise<void> {
    const { stdout } = this.#child;
    if (stdout === null) throw new Error('no pipe');
    await once(stdout, 'data', { signal: AbortSignal.timeout(PATIENCE_MS) });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin?.end();
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) await once(this.#child, 'exit');
  }
}

/** Numbers of x86_64 (arch/x86/entry/syscalls/syscall_64.tbl); the suite of single calls runs there only. */
export const openCalls: Readonly<Record<string, string>> = {
  open: 'syscall(2, $ARGV[0], 0) >= 0 or die $!',
  openat: 'syscall(257, -100, $ARGV[0], 0) >= 0 or die $!',
  openat2: 'my $how = pack("QQQ", 0, 0, 0); syscall(437, -100, $ARGV[0], $how, 24) >= 0 or die $!',
  // struct file_handle: handle_bytes, handle_type, then 128 bytes; the mount's directory as mount fd.
  open_by_handle_at:
    'my $h = pack("LL", 128, 0) . "\\0" x 128; my $m = pack("L", 0); syscall(303, -100, $ARGV[0], $h, $m, 0) == 0 or die $!;' +
    'my $d = $ARGV[0]; $d =~ s{/[^/]*$}{}; opendir(my $dir, $d); my $mount = syscall(2, $d, 0); syscall(304, $mount, $h, 0) >= 0 or die $!',
};

/** Operations on an open descriptor `$fd`, and the access that each is (READ 4, WRITE 2, EXEC 1). */
export const descriptorCalls: readonly {
  readonly name: string;
  readonly mask: readonly number[];
  readonly program: string;
}[] = [
  { name: 'read', mask: [4], program: 'my $b = "x" x 8; syscall(0, $fd, $b, 1) >= 0 or die $!' },
  { name: 'pread64', mask: [4], program: 'my $b = "x" x 8; syscall(17, $fd, $b, 1, 0) >= 0 or die $!' },
  {
    name: 'readv',
    mask: [4],
    program: 'my $b = "x" x 8; my $v = pack("PQ", $b, 1); syscall(19, $fd, $v, 1) >= 0 or die $!',
  },
  {
    name: 'preadv2',
    mask: [4],
    program: 'my $b = "x" x 8; my $v = pack("PQ", $b, 1); syscall(327, $fd, $v, 1, 0, 0, 0) >= 0 or die $!',
  },
  { name: 'write', mask: [2], program: 'my $b = "y"; syscall(1, $fd, $b, 1) == 1 or die $!' },
  { name: 'pwrite64', mask: [2], program: 'my $b = "y"; syscall(18, $fd, $b, 1, 0) == 1 or die $!' },
  {
    name: 'writev',
    mask: [2],
    program: 'my $b = "y"; my $v = pack("PQ", $b, 1); syscall(20, $fd, $v, 1) == 1 or die $!',
  },
  { name: 'ftruncate', mask: [2], program: 'syscall(77, $fd, 3) == 0 or die $!' },
  { name: 'fallocate', mask: [2], program: 'syscall(285, $fd, 0, 0, 16) == 0 or die $!' },
  {
    name: 'sendfile from',
    mask: [4],
    program: 'pipe(my $r, my $w); syscall(40, fileno($w), $fd, 0, 1) >= 0 or die $!',
  },
  {
    name: 'splice from',
    mask: [4],
    program:
      'pipe(my $r, my $w); my $o = pack("Q", 0); syscall(275, $fd, $o, fileno($w), 0, 1, 0) >= 0 or die $!',
  },
  {
    name: 'copy_file_range within',
    mask: [4, 2],
    program:
      'my $i = pack("Q", 0); my $o = pack("Q", 4096); syscall(326, $fd, $i, $fd, $o, 1, 0) >= 0 or die $!',
  },
  { name: 'mmap to read', mask: [4], program: 'syscall(9, 0, 4096, 1, 2, $fd, 0) != -1 or die $!' },
  {
    name: 'mmap shared to read and write',
    mask: [6],
    program: 'syscall(9, 0, 4096, 3, 1, $fd, 0) != -1 or die $!',
  },
  {
    name: 'mmap private to read and write',
    mask: [4],
    program: 'syscall(9, 0, 4096, 3, 2, $fd, 0) != -1 or die $!',
  },
];

/**
 * Opens the file by io_uring: a ring is set up and mapped, one request is put into it, the kernel
 * completes it. Memory that Perl has no string for is written by read(2) from a pipe.
 */
export const uringOpen = `
  my $p = "\\0" x 120;
  my $ring = syscall(425, 4, $p); if ($ring < 0) { print "refused: $!"; exit 0 }
  my @sq = unpack("L10", substr($p, 40, 40));
  my $map = syscall(9, 0, 65536, 3, 0x8001, $ring, 0); die "mmap $!" if $map == -1;
  my $sqes = syscall(9, 0, 4096, 3, 0x8001, $ring, 0x10000000); die "mmap $!" if $sqes == -1;
  pipe(my $r, my $w); my ($rf, $wf) = (fileno($r), fileno($w));
  sub poke { my ($address, $bytes) = @_; syscall(1, $wf, $bytes, length $bytes); syscall(0, $rf, $address, length $bytes) == length $bytes or die "poke $!" }
  my $path = "$ARGV[0]\\0"; my $at = unpack("Q", pack("P", $path));
  poke($sqes, pack("CCSlQQLLQ", 18, 0, 0, -100, 0, $at, 0, 0, 1) . "\\0" x 24);
  poke($map + $sq[6], pack("L", 0));
  poke($map + $sq[1], pack("L", 1));
  syscall(426, $ring, 1, 1, 1, 0, 0) == 1 or die "enter $!";
`;

/**
 * A 32-bit program that opens the file and ends, whose system calls come in by the 32-bit gate
 * (int 0x80). An ELF header, one program header, 30 bytes of code and the path.
 */
export function writeCompatOpener(program: string, path: string): void {
  const base = 0x08048000;
  const headers = 52 + 32;
  const code = Buffer.from([
    0xb8, 5, 0, 0, 0, // mov eax, 5 (open)
    0xbb, 0, 0, 0, 0, // mov ebx, path
    0x31, 0xc9, 0x31, 0xd2, // ecx = O_RDONLY, edx = 0
    0xcd, 0x80, // int 0x80
    0x31, 0xdb, 0x85, 0xc0, 0x79, 1, 0x43, // ebx = eax < 0
    0xb8, 1, 0, 0, 0, // mov eax, 1 (exit)
    0xcd, 0x80,
  ]); // prettier-ignore
  const text = Buffer.from(`${path}\0`);
  code.writeUInt32LE(base + headers + code.length, 6);
  const elf = Buffer.alloc(headers);
  elf.set([0x7f, 0x45, 0x4c, 0x46, 1, 1, 1]);
  elf.writeUInt16LE(2, 16); // ET_EXEC
  elf.writeUInt16LE(3, 18); // EM_386
  elf.writeUInt32LE(1, 20);
  elf.writeUInt32LE(base + headers, 24);
  elf.writeUInt32LE(52, 28); // program headers
  elf.writeUInt16LE(52, 40);
  elf.writeUInt16LE(32, 42);
  elf.writeUInt16LE(1, 44);
  const size = headers + code.length + text.length;
  for (const [index, value] of [1, 0, base, base, size, size, 5, 0x1000].entries()) {
    elf.writeUInt32LE(value, 52 + 4 * index);
  }
  writeFileSync(program, Buffer.concat([elf, code, text]), { mode: 0o755 });
}
