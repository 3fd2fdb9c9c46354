/**
 * A file system whose files another process makes up: one file `file`, whose times must not be cached. For
 * tests.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';

import { run } from './file-systems.fixture.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';

/** Why it cannot be mounted here, or false. */
export const fuseSkip =
  process.geteuid?.() !== 0 ? 'needs root to mount' : !existsSync('/dev/fuse') && 'this kernel has no FUSE';

/** include/uapi/linux/fuse.h, protocol 7.31. Requests are LOOKUP, GETATTR and INIT; all others are ENOSYS. */
const server = `
$^F = 100;
sysopen(my $dev, '/dev/fuse', 2) or die "$!";
my $fd = fileno($dev);
system('mount', '-i', '-t', 'fuse', '-o', "fd=$fd,rootmode=40000,user_id=0,group_id=0,allow_other", 'made-up', $ARGV[0]) == 0 or die;
$| = 1; print "mounted\\n";
sub attributes { my $n = shift;
  pack('Q6 L10', $n, $n == 1 ? 4096 : 5, 8, (time) x 3, (0) x 3, $n == 1 ? 040755 : 0100644, 1, 0, 0, 0, 4096, 0) }
while (sysread($dev, my $request, 1 << 18)) {
  my ($bytes, $code, $unique, $node) = unpack('L2 Q2', $request);
  my $asked = unpack('Z*', substr($request, 40));
  my ($error, $answer) = (-38, '');
  if ($code == 26) { ($error, $answer) = (0, pack('L4 S2 L2 S2 L7', 7, 31, 65536, 0, 12, 9, 131072, 1, 32, (0) x 8)) }
  elsif ($code == 3) { ($error, $answer) = (0, pack('Q L2', 0, 0, 0) . attributes($node)) }
  elsif ($code == 1) { ($error, $answer) = $asked eq 'file' ? (0, pack('Q4 L2', 2, 1, 0, 0, 0, 0) . attributes(2)) : (-2, '') }
  elsif ($code == 2 || $code == 42) { next }
  syswrite($dev, pack('L l Q', 16 + length($answer), $error, $unique) . $answer);
}`;

/** Mounted for as long as the handle lives. */
export class FuseMount extends TemporaryDirectory {
  #server: ChildProcess | undefined;

  static async mount(): Promise<FuseMount> {
    const mount = new FuseMount();
    const child = spawn('perl', ['-e', server, mount.path], { stdio: ['ignore', 'pipe', 'inherit'] });
    mount.#server = child;
    await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
    if (child.exitCode === null) return mount;
    TemporaryDirectory.prototype[Symbol.dispose].call(mount);
    throw new Error(`no FUSE at ${mount.path}: perl ended with ${child.exitCode}`);
  }

  override [Symbol.dispose](): void {
    run('umount', ['--lazy', this.path]);
    this.#server?.kill();
    super[Symbol.dispose]();
  }
}
