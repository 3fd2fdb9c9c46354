/** Files on which another process has a lease, as Samba has for its clients. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { test } from 'node:test';

import { all, confOf, isEntry, pathsOf, Scene } from './scan.fixture.ts';

/**
 * F_SETLEASE is 1024; the kernel notifies the holder by SIGIO that another process wants to open the file.
 */
const script = `
use Fcntl;
$| = 1;
open(my $file, '+<', $ARGV[0]) or die "$!";
$SIG{IO} = sub {
  # Longer than who does not wait needs to be done.
  select(undef, undef, undef, 0.5);
  print "asked\\n";
  return if $ARGV[1] eq 'keep';
  syswrite($file, 'written late');
  fcntl($file, 1024, F_UNLCK) or die "$!";
};
fcntl($file, 1024, F_WRLCK) or die "$!";
print "held\\n";
sleep 1 while 1;`;

/** A process with a write lease on a file, which it gives back on request, or never. */
class Lease implements AsyncDisposable {
  readonly child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.child = child;
  }

  static async take(path: string, then: 'give back' | 'keep'): Promise<Lease> {
    const child = spawn('perl', ['-e', script, path, then], { stdio: ['ignore', 'pipe', 'inherit'] });
    const lease = new Lease(child);
    await lease.says();
    assert.equal(child.exitCode, null);
    return lease;
  }

  async says(): Promise<void> {
    if (this.child.stdout !== null)
      await Promise.race([once(this.child.stdout, 'data'), once(this.child, 'exit')]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.child, 'close');
    this.child.kill('SIGKILL');
    await ended;
  }
}

test('a file under a lease is read once the lease is returned', async () => {
  await using scene = new Scene();
  for (const name of ['before', 'leased', 'next']) fs.writeFileSync(scene.path(name), 'x');
  const conf = '/ s+sha256';
  const { signal } = new AbortController();
  const scan = (): ReturnType<Scene['scan']> => scene.scan(conf);
  const look = (): ReturnType<Scene['scan']> =>
    all(scene.scanner.look(confOf(conf), [{ path: '/', below: true }], { signal }));
  for (const see of [scan, look]) {
    fs.writeFileSync(scene.path('leased'), 'x');
    await using lease = await Lease.take(scene.path('leased'), 'give back');
    assert.ok(lease);
    const found = await see();
    assert.deepEqual(pathsOf(found), ['/', '/before', '/leased', '/next']);
    const leased = found.filter(isEntry).find(({ path }) => path === '/leased');
    assert.deepEqual([leased?.sizeBytes, leased?.sha256.length], [12, 32]);
  }
});

test('a scan that waits for a lease ends with its signal', async () => {
  await using scene = new Scene();
  fs.writeFileSync(scene.path('leased'), 'x');
  await using lease = await Lease.take(scene.path('leased'), 'keep');
  const stop = new AbortController();
  const scan = assert.rejects(scene.scan('/ sha256', stop.signal), { name: 'AbortError' });
  await lease.says();
  stop.abort();
  await scan;
});
