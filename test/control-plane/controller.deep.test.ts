// A controller of our parts on the embedded server: both are killed meanwhile, and at the end all is as the widgets say.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { Http, RestartedServer } from '../../apps/apiserver/rampart-process.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { Random, scaled, seed } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { served, widgetDefinition, widgets } from './reflected.fixture.ts';

const WIDGETS = 200;
const CHANGES = scaled(900, 300);
const agentFile = join(import.meta.dirname, 'agent.fixture.ts');
const path = '/apis/follow.example.com/v1/namespaces/default/widgets';

interface Item {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly generation?: number;
    readonly deletionTimestamp?: string;
    readonly finalizers?: readonly string[];
    readonly ownerReferences?: readonly { readonly uid: string; readonly controller?: boolean }[];
  };
  readonly spec?: { readonly text?: string };
  readonly data?: { readonly text?: string };
  readonly status?: {
    readonly text?: string;
    readonly conditions?: readonly { type: string; status: string; observedGeneration: number }[];
  };
  readonly regarding?: { readonly kind: string };
}

class Agent implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  output = '';

  constructor(kubeconfig: string) {
    const child = spawn(process.execPath, [agentFile, kubeconfig], { stdio: ['ignore', 'pipe', 'inherit'] });
    child.stdout.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    this.#ended = once(child, 'close');
    this.#child = child;
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null> {
    this.#child.kill(signal);
    await this.#ended;
    return this.#child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end('SIGKILL');
  }
}

/** Creates, changes and deletes widgets at random; a server that is gone is waited for. */
async function churn(http: Http, random: Random, count: number): Promise<void> {
  for (let change = 0; change < count; change++) {
    const name = `w${random.below(WIDGETS)}`;
    const body = {
      apiVersion: 'follow.example.com/v1',
      kind: 'Widget',
      metadata: { name },
      spec: { text: `text ${random.below(1000)}` },
    };
    const kind = random.below(10);
    try {
      if (kind < 5) await http.ask(path, { method: 'POST', body });
      else if (kind < 8) {
        const type = 'application/merge-patch+json';
        await http.ask(`${path}/${name}`, { method: 'PATCH', body: { spec: body.spec }, type });
      } else if (kind === 8) await http.ask(`${path}/${name}`, { method: 'DELETE' });
      // Another client interferes with the controller's objects.
      else await http.ask(`/api/v1/namespaces/default/configmaps/child-${name}`, { method: 'DELETE' });
    } catch {
      await delay(20);
    }
    await delay(random.below(6));
  }
}

/** How the state differs from what the widgets say. */
async function differences(http: Http): Promise<string[]> {
  const items = async (from: string): Promise<readonly Item[]> =>
    (await http.json<{ items: readonly Item[] }>(from)).items;
  const [all, children, notes] = [
    await items(path),
    await items('/api/v1/namespaces/default/configmaps'),
    await items('/api/v1/namespaces/kube-system/configmaps'),
  ];
  const found: string[] = [];
  const names = new Set(all.map(({ metadata }) => metadata.name));
  for (const { metadata, spec, status } of all) {
    const say = (what: string): void => void found.push(`${metadata.name}: ${what}`);
    if (metadata.deletionTimestamp !== undefined) say('is being deleted');
    if (metadata.finalizers?.join() !== 'follow.example.com/note') say('finalizers');
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    if (ready?.status !== 'True' || ready.observedGeneration !== metadata.generation) say('condition');
    const child = children.find((one) => one.metadata.name === `child-${metadata.name}`);
    if (child?.data?.text !== spec?.text) say(`child ${child?.data?.text ?? 'missing'}`);
    if (child?.metadata.ownerReferences?.[0]?.uid !== metadata.uid) say('owner');
    const note = notes.find((one) => one.metadata.name === `note-default-${metadata.name}`);
    if (note?.data?.text !== spec?.text) say(`note ${note?.data?.text ?? 'missing'}`);
  }
  for (const { metadata } of children) {
    if (!names.has(metadata.name.replace('child-', ''))) found.push(`${metadata.name} is left`);
  }
  for (const { metadata } of notes) {
    if (!names.has(metadata.name.replace('note-default-', ''))) found.push(`${metadata.name} is left`);
  }
  return found;
}

test(`${WIDGETS} widgets, an agent and a server that are killed (RAMPART_TEST_SEED=${seed})`, async (t) => {
  const random = new Random(seed);
  using directory = new TemporaryDirectory();
  await using server = new RestartedServer('--data', directory.at('data'), '--listen');
  const kubeconfig = await server.start('127.0.0.1:0');
  using http = Http.of(kubeconfig);
  await http.json('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
    method: 'POST',
    body: widgetDefinition,
  });
  await served(http, widgets);
  const churning = Promise.all(Array.from({ length: 4 }, () => churn(http, random, CHANGES / 4)));
  for (let round = 0; round < 4; round++) {
    await using agent = new Agent(kubeconfig);
    await delay(800 + random.below(800));
    if (round === 2) {
      await server.kill();
      await server.start(http.server.host);
      await delay(500);
    }
    await agent.end('SIGKILL');
  }
  await using last = new Agent(kubeconfig);
  await churning;
  // Before that, SIGTERM would end it like any program that does not know of it.
  await until('the last agent runs', async () => last.output.includes('running'));
  let different: string[] = [];
  await until('all is as the widgets say', async () => {
    different = await differences(http);
    return different.length === 0;
  }).catch((error: unknown) => assert.deepEqual(different, [], String(error)));

  const all = (await http.json<{ items: readonly Item[] }>(path)).items.length;
  assert.ok(all > 20, `${all} widgets`);
  // Events have been written, in the end too.
  assert.equal(await last.end('SIGTERM'), 0);
  const stats = JSON.parse(last.output.trim().split('\n').at(-1) ?? '') as Record<string, number>;
  const counted = ['written', 'limited', 'dropped', 'refused', 'failed', 'waiting'].map(
    (name) => stats[name] ?? NaN,
  );
  assert.equal(
    stats['recorded'],
    counted.reduce((sum, count) => sum + count, 0),
  );
  assert.equal(stats['refused'], 0);
  const { items: events } = await http.json<{ items: readonly Item[] }>(
    '/apis/events.k8s.io/v1/namespaces/default/events',
  );
  assert.ok(
    events.length > 20 && events.every(({ regarding }) => regarding?.kind === 'Widget'),
    `${events.length}`,
  );

  // Deleted in the foreground, they go with all their dependents, as soon as the finalizers are removed.
  await http.json(`${path}?propagationPolicy=Foreground`, { method: 'DELETE' });
  await using cleaner = new Agent(kubeconfig);
  await until('everything is gone', async () => {
    const { items } = await http.json<{ items: readonly Item[] }>(path);
    return items.length === 0 && (await differences(http)).length === 0;
  });
  assert.equal(await cleaner.end('SIGTERM'), 0);
  t.diagnostic(
    `${all} widgets at the end, ${events.length} events; the last agent: ${JSON.stringify(stats)}`,
  );
});
