/**
 * A cluster with an agent that follows the files of its host, and processes that change them.
 *
 * @module
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

import type { Detection, Finding } from '../finding.ts';
import { until } from '../node/node.fixture.ts';
import type { TestCluster } from '../node/node.fixture.ts';

/** A line of JSON of the agent. */
export type Line = Finding & { readonly state: string; readonly fileIntegrity: string };

/** Waits until a job says how changes are known. */
export async function untilFollowed(cluster: TestCluster, name = 'fi', node = 'n1'): Promise<Detection> {
  return until('changes are known at once', async () => {
    const detection = (await cluster.result(name, node))?.detection;
    return detection !== undefined && detection.events !== 'none' && detection;
  });
}

/** Runs a program to its end, beside the event loop. @returns its process id */
export async function run(command: string, args: readonly string[], cwd = '/'): Promise<number> {
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] });
  const [status] = (await once(child, 'exit')) as [number];
  if (status !== 0 || child.pid === undefined) throw new Error(`${command}: exit ${status}`);
  return child.pid;
}

/** The first such line among those from `from` on, and how long it took to come. */
export async function untilLine(
  lines: readonly string[],
  what: string,
  wanted: (line: Line) => boolean,
  from = 0,
): Promise<Line> {
  return until(what, () =>
    lines
      .slice(from)
      .map((text) => JSON.parse(text) as Line)
      .find(wanted),
  );
}
