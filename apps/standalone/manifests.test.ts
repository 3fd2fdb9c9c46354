import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { crdYaml } from '../../lib/kube/crd/manifest.ts';
import { kitchenSinks } from '../../lib/kube/crd/kitchen-sink.fixture.ts';
import { startApiServer } from '../../lib/apiserver/server.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { isNotFound } from '../../lib/kube/client/client-errors.ts';
import { kubeconfigAccess } from '../../lib/kube/access/cluster-access.ts';
import { loadKubeconfig } from '../../lib/kube/access/kubeconfig.ts';
import type { KubeObject, ResourceType } from '../../lib/kube/object/object.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import type { Round } from '../../lib/manifests/apply.ts';
import { manifestRoots } from '../../lib/manifests/files.ts';
import { followManifests } from '../../lib/manifests/follow.ts';
import { patience } from '../../lib/testing/until.fixture.ts';

const configMapType: ResourceType<KubeObject & { data?: Record<string, string> }> = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
const sinkType: ResourceType = {
  group: 'test.rampart.dev',
  version: 'v1',
  plural: 'kitchensinks',
  kind: 'KitchenSink',
  namespaced: false,
};

const configMap = (name: string, value = 'x', namespace = 'default'): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${name}\n  namespace: ${namespace}\ndata:\n  key: ${value}\n`;

/** An API server, a directory, and someone who follows it. */
class Following implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-manifests-'));
  readonly said: string[] = [];
  readonly rounds: Round[] = [];
  readonly #stack = new AsyncDisposableStack();
  client!: KubeClient;
  #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #wake: (() => void) | undefined;

  static async open(): Promise<Following> {
    const following = new Following();
    following.#stack.defer(() => rmSync(following.directory, { recursive: true, force: true }));
    const server = following.#stack.use(
      await startApiServer({
        dataDirectory: undefined,
        listen: { host: '127.0.0.1', port: 0 },
        version: '0.0.0',
        logger: createLogger({ level: 'silent' }),
      }),
    );
    const config = loadKubeconfig({ env: { KUBECONFIG: server.kubeconfig } });
    assert.ok(config);
    following.client = following.#stack.use(new KubeClient(kubeconfigAccess(config)));
    return following;
  }

  at(name: string): string {
    return join(this.directory, name);
  }

  write(name: string, text: string): void {
    writeFileSync(this.at(name), text);
  }

  start(...paths: string[]): void {
    this.#stop = new AbortController();
    this.#running = followManifests({
      client: this.client,
      roots: manifestRoots(paths.length === 0 ? [this.directory] : paths),
      reserved: new Set(['reserved.test.dev']),
      say: (line) => this.said.push(line),
      onRound: (round) => {
        this.rounds.push(round);
        this.#wake?.();
      },
      signal: this.#stop.signal,
      // Only the kernel's word counts.
      times: { settleMs: 20, rescanMs: 60_000 },
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** Resolves when a round was made after which it holds. */
  async until(holds: () => boolean | Promise<boolean>): Promise<void> {
    const waiting = patience();
    for (;;) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      if (await holds()) return;
      waiting.addEventListener('abort', () => resolve(), { once: true });
      await promise;
      assert.ok(!waiting.aborted, `waited in vain: ${this.said.join('\n')}`);
    }
  }

  async value(name: string): Promise<string | undefined> {
    try {
      return (await this.client.get(configMapType, { namespace: 'default', name })).data?.['key'];
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.#stack.disposeAsync();
  }
}

suite('manifests that are followed', () => {
  test('are applied, edited, replaced, and removed with their documents and files', async () => {
    await using one = await Following.open();
    one.write('a.yaml', `${configMap('a1')}---\n${configMap('a2')}`);
    one.write('ignored.txt', configMap('ignored'));
    one.write('.hidden.yaml', configMap('hidden'));
    one.start();
    await one.until(async () => (await one.value('a2')) === 'x');
    assert.equal(await one.value('ignored'), undefined);
    assert.equal(await one.value('hidden'), undefined);
    one.write('a.yaml', `${configMap('a1', 'two')}---\n${configMap('a2')}`);
    await one.until(async () => (await one.value('a1')) === 'two');
    assert.equal(one.rounds.at(-1)?.applied, 1, 'only what has changed');
    one.write('new', configMap('a1', 'z'));
    renameSync(one.at('new'), one.at('a.yaml'));
    await one.until(async () => (await one.value('a1')) === 'z' && (await one.value('a2')) === undefined);
    one.write(
      'b.json',
      JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'b' }, data: { key: 'b' } }),
    );
    await one.until(async () => (await one.value('b')) === 'b');
    rmSync(one.at('b.json'));
    await one.until(async () => (await one.value('b')) === undefined);
    assert.equal(await one.value('a1'), 'z');
    assert.deepEqual(
      one.said.filter((line) => !line.startsWith('manifests: ')),
      [],
    );
  });

  test('kinds and namespaces come before what needs them, whatever the order in the files', async () => {
    await using one = await Following.open();
    const sink = 'apiVersion: test.rampart.dev/v1\nkind: KitchenSink\nmetadata:\n  name: one\nspec:\n';
    one.write(
      '1.yaml',
      `${sink}  name: a\n  level: "1"\n  rules: [{name: r}]\n  until: null\n---\n${configMap('c', 'x', 'other')}`,
    );
    one.write('2.yaml', crdYaml(kitchenSinks, 'test'));
    one.write('3.yaml', 'apiVersion: v1\nkind: Namespace\nmetadata:\n  name: other\n');
    one.start();
    await one.until(() => one.rounds.length > 0);
    assert.deepEqual(one.rounds[0]?.problems, []);
    assert.equal(one.rounds[0]?.applied, 4);
    await one.client.get(sinkType, { name: 'one' });
  });

  test('a bad file is told once, with its line, and changes nothing of what it said before', async () => {
    await using one = await Following.open();
    one.write('good.yaml', configMap('good'));
    one.write('bad.yaml', `${configMap('kept')}---\n${configMap('also')}`);
    one.start();
    await one.until(async () => (await one.value('also')) === 'x');
    one.write('bad.yaml', `${configMap('kept')}---\nkind: [\n`);
    one.write('good.yaml', configMap('good', 'better'));
    await one.until(
      async () =>
        (await one.value('good')) === 'better' && one.said.some((line) => line.includes('bad.yaml:')),
    );
    assert.equal(await one.value('also'), 'x');
    const reported = (): string[] => one.said.filter((line) => line.includes('bad.yaml'));
    assert.equal(reported().length, 1);
    assert.match(reported()[0] ?? '', /bad\.yaml:\d+: document 2: invalid YAML/);
    one.write('other.yaml', configMap('other'));
    await one.until(async () => (await one.value('other')) === 'x');
    assert.equal(reported().length, 1, 'not told again while the file is the same');
    one.write('bad.yaml', configMap('kept'));
    await one.until(async () => (await one.value('also')) === undefined);
  });

  test('what the server refuses is told with line, object and field', async () => {
    await using one = await Following.open();
    one.write('a.yaml', `${configMap('ok')}---\n${configMap('x')}oops: 1\n---\n${configMap('UPPER')}`);
    one.write('b.yaml', 'apiVersion: no.such/v1\nkind: Thing\nmetadata:\n  name: t\n');
    one.write('c.yaml', configMap('ok', 'second'));
    one.write(
      'd.yaml',
      'apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: reserved.test.dev}\n',
    );
    one.start();
    await one.until(() => one.rounds.length > 0);
    const file = (name: string): string => one.at(name);
    assert.equal(await one.value('ok'), 'x');
    const said = one.said.join('\n');
    assert.ok(
      said.includes(
        `${file('a.yaml')}:16: document 2, ConfigMap default/x, oops: field not declared in schema`,
      ),
      said,
    );
    assert.ok(
      said.includes(
        `${file('a.yaml')}:21: document 3, ConfigMap default/UPPER, metadata.name: Invalid value`,
      ),
      said,
    );
    assert.ok(
      said.includes(`${file('b.yaml')}:2: document 1, Thing t, kind: there is no Thing in no.such/v1`),
      said,
    );
    assert.ok(
      said.includes(
        `${file('c.yaml')}:4: document 1, ConfigMap default/ok, metadata.name: it is already defined in ${file('a.yaml')}:4`,
      ),
      said,
    );
    assert.ok(
      said.includes(
        `${file('d.yaml')}:3: document 1, CustomResourceDefinition reserved.test.dev, metadata.name: this object is part of Rampart`,
      ),
      said,
    );
  });

  test('what an earlier process left is removed, unless it is of other files', async () => {
    await using one = await Following.open();
    mkdirSync(one.at('first'));
    mkdirSync(one.at('second'));
    one.write('first/a.yaml', configMap('a'));
    one.write('first/b.yaml', configMap('b'));
    one.write('second/c.yaml', configMap('c'));
    one.start(one.at('first'), one.at('second'));
    await one.until(async () => (await one.value('c')) === 'x');
    await one.stop();
    rmSync(one.at('first/b.yaml'));
    rmSync(one.at('second/c.yaml'));
    one.start(one.at('first'));
    await one.until(async () => (await one.value('b')) === undefined);
    assert.equal(await one.value('a'), 'x');
    assert.equal(await one.value('c'), 'x');
    await one.stop();
    // A directory that is gone takes nothing with it: it may be a disk that is not mounted.
    one.start(one.at('first'));
    renameSync(one.at('first'), one.at('moved'));
    await one.until(() => one.said.some((line) => line.includes('ENOENT')));
    assert.equal(await one.value('a'), 'x');
    renameSync(one.at('moved'), one.at('first'));
  });

  test('a directory whose content is swapped by a link, as a mounted ConfigMap', async () => {
    await using one = await Following.open();
    for (const [name, value] of [
      ['..1', 'old'],
      ['..2', 'new'],
    ] as const) {
      mkdirSync(one.at(name));
      one.write(`${name}/a.yaml`, configMap('a', value));
    }
    symlinkSync('..1', one.at('..data'));
    symlinkSync('..data/a.yaml', one.at('a.yaml'));
    one.start();
    await one.until(async () => (await one.value('a')) === 'old');
    symlinkSync('..2', one.at('..new'));
    renameSync(one.at('..new'), one.at('..data'));
    await one.until(async () => (await one.value('a')) === 'new');
  });

  test('a path that is not there is refused', () => {
    assert.throws(
      () => manifestRoots(['/no/such/path']),
      /cannot apply \/no\/such\/path: it does not exist. Create it/,
    );
    assert.throws(() => manifestRoots(['/dev/null']), /neither a file nor a directory/);
  });
});
