/** An agent that follows the files of a test's host, processes that change them, and its reports. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readdirSync, readFileSync } from 'node:fs';

import { assertFinding } from '../../../guard/stream/finding-schema.fixture.ts';
import type { Detection, Finding } from '../model/finding.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { TestCluster } from '../node/node.fixture.ts';
import { liveOf } from './start-live.ts';

/** A line of JSON of the agent. */
export type Line = Finding & { readonly state: string; readonly fileIntegrity: string };

/** A FileIntegrity `fi` on node `n1`, its baseline made, its files followed. */
export class Followed implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly #lines: readonly string[];
  readonly detection: Detection;
  readonly stop: () => Promise<void>;
  #reported = 0;

  private constructor(
    cluster: TestCluster,
    agent: { readonly lines: readonly string[]; readonly stop: () => Promise<void> },
    detection: Detection,
  ) {
    this.cluster = cluster;
    this.#lines = agent.lines;
    this.stop = agent.stop;
    this.detection = detection;
  }

  /** @param setUp - what else is on the host before the first baseline */
  static async start(
    options: Parameters<TestCluster['startAgent']>[1] = {},
    integrity: Parameters<TestCluster['createIntegrity']>[1] = {},
    setUp: (host: string) => void | Promise<void> = () => undefined,
  ): Promise<Followed> {
    const cluster = await TestCluster.start();
    try {
      await setUp(cluster.host);
      // Other users come in.
      for (const path of [cluster.directory, cluster.host, cluster.at('.')]) chmodSync(path, 0o755);
      const agent = await cluster.startAgent('n1', { live: liveOf(), ...options });
      await cluster.createIntegrity('fi', { config: { gracePeriod: 900 }, ...integrity });
      return new Followed(cluster, agent, await untilFollowed(cluster));
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Reports from here on are new. */
  mark(): void {
    this.#reported = this.#lines.length;
  }

  /** All lines since {@link mark}. */
  lines(): Line[] {
    return this.#lines.slice(this.#reported).map((line) => {
      assertFinding(line);
      return JSON.parse(line) as Line;
    });
  }

  /** The first such line since {@link mark}. */
  line(state: string, path: string, suits: (line: Line) => boolean = () => true): Promise<Line> {
    return until(`${state} ${path} among ${this.lines().length} lines`, () => {
      const found = this.lines().find((one) => one.state === state && one.path === path && suits(one));
      if (found === undefined) throw new Error(this.#lines.slice(this.#reported).join('\n'));
      return found;
    });
  }

  /** The present state is accepted, and followed. */
  async newBaseline(): Promise<void> {
    await this.cluster.request('fi', { kind: 're-init', id: 'r1', by: 'annotation' });
    await this.cluster.resultWhen(
      'fi',
      ({ doneRequests, detection }) => doneRequests.includes('r1') && detection.events !== 'none',
    );
  }

  /** The paths, without the prefix, that a shell gets as `$1`, ... */
  async shell(program: string, ...names: readonly string[]): Promise<number> {
    return run('sh', ['-c', program, 'sh', ...names.map((name) => this.cluster.at(name))]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.cluster[Symbol.asyncDispose]();
  }
}

/** Waits until a job says how changes are known. */
export function untilFollowed(cluster: TestCluster, name = 'fi'): Promise<Detection> {
  return until('changes are detected at once', async () => {
    const result = await cluster.result(name);
    return result !== undefined && result.detection.events !== 'none' ? result.detection : undefined;
  });
}

/** Runs a program to its end, beside the event loop. @returns its process id */
export async function run(
  command: string,
  args: readonly string[],
  {
    isQuiet = false,
    ...options
  }: { readonly uid?: number; readonly gid?: number; readonly isQuiet?: boolean } = {},
): Promise<number> {
  const stdio = ['ignore', isQuiet ? 'ignore' : 'inherit', 'inherit'] as const;
  const child = spawn(command, args, { cwd: '/', stdio: [...stdio], ...options });
  const [status] = (await once(child, 'exit')) as [number];
  if (status !== 0 || child.pid === undefined) throw new Error(`${command}: exit ${status}`);
  return child.pid;
}

/** The inotify instances of this process that watch something: descriptor and number of watched inodes. */
export function inotifyInstances(): Map<string, number> {
  const found = new Map<string, number>();
  for (const fd of readdirSync('/proc/self/fdinfo')) {
    let text = '';
    try {
      text = readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1');
    } catch {
      continue; // closed meanwhile
    }
    const watches = text.match(/^inotify wd:/gm)?.length ?? 0;
    if (watches > 0) found.set(fd, watches);
  }
  return found;
}
