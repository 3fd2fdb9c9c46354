// The processes of this guard in a cluster, started as a user starts them: findings are on stdout, and nothing else is.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';

import { assertFinding } from '../../../guard/stream/finding-schema.fixture.ts';
import { readFinding } from '../../../guard/stream/read-finding.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { ScanCluster } from '../scanner/scan.fixture.ts';
import { review } from '../server/policy-server.fixture.ts';

const rampart = join(import.meta.dirname, '../../../bin/rampart');

class Process implements AsyncDisposable {
  readonly lines: string[] = [];
  stderr = '';
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(...args: readonly string[]) {
    const child = spawn(rampart, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, RAMPART_LOG: 'info' },
    });
    this.#child = child;
    this.#ended = once(child, 'exit');
    createInterface({ input: child.stdout }).on('line', (line) => this.lines.push(line));
    child.stderr.setEncoding('utf8').on('data', (text: string) => void (this.stderr += text));
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    await until(what, () => {
      assert.equal(this.#child.exitCode, null, this.stderr);
      return holds();
    });
  }

  /** `failing ConfigMap shop/bad` of each. */
  said(): string[] {
    return this.lines.map((line) => {
      assertFinding(line);
      const { verdict, object } = readFinding(line)?.head ?? assert.fail(line);
      return `${verdict} ${object?.kind} ${object?.namespace}/${object?.name}`;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill();
    await this.#ended;
  }
}

test('rampart operator', async () => {
  await using cluster = await ScanCluster.start();
  await cluster.setNamespace('rampart-system', {});
  await cluster.setNamespace('shop', {});
  await cluster.setObject('configmaps', 'shop', 'bad', {});
  await cluster.setPolicy('named', { expression: "object.metadata.name != 'bad'" });
  await using operator = new Process(
    ...['operator', '--kubeconfig', cluster.kubeconfig, '--guards', 'policy-audit'],
  );
  await operator.until('the finding', () => operator.lines.length > 0);
  assert.deepEqual(operator.said(), ['failing ConfigMap shop/bad']);
});

test('rampart policy-server', async () => {
  using directory = new TemporaryDirectory();
  const policies = directory.at('policies.yml');
  const validations = [{ expression: "object.metadata.name != 'bad'", message: 'no' }];
  writeFileSync(policies, JSON.stringify({ named: { module: 'cel-policy', settings: { validations } } }));
  await using server = new Process(
    ...['policy-server', '--policies', policies, '--policies-download-dir', directory.at('modules')],
    ...['--addr', '127.0.0.1', '--port', '0', '--readiness-probe-port', '0', '--log-fmt', 'json'],
    ...['--ignore-kubernetes-connection-failure', '--kubeconfig', directory.at('none')],
  );
  await server.until('its policies', () => server.stderr.includes('ready: serving '));
  const [, port] = /"address":\{[^}]*"port":(\d+)/.exec(server.stderr) ?? [];
  const answer = await fetch(`http://127.0.0.1:${port}/validate/named`, {
    method: 'POST',
    body: JSON.stringify(review({}, 'bad')),
  });
  const { response } = (await answer.json()) as { readonly response: { readonly allowed: boolean } };
  assert.equal(response.allowed, false);
  await server.until('the finding', () => server.lines.length > 0);
  assert.match(server.said().join(), /^rejected Pod [^/]*\/bad$/);
});
