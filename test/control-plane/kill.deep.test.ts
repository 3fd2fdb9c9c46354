// kill -9 of the whole server while clients write over HTTPS: what was acknowledged is there afterwards, what was deleted
// stays so, versions only grow, custom kinds are served again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { Http, RampartProcess } from '../../apps/apiserver/rampart-process.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { Random, scaled, seed } from '../../lib/testing/depth.fixture.ts';

const KILLS = scaled(45, 5);
const WRITERS = 20;

const configMaps = '/api/v1/namespaces/default/configmaps';
const widgets = '/apis/kill.example.com/v1/namespaces/default/widgets';
const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
/** Long enough for a checkpoint of the log every few kills. */
const filler = 'x'.repeat(10_000);

interface Answered {
  readonly data?: { readonly mark?: string };
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
}

function definition(plural: string, kind: string): object {
  const data = { type: 'object', additionalProperties: { type: 'string' } };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.kill.example.com` },
    spec: {
      group: 'kill.example.com',
      scope: 'Namespaced',
      names: { plural, kind },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: 'object', properties: { data } } },
        },
      ],
    },
  };
}

/** The server is gone, so the outcome of the last request is unknown. */
class Gone extends Error {}

class Ledger {
  /** The newest that was acknowledged. */
  version = 0n;
  acknowledged = 0;
  doneUnheard = 0;

  heard(version: bigint): void {
    this.acknowledged++;
    if (version > this.version) this.version = version;
  }
}

async function ask(http: Http, path: string, sent: Parameters<Http['ask']>[1] = {}) {
  try {
    return await http.ask(path, sent);
  } catch (error) {
    throw new Gone('no answer', { cause: error });
  }
}

/** Creates its object, changes it twice, deletes it, and so on. */
class Writer {
  readonly #collection: string;
  readonly #name: string;
  readonly #ledger: Ledger;
  #done = 0;
  #version = '';

  constructor(collection: string, name: string, ledger: Ledger) {
    [this.#collection, this.#name, this.#ledger] = [collection, name, ledger];
  }

  /** After a start: what is there has to be what was acknowledged, or what was asked for last. */
  async check(http: Http): Promise<void> {
    const { status, text } = await ask(http, `${this.#collection}/${this.#name}`);
    assert.ok(status === 200 || status === 404, `${status} ${text}`);
    const found = status === 200 ? (JSON.parse(text) as Answered) : undefined;
    if (found === undefined) assert.match(text, new RegExp(`\\\\"${this.#name}\\\\" not found`));
    const shows = (done: number): boolean =>
      done % 4 === 0 ? found === undefined : found?.data?.mark === String(done);
    const done = [this.#done, this.#done + 1].find(shows);
    assert.ok(
      done !== undefined,
      `${this.#name}: ${this.#done} were acknowledged, but there is ${text.slice(0, 300)}`,
    );
    if (done === this.#done && found !== undefined)
      assert.equal(found.metadata.resourceVersion, this.#version);
    this.#ledger.doneUnheard += done - this.#done;
    this.#done = done;
    this.#version = found?.metadata.resourceVersion ?? '';
  }

  /** @throws {Gone} when the server is. */
  async write(http: Http): Promise<never> {
    for (;;) {
      const { status, text } = await this.#operate(http, this.#done + 1);
      assert.ok(status === 200 || status === 201, `${this.#name}: ${status} ${text.slice(0, 300)}`);
      this.#done++;
      const { metadata } = JSON.parse(text) as Answered;
      // A deletion may be answered with a Status.
      this.#version = metadata?.resourceVersion ?? '';
      this.#ledger.heard(BigInt(this.#version === '' ? 0 : this.#version));
    }
  }

  async #operate(http: Http, operation: number) {
    const path = `${this.#collection}/${this.#name}`;
    const data = { mark: String(operation), filler };
    const body = {
      ...(this.#collection === widgets
        ? { apiVersion: 'kill.example.com/v1', kind: 'Widget' }
        : { apiVersion: 'v1', kind: 'ConfigMap' }),
      metadata: { name: this.#name, ...(operation % 4 === 2 && { resourceVersion: this.#version }) },
      data,
    };
    if (operation % 4 === 1) return await ask(http, this.#collection, { method: 'POST', body });
    if (operation % 4 === 2) return await ask(http, path, { method: 'PUT', body });
    if (operation % 4 === 0) return await ask(http, path, { method: 'DELETE' });
    return await ask(http, path, { method: 'PATCH', body: { data }, type: 'application/merge-patch+json' });
  }
}

/** Kinds come and go meanwhile. */
async function define(http: Http): Promise<never> {
  for (;;) {
    const { status } = await ask(http, definitions, {
      method: 'POST',
      body: definition('gadgets', 'Gadget'),
    });
    assert.ok(status === 201 || status === 409, String(status));
    await served(http, '/apis/kill.example.com/v1/gadgets');
    const body = { apiVersion: 'kill.example.com/v1', kind: 'Gadget', metadata: { generateName: 'g-' } };
    const made = await ask(http, '/apis/kill.example.com/v1/namespaces/default/gadgets', {
      method: 'POST',
      body,
    });
    assert.ok(made.status === 201 || made.status === 404 || made.status === 405, made.text);
    await ask(http, `${definitions}/gadgets.kill.example.com`, { method: 'DELETE' });
    while ((await ask(http, `${definitions}/gadgets.kill.example.com`)).status !== 404) await delay(5);
  }
}

async function served(http: Http, path: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    const { status, text } = await ask(http, path);
    if (status === 200) return;
    // It may be on its way out, since before the kill.
    if (tries > 20 && (await ask(http, `${definitions}/gadgets.kill.example.com`)).status === 404) return;
    assert.ok(status === 404 && tries < 3000, `${path}: ${status} ${text}`);
    await delay(5);
  }
}

async function untilGone(work: Promise<never>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
  }
}

test(`${KILLS} times kill -9 under load (RAMPART_TEST_SEED=${seed})`, async (t) => {
  const random = new Random(seed);
  using directory = new TemporaryDirectory();
  const data = directory.at('data');
  const ledger = new Ledger();
  const writers = Array.from(
    { length: WRITERS },
    (_, index) => new Writer(index % 2 === 0 ? configMaps : widgets, `w${index}`, ledger),
  );
  let address = '127.0.0.1:0';
  let killsWhileWriting = 0;
  for (let kill = 0; kill <= KILLS; kill++) {
    const server = new RampartProcess(['apiserver', '--data', data, '--listen', address]);
    await using _killed = server;
    // Some are killed while they start from what the one before has left.
    if (kill > 1 && kill % 9 === 0) {
      await delay(random.below(400));
      await server.kill();
      continue;
    }
    using http = Http.of(await server.ready);
    address = http.server.host;
    if (kill === 0) {
      await http.json(definitions, { method: 'POST', body: definition('widgets', 'Widget') });
      await served(http, widgets);
    }
    const { status, text } = await http.ask(widgets);
    assert.equal(status, 200, text);
    const version = BigInt((JSON.parse(text) as Answered).metadata.resourceVersion);
    assert.ok(version >= ledger.version, `version ${version} after ${ledger.version}`);
    await Promise.all(writers.map((writer) => writer.check(http)));
    if (kill === KILLS) {
      const listed = await http.json<{ items: Answered[] }>(configMaps);
      assert.ok(listed.items.every(({ metadata }) => /^w\d+$/.test(metadata.name)));
      break;
    }
    const before = ledger.acknowledged;
    const working = [...writers.map((writer) => writer.write(http)), define(http)].map(untilGone);
    // A failure has to be reported, not waited for.
    const failed = Promise.all(working);
    while (ledger.acknowledged === before) await Promise.race([delay(1), failed]);
    await Promise.race([delay(random.below(120)), failed]);
    await server.kill();
    await failed;
    killsWhileWriting++;
  }
  t.diagnostic(
    `${killsWhileWriting} kills while writing, ${ledger.acknowledged} acknowledged writes, none lost; ` +
      `${ledger.doneUnheard} done whose acknowledgement the kill cut off`,
  );
  assert.ok(killsWhileWriting >= KILLS * 0.85);
});
