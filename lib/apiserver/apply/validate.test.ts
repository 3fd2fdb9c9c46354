import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { refusalOf } from '../../json/refusal.fixture.ts';
import { configuration, spec, Store, thing } from './field-manager.fixture.ts';
import { serverSideApply } from './field-manager.ts';

describe('a configuration that does not fit is 400', () => {
  const cases: readonly (readonly [string, unknown, string])[] = [
    ['no object', [], 'an applied configuration must be an object'],
    [
      'another version',
      { apiVersion: 'v2' },
      'Incorrect version specified in apply patch. Specified patch version: v2, expected: example.com/v1',
    ],
    [
      'managedFields',
      configuration({ metadata: { managedFields: [] } }),
      'metadata.managedFields must be nil',
    ],
    ...(
      [
        [{ spec: { unknown: 1 } }, '.spec.unknown: field not declared in schema'],
        [{ spec: { replicas: 'x' } }, '.spec.replicas: expected numeric (int or float), got "x"'],
        [{ data: { a: 1 } }, '.data.a: expected string, got 1'],
        [{ spec: { paused: {} } }, '.spec.paused: expected boolean, got a map'],
        [{ spec: { args: 'x' } }, '.spec.args: expected list, got "x"'],
        [{ spec: [] }, '.spec: expected map, got a list'],
        [
          { spec: { containers: [{ image: 'x' }] } },
          '.spec.containers: element 0: associative list with keys has an element that omits key field "name" (and doesn\'t have default value)',
        ],
        [
          { spec: { containers: [{ name: 'a' }, { name: 'a' }] } },
          '.spec.containers: duplicate entries for key [name="a"]',
        ],
        [
          { spec: { containers: [{ name: 'a', ports: [{ containerPort: 'x' }] }] } },
          '.spec.containers[name="a"].ports[containerPort="x",protocol="TCP"].containerPort: expected numeric (int or float), got "x"',
        ],
        [{ spec: { zones: ['a', 'a'] } }, '.spec.zones: duplicate entries for key [="a"]'],
        [
          { spec: { zones: [null] } },
          ".spec.zones: element 0: associative list without keys has an element that's an explicit null",
        ],
        [
          { data: { a: 1 }, spec: { x: 1 } },
          'errors:\n  .data.a: expected string, got 1\n  .spec.x: field not declared in schema',
        ],
      ] as const
    ).map(
      ([rest, message]) =>
        [
          message,
          configuration(rest),
          `failed to create typed patch object (/x; example.com/v1, Kind=Thing): ${message}`,
        ] as const,
    ),
  ];
  for (const [name, applied, message] of cases) {
    it(name, () => {
      const store = new Store();
      const status = refusalOf(() => applyRaw(store, applied));
      assert.deepEqual(status, { code: 400, reason: 'BadRequest', message });
    });
  }

  it('nulls fit anywhere', () => {
    const store = new Store();
    store.apply('me', spec({ replicas: null, args: null, containers: null, strategy: null }));
    assert.deepEqual(store.owned('me'), {
      'f:spec': { 'f:args': {}, 'f:containers': {}, 'f:replicas': {}, 'f:strategy': {} },
    });
  });
});

function applyRaw(store: Store, applied: unknown): void {
  const context = { type: thing, manager: 'me', apiVersion: 'example.com/v1', now: new Date(0) };
  serverSideApply(store.object, applied, context);
}
