// guard/reports against the embedded API: which kind is written, and what is not written again.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { startApiServer } from '../../lib/apiserver/server.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { isNotFound } from '../../lib/kube/client/client-errors.ts';
import { ManualClock } from '../../lib/time/clock.fixture.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { customResourceDefinitions, established } from '../../lib/kube/crd/established.ts';
import { crdManifest } from '../../lib/kube/crd/manifest.ts';
import type { Resource } from '../../lib/kube/crd/resource.ts';
import { namespaces, type ResourceType } from '../../lib/kube/object/object.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { openReports, openReportType } from '../../guard/reports/open-reports.ts';
import { policyReports, policyReportType } from '../../guard/reports/policy-reports.ts';
import type { Report, ReportEntry } from '../../guard/reports/report-entry.ts';
import type { ReportObject } from '../../guard/reports/report-object.ts';
import { ReportWriter } from '../../guard/reports/report-writer.ts';

const entry: ReportEntry = {
  source: 'rampart/test',
  policy: 'example',
  rule: 'file-changed',
  category: 'Test',
  severity: 'high',
  result: 'fail',
  message: 'changed',
  timestampMs: 1_700_000_000_000,
  properties: { path: '/etc/passwd' },
};
const target = { namespace: 'default', name: 'example-n1' };
const report: Report = {
  ...target,
  scope: { apiVersion: 'v1', kind: 'Node', name: 'n1' },
  entries: [entry],
};

class Api implements AsyncDisposable {
  readonly stack = new AsyncDisposableStack();
  readonly clock = new ManualClock();
  readonly log: string[] = [];
  /** `VERB RESOURCE` of what the writer asked. */
  readonly asked: string[] = [];
  client!: KubeClient;
  writer!: ReportWriter;
  readonly signal = AbortSignal.timeout(60_000);

  static async start(): Promise<Api> {
    const api = new Api();
    const directory = mkdtempSync(join(tmpdir(), 'rampart-reports-'));
    api.stack.defer(() => rmSync(directory, { recursive: true, force: true }));
    const server = await startApiServer({
      dataDirectory: directory,
      memory: true,
      listen: { host: '127.0.0.1', port: 0 },
      version: '0.0.0',
      logger: createLogger({ level: 'silent' }),
    });
    api.stack.use(server);
    const handle = server.verbs.handle.bind(server.verbs);
    server.verbs.handle = (request) => {
      if (request.userAgent === 'writer') {
        api.asked.push(`${request.verb} ${request.resource.plural}`);
      }
      return handle(request);
    };
    const access = findClusterAccess({ path: server.kubeconfig ?? '' });
    api.client = api.stack.use(new KubeClient(access));
    const client = api.stack.use(new KubeClient(access, { userAgent: 'writer' }));
    await api.client.create(namespaces, { metadata: { name: 'default' } }).catch(() => undefined);
    const note = (text: unknown): void => void api.log.push(String(text));
    const logger = { warn: note, info: (_about: unknown, text: string) => note(text) };
    api.writer = new ReportWriter({ client, clock: api.clock, logger: logger as never });
    return api;
  }

  async install(resource: Resource): Promise<void> {
    const crds: ResourceType = customResourceDefinitions;
    const manifest = crdManifest(resource);
    await this.client.apply(crds, manifest, { fieldManager: 'test', force: true });
    await established(this.client, manifest.metadata.name, { timeoutMs: 30_000, signal: this.signal });
  }

