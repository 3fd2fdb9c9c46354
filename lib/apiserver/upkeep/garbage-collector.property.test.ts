// Garbage collection comes to what follows from the state alone, whatever the order of events.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import type { JsonObject } from '../../json/json.ts';
import { configMap, kinds, ownerOf, startServer } from './server.fixture.ts';

const { configMaps } = kinds;

interface Plan {
  /** For each object, which of those before it are its owners. */
  readonly owners: readonly (readonly number[])[];
  readonly deleted: readonly number[];
  readonly policy: 'Background' | 'Foreground';
}

const plans: fc.Arbitrary<Plan> = fc.integer({ min: 1, max: 12 }).chain((count) =>
  fc.record({
    owners: fc.tuple(
      ...Array.from({ length: count }, (_, index) =>
        index === 0 ? fc.constant([]) : fc.uniqueArray(fc.nat(index - 1), { maxLength: 3 }),
      ),
    ),
    deleted: fc.uniqueArray(fc.nat(count - 1), { maxLength: 4 }),
    policy: fc.constantFrom('Background' as const, 'Foreground' as const),
  }),
);

/** Those that are left, each with the owners that are left. */
function expected({ owners, deleted }: Plan): Map<number, readonly number[]> {
  const left = new Set(owners.keys());
  for (const index of deleted) left.delete(index);
  for (const [index, of] of owners.entries()) {
    // Owners come first, so one round is enough.
    if (of.length > 0 && of.every((owner) => !left.has(owner))) left.delete(index);
  }
  return new Map([...left].map((index) => [index, (owners[index] ?? []).filter((owner) => left.has(owner))]));
}

test('the remaining objects follow from the owners and the deletions', { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => {
      await using server = await startServer();
      const made: JsonObject[] = [];
      for (const [index, owners] of plan.owners.entries()) {
        const ownerReferences = owners.map((owner) => made[owner]);
        const item = await server.create(
          configMaps,
          configMap(`o-${index}`, owners.length === 0 ? {} : { ownerReferences }),
        );
        made.push(ownerOf(item, { blockOwnerDeletion: index % 2 === 0 }));
      }
      await Promise.all(
        plan.deleted.map((index) =>
          server.delete(configMaps, `o-${index}`, plan.policy).catch(() => {
            // It has been collected already.
          }),
        ),
      );
      const wanted = [...expected(plan)].map(([index, owners]) => [
        `o-${index}`,
        owners.map((owner) => `o-${owner}`),
      ]);
      const actual = (): unknown[] =>
        server.store.list('configmaps').items.map(({ text }) => {
          const { metadata } = JSON.parse(text) as {
            metadata: { name: string; ownerReferences?: { name: string }[] };
          };
          return [metadata.name, (metadata.ownerReferences ?? []).map(({ name }) => name)];
        });
      const sorted = (list: unknown[]): string =>
        list
          .map((one) => JSON.stringify(one))
          .sort()
          .join();
      await server
        .until('it is as expected', () => sorted(actual()) === sorted(wanted))
        .catch(() => {
          assert.equal(sorted(actual()), sorted(wanted));
        });
    }),
    { numRuns: 60 },
  );
});
