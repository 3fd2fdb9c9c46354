/**
 * After any history of changes the reports are what a fresh look at everything would make them: also where the scanner was
 * stopped in the middle of its work, and where the API failed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { unreachable } from '../../../lib/kube/client/client-errors.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { seed } from '../../../lib/testing/depth.fixture.ts';
import { patience, until } from '../../../lib/testing/until.fixture.ts';
import { type kindTypes, lineOf, type RunningScanner, ScanCluster } from './scan.fixture.ts';

type Kind = keyof typeof kindTypes;
type Labels = Record<string, string>;

interface ModelPolicy {
  readonly kinds: readonly Kind[];
  /** The label that objects need. */
  readonly label: string;
  readonly namespaceLabel: string | undefined;
  readonly objectLabel: string | undefined;
  /** A match condition: objects of another name. */
  readonly notName: string | undefined;
  readonly backgroundAudit: boolean;
  readonly operations: readonly string[];
}

/** The test's model of the cluster. */
interface Model {
  readonly namespaces: Map<string, Labels>;
  /** `kind namespace name` */
  readonly objects: Map<string, Labels>;
  readonly policies: Map<string, ModelPolicy>;
}

type Step =
  | { readonly do: 'namespace'; readonly name: string; readonly labels: Labels }
  | {
      readonly do: 'object';
      readonly kind: Kind;
      readonly namespace: string;
      readonly name: string;
      readonly labels: Labels;
    }
  | { readonly do: 'remove'; readonly kind: Kind; readonly namespace: string; readonly name: string }
  | { readonly do: 'policy'; readonly name: string; readonly policy: ModelPolicy }
  | { readonly do: 'unpolicy'; readonly name: string }
  | { readonly do: 'kill' }
  | { readonly do: 'pause'; readonly ms: number };

const kindNames: Readonly<Record<Kind, string>> = { configmaps: 'ConfigMap', secrets: 'Secret' };

const label = fc.constantFrom('red', 'blue');
const labels = fc.uniqueArray(label).map((names) => Object.fromEntries(names.map((name) => [name, 'x'])));
const kind = fc.constantFrom<Kind>('configmaps', 'secrets');
const namespace = fc.constantFrom('one', 'two');
const name = fc.constantFrom('a', 'b', 'c', 'd');
const policy: fc.Arbitrary<ModelPolicy> = fc.record({
  kinds: fc.uniqueArray(kind, { minLength: 1 }),
  label,
  namespaceLabel: fc.option(label, { nil: undefined, freq: 3 }),
  objectLabel: fc.option(label, { nil: undefined, freq: 3 }),
  notName: fc.option(name, { nil: undefined, freq: 3 }),
  backgroundAudit: fc.boolean().map((one) => one || true),
  operations: fc.constantFrom(['CREATE'], ['*'], ['CREATE', 'UPDATE'], ['DELETE']),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('object' as const), kind, namespace, name, labels }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('remove' as const), kind, namespace, name }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('policy' as const),
      name: fc.constantFrom('p', 'q', 'r'),
      policy,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('unpolicy' as const), name: fc.constantFrom('p', 'q', 'r') }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('namespace' as const), name: namespace, labels }) },
  { weight: 2, arbitrary: fc.constant({ do: 'kill' as const }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('pause' as const), ms: fc.integer({ min: 0, max: 40 }) }),
  },
);

const fault = fc.constantFrom('after' as const, 'before' as const, ...Array<undefined>(12).fill(undefined));

function expected({ namespaces, objects, policies }: Model): string[] {
  const lines: string[] = [];
  for (const [key, own] of objects) {
    const [objectKind, space = '', objectName = ''] = key.split(' ') as [Kind, string?, string?];
    const found: string[] = [];
    for (const [id, one] of [...policies].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      if (!one.kinds.includes(objectKind) || !one.backgroundAudit || one.operations.includes('DELETE'))
        continue;
      if (one.namespaceLabel !== undefined && namespaces.get(space)?.[one.namespaceLabel] === undefined)
        continue;
      if (one.objectLabel !== undefined && own[one.objectLabel] === undefined) continue;
      if (one.notName === objectName) continue;
      found.push(`${id}=${own[one.label] === undefined ? 'fail' : 'pass'}`);
    }
    if (found.length > 0) lines.push(`${space} ${kindNames[objectKind]} ${objectName}: ${found.join(' ')}`);
  }
  return lines.toSorted();
}