  async read(type: ResourceType = policyReportType): Promise<ReportObject | undefined> {
    try {
      return (await this.client.get(type, target)) as ReportObject;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  write(changes: Partial<Report> = {}): Promise<boolean> {
    return this.writer.write({ ...report, ...changes }, this.signal);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stack.disposeAsync();
  }
}

suite('reports in an API', () => {
  test('without a definition nothing is written, which is reported once; one that is installed later is found', async () => {
    await using api = await Api.start();
    assert.equal(api.writer.missing, undefined);
    assert.equal(await api.write(), false);
    assert.equal(await api.write(), false);
    await api.writer.delete(target, api.signal);
    assert.match(api.writer.missing ?? '', /neither PolicyReport .* nor Report/);
    assert.equal(api.log.length, 1, api.log.join('\n'));
    assert.match(api.log[0] ?? '', /no reports are written\. Install one of them/);
    await api.install(policyReports);
    assert.equal(await api.write(), false, 'it asks each minute');
    api.clock.advanceSync(60_000);
    assert.equal(await api.write(), true);
    assert.equal(api.writer.missing, undefined);
    assert.equal(api.log.at(-1), 'writing reports');
    assert.equal((await api.read())?.summary.fail, 1);
  });

  test('an unchanged report is written once an hour; a changed one at once', async () => {
    await using api = await Api.start();
    await api.install(policyReports);
    for (let time = 0; time < 3; time++) assert.equal(await api.write(), true);
    assert.deepEqual(api.asked, ['patch policyreports']);
    const first = await api.read();
    assert.deepEqual(first?.results[0]?.properties, { path: '/etc/passwd' });
    await api.write({ entries: [{ ...entry, result: 'pass', message: 'well' }] });
    await api.write({ entries: [{ ...entry, result: 'pass', message: 'well', timestampMs: 1 }] });
    assert.equal(api.asked.length, 2);
    const second = await api.read();
    assert.deepEqual([second?.summary.fail, second?.summary.pass], [0, 1]);
    assert.equal(second?.results.length, 1);
    await api.client.delete(policyReportType, target);
    api.clock.advanceSync(3_600_000);
    await api.write({ entries: [{ ...entry, result: 'pass', message: 'well' }] });
    assert.equal((await api.read())?.summary.pass, 1);
  });

  test('OpenReports if there is no PolicyReport; never both', async () => {
    await using api = await Api.start();
    await api.install(openReports);
    await api.write();
    assert.deepEqual((await api.read(openReportType))?.scope, {
      apiVersion: 'v1',
      kind: 'Node',
      name: 'n1',
    });
    // Later the other one is there as well: after the next start it takes over, and the old one goes.
    await api.install(policyReports);
    const next = new ReportWriter({ client: api.client, logger: createLogger({ level: 'silent' }) });
    assert.equal(await next.write(report, api.signal), true);
    assert.equal((await api.read())?.summary.fail, 1);
    assert.equal(await api.read(openReportType), undefined);
  });

  test('a report of another client is not deleted; ours is, also twice', async () => {
    await using api = await Api.start();
    await api.install(policyReports);
    const theirs = { namespace: 'default', name: 'theirs' };
    await api.client.create(policyReportType, { metadata: theirs });
    await api.write();
    for (const one of [theirs, target, target]) await api.writer.delete(one, api.signal);
    assert.equal(await api.read(), undefined);
    assert.equal((await api.client.get(policyReportType, theirs)).metadata.name, 'theirs');
  });

  test('the definition goes: one call fails, the next knows', async () => {
    await using api = await Api.start();
    await api.install(policyReports);
    await api.write();
    await api.client.delete(customResourceDefinitions, { name: 'policyreports.wgpolicyk8s.io' });
    const gone = async (): Promise<boolean> =>
      await api.client.get(policyReportType, target).then(
        () => false,
        (error: unknown) => isNotFound(error),
      );
    while (!(await gone())) api.signal.throwIfAborted();
    // Since the definition itself goes a little later, wait for the API to say so.
    const crd = { name: 'policyreports.wgpolicyk8s.io' };
    while (
      await api.client.get(customResourceDefinitions, crd).then(
        () => true,
        () => false,
      )
    )
      api.signal.throwIfAborted();
    const changed = { entries: [{ ...entry, message: 'again' }] };
    await assert.rejects(api.write(changed), isNotFound);
    assert.equal(await api.write(changed), false);
  });
});
