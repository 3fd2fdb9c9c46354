/** Unpacks xz streams with the xz program; Node.js has no decoder for it. */
import { spawn } from 'node:child_process';
import { buffer } from 'node:stream/consumers';

import { errorCodes, RampartError } from '../../lib/errors/errors.ts';

/**
 * The unpacked content of one xz stream.
 *
 * @throws {RampartError} `DECODE` when xz refuses it, `UNSUPPORTED` when xz is not installed.
 */
export async function unpackXz(packed: Uint8Array): Promise<Uint8Array> {
  const xz = spawn('xz', ['-dc'], { stdio: ['pipe', 'pipe', 'pipe'] });
  const exited = new Promise<number | null>((settle, reject) => {
    xz.once('error', (cause) =>
      reject(
        new RampartError(errorCodes.UNSUPPORTED, {
          what: 'cannot start xz',
          next: 'Install it: apt-get install xz-utils',
          cause,
        }),
      ),
    );
    xz.once('close', settle);
  });
  // If xz stops early, its exit code has the reason, not the broken pipe.
  xz.stdin.on('error', () => {});
  xz.stdin.end(packed);
  const [unpacked, complaint, exitCode] = await Promise.all([buffer(xz.stdout), buffer(xz.stderr), exited]);
  if (exitCode !== 0) {
    throw new RampartError(errorCodes.DECODE, {
      what: 'xz cannot unpack the data',
      why: complaint.toString(),
    });
  }
  return unpacked;
}
