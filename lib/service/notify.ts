/**
 * Reports of a service with `Type=notify` to systemd, by the protocol of sd_notify(3): datagrams to the
 * socket that `NOTIFY_SOCKET` names. libc sends them, because Node.js has no datagram sockets with paths.
 */
import { constants } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';

import { errno, libc } from '../ebpf/ffi.ts';
import { Fd, SystemCallError } from '../ebpf/libc.ts';

const AF_UNIX = 1;
/** SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK: a manager that is busy must not stop the event loop. */
const SOCKET_TYPE = 2 | 0o2000000 | 0o4000;
const MSG_NOSIGNAL = 0x4000;
/** How often the service is asked whether it is up: nothing reports that. */
const UP_POLL_MS = 200;
/** How often the state is checked if the unit has no watchdog. */
const STATUS_POLL_MS = 10_000;
/** Delay before a busy manager is tried again. */
const BUSY_MS = 50;
/** How often the last report is tried if the manager is busy: for a second. */
const END_TRIES = 20;

/** The state of the service. Its functions are called at each report, so they must be quick. Texts have one line. */
export interface ServiceState {
  /** Why the service is not up yet; undefined if it is, after which this is not called again. */
  readonly notUp: () => string | undefined;
  /** A problem since the start, or else a remark; undefined if there is neither. */
  readonly remark: () => string | undefined;
  /** False if only a new process helps. */
  readonly isAlive: () => boolean;
}

/**
 * Reports to the service manager of this process until the signal is aborted: in `STATUS=` why the service is not up,
 * `READY=1` once it is; then `WATCHDOG=1` while it is alive, if the unit has `WatchdogSec=`, and problems in `STATUS=`;
 * at the end `STOPPING=1`. Returns at once without a service manager.
 *
 * The variables are removed from `env`, so that no child process reports for this one.
 *
 * @throws {SystemCallError} `SYSTEM` if the socket cannot be reached.
 */
export async function reportToServiceManager(
  state: ServiceState,
  { signal, env = process.env }: { readonly signal: AbortSignal; readonly env?: NodeJS.ProcessEnv },
): Promise<void> {
  const { NOTIFY_SOCKET: path, WATCHDOG_USEC: watchdogUs, WATCHDOG_PID: watched } = env;
  for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete env[name];
  if (path === undefined || path === '') return;
  using socket = connectTo(path);
  const isWatched = watchdogUs !== undefined && (watched === undefined || Number(watched) === process.pid);
  // Half of the watchdog's time, as sd_watchdog_enabled(3) advises.
  const everyMs = isWatched ? Number(watchdogUs) / 2000 : STATUS_POLL_MS;
  let status = '';
  const report = async (...lines: readonly string[]): Promise<void> => {
    const reported = lines.filter((line) => line !== status);
    status = reported.find((line) => line.startsWith('STATUS=')) ?? status;
    if (reported.length === 0) return;
    while (!sent(socket, path, reported.join('\n'))) await wait(BUSY_MS, undefined, { signal });
  };
  try {
    for (let why = state.notUp(); why !== undefined; why = state.notUp()) {
      await report(`STATUS=Waiting for ${why}`);
      await wait(UP_POLL_MS, undefined, { signal });
    }
    await report('READY=1');
    for (;;) {
      const alive = isWatched && state.isAlive() ? ['WATCHDOG=1'] : [];
      await report(...alive, `STATUS=${state.remark() ?? 'All parts are ready'}`);
      await wait(everyMs, undefined, { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  for (let tries = 0; !sent(socket, path, 'STOPPING=1') && tries < END_TRIES; tries++) await wait(BUSY_MS);
}

function connectTo(path: string): Fd {
  const number = libc.socket(AF_UNIX, SOCKET_TYPE, 0);
  if (number < 0) throw new SystemCallError('cannot open a socket for the service manager', errno());
  const socket = new Fd(number);
  const address = addressOf(path);
  if (libc.connect(socket.number, address, address.length) === 0) return socket;
  const error = new SystemCallError(`cannot reach the service manager at NOTIFY_SOCKET=${path}`, errno());
  socket[Symbol.dispose]();
  throw error;
}

/** @returns false if the manager is too busy to take it now. @throws {SystemCallError} `SYSTEM` */
function sent(socket: Fd, path: string, text: string): boolean {
  const message = Buffer.from(text);
  if (libc.send(socket.number, message, message.length, MSG_NOSIGNAL) >= 0) return true;
  const number = errno();
  if (number === constants.errno.EAGAIN || number === constants.errno.EINTR) return false;
  throw new SystemCallError(`cannot report to the service manager at ${path}`, number);
}

/** sockaddr_un, unix(7). A leading `@` stands for the NUL of an abstract name, which has no other one. */
function addressOf(path: string): Buffer {
  const name = path.startsWith('@') ? Buffer.from(`\0${path.slice(1)}`) : Buffer.from(`${path}\0`);
  const family = Buffer.alloc(2);
  family.writeUInt16LE(AF_UNIX);
  return Buffer.concat([family, name]);
}
