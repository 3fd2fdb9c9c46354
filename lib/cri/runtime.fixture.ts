/**
 * A container runtime that answers as a test wants: a gRPC server on a unix socket in a directory of its own, and beside it
 * a /proc. For what a real one does not do on demand; what it does is tested in `test/lab`.
 */
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Http2Server, type ServerHttp2Session } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { connectNodeAdapter } from '@connectrpc/connect-node';

import { methodDescriptor } from './descriptors.fixture.ts';
import type { MethodName } from './schema.ts';

interface Context {
  readonly signal: AbortSignal;
}

/** The answers of methods; a missing one is answered with `unimplemented`. */
export type Answers = {
  [Name in MethodName]?: (
    input: Readonly<Record<string, unknown>>,
    context: Context,
  ) => object | Promise<object> | AsyncIterable<object>;
};

export class FakeRuntime implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-cri-'));
  readonly socketPath = join(this.directory, 'runtime.sock');
  readonly procPath = join(this.directory, 'proc');
  readonly #sessions = new Set<ServerHttp2Session>();
  #server: Http2Server | undefined;

  async start(answers: Answers): Promise<this> {
    const server = createServer(
      connectNodeAdapter({
        routes(router) {
          for (const name of Object.keys(answers) as MethodName[]) {
            // Looked up at each call, so that a test may change its mind.
            const answer = (input: Readonly<Record<string, unknown>>, context: Context) =>
              answers[name]?.(input, context);
            router.rpc(methodDescriptor(name), answer as never);
          }
        },
      }),
    );
    server.on('session', (session) => {
      this.#sessions.add(session);
      session.on('close', () => this.#sessions.delete(session));
      session.on('error', () => undefined);
    });
    server.listen(this.socketPath);
    await once(server, 'listening');
    this.#server = server;
    return this;
  }

  /** As when the runtime is killed: every connection breaks. */
  async stop(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = once(server, 'close');
    server.close();
    for (const session of this.#sessions) session.destroy();
    await closed;
  }

  /** Puts a process into {@link procPath}. */
  addProcess(pid: number, startTicks: number, cgroup: string): void {
    mkdirSync(join(this.procPath, String(pid)), { recursive: true });
    const between = Array.from({ length: 18 }, () => '0').join(' ');
    writeFileSync(
      join(this.procPath, String(pid), 'stat'),
      `${pid} (a (b) c) S ${between} ${startTicks} 0 0\n`,
    );
    writeFileSync(join(this.procPath, String(pid), 'cgroup'), `0::${cgroup}\n`);
  }

  removeProcess(pid: number): void {
    rmSync(join(this.procPath, String(pid)), { recursive: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    rmSync(this.directory, { recursive: true });
  }
}

/** A container as a test changes it. */
export interface FakeContainer {
  readonly id: string;
  readonly podId: string;
  readonly name: string;
  state: number;
  pid: number;
}

/** Answers from `containers` and `pods`, read at each call. A pod's address follows from its id. */
export function answersFrom(
  containers: Map<string, FakeContainer>,
  pods: Map<string, { state: number; readonly ip: string }>,
): Answers {
  return {
    ListContainers: () => ({
      containers: [...containers.values()].map(({ id, podId, name, state }) => ({
        id,
        podSandboxId: podId,
        metadata: { name, attempt: 0 },
        state,
      })),
    }),
    ListPodSandbox: () => ({
      items: [...pods].map(([id, { state }]) => ({
        id,
        state,
        metadata: { name: `pod-${id}`, namespace: 'default', uid: `uid-${id}` },
      })),
    }),
    PodSandboxStatus: ({ podSandboxId }) => {
      const pod = pods.get(String(podSandboxId));
      return pod === undefined ? {} : { status: { state: pod.state, network: { ip: pod.ip } } };
    },
    ContainerStatus: ({ containerId }) => {
      const container = containers.get(String(containerId));
      return container === undefined
        ? {}
        : { status: { state: container.state }, info: { info: JSON.stringify({ pid: container.pid }) } };
    },
  };
}

/** An id as runtimes make them. */
export function fakeId(number: number): string {
  return number.toString(16).padStart(64, '0');
}