function wishOf({
  kinds,
  label: needed,
  namespaceLabel,
  objectLabel,
  notName,
  backgroundAudit,
  operations,
}: ModelPolicy) {
  const selector = (one: string | undefined): object =>
    one === undefined ? {} : { matchLabels: { [one]: 'x' } };
  return {
    expression: `has(object.metadata.labels) && '${needed}' in object.metadata.labels`,
    more: {
      backgroundAudit,
      rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: kinds, operations }],
      namespaceSelector: selector(namespaceLabel),
      objectSelector: selector(objectLabel),
      matchConditions:
        notName === undefined ? [] : [{ name: 'name', expression: `request.name != '${notName}'` }],
    },
  };
}

async function play(cluster: ScanCluster, model: Model, one: Step): Promise<void> {
  if (one.do === 'namespace') {
    model.namespaces.set(one.name, one.labels);
    await cluster.setNamespace(one.name, one.labels);
  } else if (one.do === 'object') {
    model.objects.set(`${one.kind} ${one.namespace} ${one.name}`, one.labels);
    await cluster.setObject(one.kind, one.namespace, one.name, one.labels);
  } else if (one.do === 'remove') {
    model.objects.delete(`${one.kind} ${one.namespace} ${one.name}`);
    await cluster.deleteObject(one.kind, one.namespace, one.name);
  } else if (one.do === 'policy') {
    model.policies.set(one.name, one.policy);
    await cluster.setPolicy(one.name, wishOf(one.policy));
  } else if (one.do === 'unpolicy') {
    model.policies.delete(one.name);
    await cluster.deletePolicy(one.name);
  } else if (one.do === 'pause') {
    await new Promise((resolve) => setTimeout(resolve, one.ms));
  }
}

async function clear(cluster: ScanCluster): Promise<void> {
  for (const own of ['p', 'q', 'r']) await cluster.deletePolicy(own);
  for (const space of ['one', 'two']) {
    for (const one of ['configmaps', 'secrets'] as const) {
      for (const own of ['a', 'b', 'c', 'd']) await cluster.deleteObject(one, space, own);
    }
    await cluster.setNamespace(space, {});
  }
}

async function settle(cluster: ScanCluster, model: Model): Promise<void> {
  const wanted = expected(model);
  let lines: string[] = [];
  try {
    await until('reports are as they should be', async () => {
      lines = await cluster.lines();
      return lines.join('\n') === wanted.join('\n');
    });
  } catch {
    assert.deepEqual(lines, wanted);
  }
  for (const report of await cluster.reports()) {
    const summary = { pass: 0, fail: 0, warn: 0, error: 0, skip: 0 };
    for (const { result } of report.results) summary[result]++;
    assert.deepEqual(report.summary, summary, lineOf(report));
  }
}

const calls: ReadonlySet<string> = new Set(['create', 'update', 'delete', 'get', 'list', 'patch']);

/** A client of which some calls fail: before they are made, or after it, when the answer is lost. */
function faulty(client: KubeClient, chance: () => 'after' | 'before' | undefined): KubeClient {
  return new Proxy(client, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== 'function') return value;
      const call = value.bind(target) as (...args: unknown[]) => unknown;
      if (!calls.has(String(property))) return call;
      return async (...args: unknown[]) => {
        const now = chance();
        if (now === 'before') throw unreachable(String(property), 'a test says so');
        const answer = await call(...args);
        if (now === 'after') throw unreachable(String(property), 'a test says so, after it was done');
        return answer;
      };
    },
  });
}

test(`reports after any history are those of a fresh look at everything (seed ${seed})`, async () => {
  await using cluster = await ScanCluster.start();
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 40 }),
      fc.infiniteStream(fault),
      // How many objects there are in a report: one, some three, all.
      fc.constantFrom({}, { partBytes: 2000 }, { reportsBy: 'namespace' as const }),
      async (steps, faults, form) => {
        await clear(cluster);
        const model: Model = {
          namespaces: new Map([
            ['one', {}],
            ['two', {}],
          ]),
          objects: new Map(),
          policies: new Map(),
        };
        let failing = true;
        const chance = (): 'after' | 'before' | undefined => (failing ? faults.next().value : undefined);
        const start = (): Promise<RunningScanner> =>
          cluster.startScanner({ client: faulty(cluster.newClient(), chance), ...form });
        let running = await start();
        for (const one of steps) {
          await play(cluster, model, one);
          if (one.do !== 'kill') continue;
          await running.stop();
          running = await start();
        }
        failing = false;
        await settle(cluster, model);
        // Effects without a report, as for an object that a match condition excludes, may still be under way.
        await running.scanner.pass(patience());
        const before = running.scanner.evaluations;
        const { evaluations, writes, missed } = await running.scanner.pass(patience());
        assert.deepEqual({ evaluations, writes, missed }, { evaluations: 0, writes: 0, missed: 0 });
        assert.equal(running.scanner.evaluations, before);
        await running.stop();
      },
    ),
    { numRuns: 60, min: 6, endOnFailure: true },
  );
});
