/**
 * Whether a process enforces policies in a network namespace: the process listens on an abstract socket there,
 * whose name the kernel frees when the process ends, however it ends (unix(7): such names belong to a network
 * namespace).
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

const name = '\0rampart-network-policy';

/**
 * Announces that this process enforces policies in the network namespace of the calling thread. If several
 * processes do, one announcement is enough.
 */
export async function announceEnforcer(): Promise<AsyncDisposable> {
  const server = createServer((socket) => socket.destroy());
  const failed = once(server, 'error');
  server.listen(name);
  await Promise.race([once(server, 'listening'), failed]).catch(() => undefined);
  server.unref();
  return {
    [Symbol.asyncDispose]: async () => {
      if (server.listening) await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Whether a process enforces policies in the network namespace of the calling thread. */
export async function isEnforced(): Promise<boolean> {
  const socket = connect(name);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
