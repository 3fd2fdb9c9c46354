// Three processes and one lease on the embedded server: leaders are killed, stopped and sent home, and so is the server.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';

import { Http, RestartedServer } from '../../apps/apiserver/rampart-process.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';

const candidateFile = join(import.meta.dirname, 'candidate.fixture.ts');

class Candidate implements AsyncDisposable {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #output = '';

  constructor(kubeconfig: string, name: string) {
    this.name = name;
    const args = [candidateFile, kubeconfig, name];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    child.stdout.setEncoding('utf8').on('data', (text: string) => (this.#output += text));
    this.#ended = once(child, 'close');
    this.#child = child;
  }

  /** When it worked as a leader, in nanoseconds. */
  get ticks(): bigint[] {
    return [...this.#output.matchAll(/^tick (\d+)$/gm)].map(([, time]) => BigInt(time ?? 0));
  }

  /** The lines so far. */
  get lines(): readonly string[] {
    return this.#output.split('\n').slice(0, -1);
  }

  get leads(): boolean {
    return this.lines.at(-1)?.startsWith('tick') === true && !this.#isGone;
  }

  get #isGone(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  async end(name: NodeJS.Signals): Promise<number | null> {
    this.#child.kill(name);
    await this.#ended;
    return this.#child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end('SIGKILL');
  }
}

/** Whose work took turns with another's: all times of one term are together. */
function turns(candidates: readonly Candidate[]): string[] {
  const ticks = candidates.flatMap((candidate) => candidate.ticks.map((time) => ({ time, candidate })));
  ticks.sort((a, b) => (a.time < b.time ? -1 : 1));
  const order: Candidate[] = [];
  for (const { candidate } of ticks) if (order.at(-1) !== candidate) order.push(candidate);
  return order.map(({ name }) => name);
}

test('one leads at a time, and soon another when it is gone', async (t) => {
  using directory = new TemporaryDirectory();
  await using server = new RestartedServer('--data', directory.at('data'), '--listen');
  const kubeconfig = await server.start('127.0.0.1:0');
  using http = Http.of(kubeconfig);
  await using stack = new AsyncDisposableStack();
  const all: Candidate[] = [];
  const start = (name: string): Candidate => {
    const candidate = stack.use(new Candidate(kubeconfig, name));
    all.push(candidate);
    return candidate;
  };
  const leader = async (what: string, besides?: Candidate): Promise<Candidate> => {
    let found: Candidate | undefined;
    await until(what, () => {
      found = all.find((candidate) => candidate.leads && candidate !== besides);
      return found !== undefined;
    });
    return found as Candidate;
  };
  for (const name of ['a', 'b', 'c']) start(name);

  const first = await leader('somebody leads');
  const killedAt = process.hrtime.bigint();
  await first.end('SIGKILL');
  const second = await leader('another leads after a kill');
  const takeOver = (second.ticks[0] ?? 0n) - killedAt;

  // One that is stopped learns of it when it goes on: it must not work then.
  start('d');
  const endsOf = (candidate: Candidate): number =>
    candidate.lines.filter((line) => line.startsWith('end')).length;
  const before = endsOf(second);
  second.signal('SIGSTOP');
  const third = await leader('another leads instead of the one that was stopped', second);
  second.signal('SIGCONT');
  await until('the one that was stopped has noticed', () => endsOf(second) > before);

  // A server that is gone for longer than a lease ends the work; later there is one leader again.
  await server.kill();
  await until('the work has ended', () => third.lines.at(-1)?.startsWith('end') === true);
  await server.start(http.server.host);
  const fourth = await leader('somebody leads again');

  // Who stops gives the lease back.
  assert.equal(await fourth.end('SIGTERM'), 0);
  const fifth = await leader('another leads after a stop');
  assert.equal(await fifth.end('SIGTERM'), 0);
  for (const candidate of all) if (candidate !== first) await candidate.end('SIGTERM');
  // All that one did in a term was done before the next one began.
  const order = turns(all);
  const terms = all.flatMap(({ lines }) => lines.filter((line) => line.startsWith('lead'))).length;
  assert.ok(order.length <= terms, `${order.length} turns in ${terms} terms: ${order.join()}`);
  t.diagnostic(`leaders: ${order.join()}; after the kill ${takeOver / 1_000_000n} ms without one`);
});
