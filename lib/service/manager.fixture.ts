/** A service manager's end of NOTIFY_SOCKET, for tests. */
import assert from 'node:assert/strict';

import { libc } from '../ebpf/ffi.ts';
import { Fd } from '../ebpf/libc.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { until } from '../testing/until.fixture.ts';

const AF_UNIX = 1;
/** SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK. */
const SOCKET_TYPE = 2 | 0o2000000 | 0o4000;

/** Takes what a service reports. The caller disposes it. */
export class ServiceManager implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #socket: Fd;
  /** For NOTIFY_SOCKET. */
  readonly path: string;
  /** Lines, in their order. */
  readonly lines: string[] = [];
  readonly #address: Buffer;
  /** How many of the lines were waited for. */
  #seen = 0;

  /** @param path - Of the socket; a leading `@` is an abstract name. Default: one in a directory of its own. */
  constructor(path?: string) {
    this.path = path ?? this.#stack.use(new TemporaryDirectory()).at('notify');
    this.#socket = this.#stack.use(new Fd(libc.socket(AF_UNIX, SOCKET_TYPE, 0)));
    this.#address = Buffer.from(`..${this.path}`.replace('..@', '..\0'));
    this.#address.writeUInt16LE(AF_UNIX);
    assert.equal(libc.bind(this.#socket.number, this.#address, this.#address.length), 0);
  }

  /** Resolves when this line, or one that begins with it where it ends with `...`, was reported since the last call. */
  async reported(line: string): Promise<void> {
    const isIt = (one: string): boolean =>
      line.endsWith('...') ? one.startsWith(line.slice(0, -3)) : one === line;
    const from = this.#seen;
    await until(`${line} is reported`, () => {
      this.#read();
      const at = this.lines.findIndex((one, index) => index >= from && isIt(one));
      if (at >= 0) this.#seen = at + 1;
      return at >= 0;
    });
  }

  /** Resolves when nothing more finds room: another message of this process is refused. */
  async full(): Promise<void> {
    using other = new Fd(libc.socket(AF_UNIX, SOCKET_TYPE, 0));
    assert.equal(libc.connect(other.number, this.#address, this.#address.length), 0);
    const message = Buffer.from('OTHER=1');
    await until('the socket is full', () => libc.send(other.number, message, message.length, 0) < 0);
  }

  #read(): void {
    const buffer = Buffer.alloc(4096);
    for (;;) {
      const size = libc.read(this.#socket.number, buffer, buffer.length);
      if (size <= 0) return;
      this.lines.push(...buffer.toString('utf8', 0, size).split('\n'));
    }
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}
