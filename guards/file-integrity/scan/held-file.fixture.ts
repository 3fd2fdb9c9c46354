/** A regular file whose content another process generates, and holds back on request. For tests, as root. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';

/** Why it cannot be mounted here, or false. */
export const heldFileSkip =
  process.geteuid?.() !== 0 ? 'needs root to mount' : !existsSync('/dev/fuse') && 'this kernel has no FUSE';

export const heldFileBytes = 4 * 1024 * 1024;

/**
 * include/uapi/linux/fuse.h, protocol 7.31. The mount is one file: its root is regular. Requests are GETATTR, OPEN (answered with
 * FOPEN_DIRECT_IO, so that each read gets here), READ and INIT; all others are ENOSYS. On its stdin a line `hold` makes reads behind
 * the first MiB wait, `go X` answers them, and from then on the content is the character X.
 */
const server = `
$^F = 100;
my ($path, $size) = @ARGV;
sysopen(my $dev, '/dev/fuse', 2) or die "$!";
my $fd = fileno($dev);
system('mount', '-i', '-t', 'fuse', '-o', "fd=$fd,rootmode=100644,user_id=0,group_id=0,allow_other", 'held', $path) == 0 or die;
$| = 1; print "mounted\\n";
my ($isHeld, $byte, @held) = (0, 'a');
sub answer { my ($unique, $error, $answer) = @_;
  syswrite($dev, pack('L l Q', 16 + length($answer), $error, $unique) . $answer) }
sub content { my ($offset, $most) = @_;
  my $left = $size - $offset; $left = 0 if $left < 0;
  $byte x ($most < $left ? $most : $left) }
for (;;) {
  my $ready = '';
  vec($ready, $fd, 1) = 1; vec($ready, 0, 1) = 1;
  select($ready, undef, undef, undef);
  if (vec($ready, 0, 1)) {
    my $line = '';
    sysread(STDIN, $line, 100) or exit;
    $isHeld = $line =~ /^hold/ ? 1 : 0;
    $byte = $1 if $line =~ /^go (.)/;
    if (!$isHeld) { answer($_->[0], 0, content($_->[1], $_->[2])) for splice(@held) }
    print "ok\\n";
  }
  next unless vec($ready, $fd, 1);
  sysread($dev, my $request, 1 << 18) or exit;
  my ($bytes, $code, $unique) = unpack('L2 Q', $request);
  if ($code == 26) { answer($unique, 0, pack('L4 S2 L2 S2 L7', 7, 31, 65536, 0, 12, 9, 131072, 1, 32, (0) x 8)) }
  elsif ($code == 3) { answer($unique, 0, pack('Q L2', 0, 0, 0) . pack('Q6 L10', 1, $size, $size / 512, 1, 1, 1, (0) x 3, 0100644, 1, 0, 0, 0, 4096, 0)) }
  elsif ($code == 14) { answer($unique, 0, pack('Q L2', 0, 1, 0)) }
  elsif ($code == 15) {
    my ($handle, $offset, $most) = unpack('Q Q L', substr($request, 40));
    if ($isHeld && $offset >= 1 << 20) { push @held, [$unique, $offset, $most]; print "held\\n" }
    else { answer($unique, 0, content($offset, $most)) }
  }
  elsif ($code == 2 || $code == 36 || $code == 42) { next }
  else { answer($unique, -38, '') }
}`;

/** Mounted over a file for as long as the handle lives. */
export class HeldFile implements Disposable {
  readonly #path: string;
  readonly #server: ChildProcess;
  #said = '';
  #heard = Promise.withResolvers<void>();

  private constructor(path: string, child: ChildProcess) {
    this.#path = path;
    this.#server = child;
    child.stdout?.on('data', (text: Buffer) => {
      this.#said += text.toString();
      this.#heard.resolve();
      this.#heard = Promise.withResolvers();
    });
  }

  /** @param path an existing file */
  static async mount(path: string): Promise<HeldFile> {
    const child = spawn('perl', ['-e', server, path, String(heldFileBytes)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const file = new HeldFile(path, child);
    await Promise.race([file.#says('mounted'), once(child, 'exit')]);
    if (child.exitCode !== null) throw new Error(`no FUSE at ${path}: perl ended with ${child.exitCode}`);
    return file;
  }

  /** From now on reads wait. */
  async hold(): Promise<void> {
    await this.#notify('hold');
  }

  /** Waits until a reader waits for its content. */
  async isRead(): Promise<void> {
    await this.#says('held');
  }

  /** Its content is this character, again and again. */
  async release(content: string): Promise<void> {
    await this.#notify(`go ${content}`);
  }

  async #notify(line: string): Promise<void> {
    this.#said = '';
    this.#server.stdin?.write(`${line}\n`);
    await this.#says('ok');
  }

  async #says(word: string): Promise<void> {
    while (!this.#said.includes(word)) await this.#heard.promise;
  }

  [Symbol.dispose](): void {
    spawnSync('umount', ['--lazy', this.#path]);
    this.#server.kill();
  }
}
