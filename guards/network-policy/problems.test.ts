import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { PolicySpec } from './engine/objects.ts';
import { monitorAnnotation } from './engine/monitor.ts';
import { app, holds, ingress, pod, policy, xa, xb, ya } from './meaning.fixture.ts';

suite('rules that cannot be expressed are reported, and allow nothing', () => {
  const wrong: Readonly<
    Record<string, readonly [rule: NonNullable<PolicySpec['ingress']>[number], field: string]>
  > = {
    'endPort below port': [{ ports: [{ port: 80, endPort: 79 }] }, 'ports[0].endPort'],
    'a name with endPort': [{ ports: [{ port: 'http', endPort: 81 }] }, 'ports[0].endPort'],
    'endPort alone': [{ ports: [{ endPort: 81 }] }, 'ports[0].endPort'],
    'a port that is none': [{ ports: [{ port: 65_616 }] }, 'ports[0].port'],
    'an unknown protocol': [{ ports: [{ port: 80, protocol: 'tcp' }] }, 'ports[0].protocol'],
    'a block that is none': [{ from: [{ ipBlock: { cidr: '10.0.0.0' } }] }, 'from[0].ipBlock.cidr'],
    'an except outside of its block': [
      { from: [{ ipBlock: { cidr: '10.0.0.0/24', except: ['10.0.1.0/25'] } }] },
      'from[0].ipBlock.except[0]',
    ],
    'an except that is none': [
      { from: [{ ipBlock: { cidr: '10.0.0.0/24', except: ['10.0.0.5/32', '10.0.0.x/25'] } }] },
      'from[0].ipBlock.except[1]',
    ],
    'a malformed podSelector': [
      { from: [{ podSelector: { matchExpressions: [{ key: 'app', operator: 'Near' }] } }] },
      'from[0].podSelector',
    ],
    'a malformed namespaceSelector': [
      {
        from: [
          { podSelector: {}, namespaceSelector: { matchExpressions: [{ key: '!', operator: 'Exists' }] } },
        ],
      },
      'from[0].namespaceSelector',
    ],
    'a peer that names nobody': [{ from: [{}] }, 'from[0]'],
    'a block beside a selector': [
      { from: [{ podSelector: {}, ipBlock: { cidr: '10.0.0.0/24' } }] },
      'from[0]',
    ],
  };
  for (const [title, [rule, field]] of Object.entries(wrong)) {
    test(`${title}, while the rules beside it hold`, () => {
      const refused = holds(ingress(rule), [
        [false, xb, xa],
        [false, xb, xa, 79],
        [false, xb, xa, 81],
      ]);
      assert.deepEqual(
        refused.problems().map((problem) => [problem.policy, problem.field]),
        [['x/p', `spec.ingress[0].${field}`]],
      );
      const right = { from: [...(rule.from ?? []), { podSelector: app('b') }], ports: rule.ports };
      const both = rule.ports === undefined ? right : { ports: [...(rule.ports ?? []), { port: 80 }] };
      holds(ingress(both), [[true, xb, xa]]);
    });
  }

  test('a block is read as by Kubernetes, and a difference from its text is reported', () => {
    for (const [cidr, except, allowed, reported] of [
      [
        '10.0.0.99/24',
        [],
        true,
        /^"10\.0\.0\.99\/24" has bits set beyond its prefix; it is read as 10\.0\.0\.0\/24\.$/,
      ],
      ['10.0.0.99/28', [], false, /read as 10\.0\.0\.96\/28/],
      ['::ffff:10.0.0.0/104', [], true, /is IPv4 written as IPv6; it is read as 10\.0\.0\.0\/8/],
      [
        '::ffff:10.9.9.9/112',
        [],
        false,
        /beyond its prefix and is IPv4 written as IPv6; it is read as 10\.9\.0\.0\/16/,
      ],
      ['010.0.0.0/08', [], true, /has leading zeros; it is read as 10\.0\.0\.0\/8/],
      ['10.0.0.0/24', ['10.0.0.1/29'], false, /"10\.0\.0\.1\/29" .* read as 10\.0\.0\.0\/29/],
      ['10.0.0.0/24', ['::ffff:10.0.0.0/125'], false, /read as 10\.0\.0\.0\/29/],
    ] as const) {
      const engine = holds(ingress({ from: [{ ipBlock: { cidr, except } }] }), [[allowed, xb, xa]]);
      assert.deepEqual(engine.problems(), []);
      const [warning, ...more] = engine.warnings();
      assert.deepEqual(more, []);
      assert.match(warning?.message ?? '', reported);
    }
    // Not within the IPv4-mapped addresses as a whole.
    holds(ingress({ from: [{ ipBlock: { cidr: '::ffff:0:0/90' } }] }), [[false, xb, xa]]);
  });

  test('a malformed selector of targets isolates the namespace', () => {
    const engine = holds(
      [policy('x/p', { podSelector: { matchLabels: { app: '-' } }, ingress: [{}] })],
      [
        [false, ya, xa],
        [false, ya, xb],
        [true, xa, ya],
      ],
    );
    assert.deepEqual(
      engine.problems().map(({ field }) => field),
      ['spec.podSelector'],
    );
  });

  test('monitor mode is "true" and nothing else; similar values are reported for each affected policy', () => {
    const [refusing] = ingress({ from: [{ podSelector: app('none') }] });
    for (const [value, allowed, isReported] of [
      ['true', true, false],
      ['false', false, false],
      ['', false, false],
      ['True', false, true],
      ['yes', false, true],
    ] as const) {
      const annotations = { [monitorAnnotation]: value };
      const annotated = { ...refusing!, metadata: { ...refusing!.metadata, annotations } };
      const engine = holds([annotated], [[allowed, xb, xa]]);
      const message = `${JSON.stringify(value)} does not count: only "true" is monitor mode.`;
      const reported = { policy: 'x/p', message };
      assert.deepEqual(
        engine.warnings(),
        isReported ? [{ ...reported, field: 'metadata.annotations' }] : [],
        value,
      );
      const ofNamespace = holds([refusing!], [[false, xb, xa]]);
      ofNamespace.upsertNamespace({ metadata: { name: 'x', annotations } });
      ofNamespace.upsertNamespace({ metadata: { name: 'y', annotations } });
      assert.equal(ofNamespace.rules.pods.get('x/a')?.monitors.ingress, allowed, value);
      assert.deepEqual(
        ofNamespace.warnings(),
        isReported ? [{ ...reported, field: 'metadata.annotations of Namespace x' }] : [],
        value,
      );
      ofNamespace.removeNamespace('x');
      assert.equal(ofNamespace.rules.pods.get('x/a')?.monitors.ingress, false, value);
      assert.deepEqual(ofNamespace.warnings(), [], value);
    }
  });

  test('an unknown policy type is passed over', () => {
    const engine = holds([policy('x/p', { podSelector: {}, policyTypes: ['ingress'] })], [[false, ya, xa]]);
    assert.deepEqual(
      engine.problems().map(({ field }) => field),
      ['spec.policyTypes[0]'],
    );
  });

  test('a name that no pod has, until one has it', () => {
    const named = policy('x/p', {
      podSelector: app('a'),
      policyTypes: ['Ingress', 'Egress'],
      // A name of another protocol, an existing name beside it, and one that is never requested.
      ingress: [{ ports: [{ port: 'http' }, { port: 'dns' }, { port: 'dns', protocol: 'UDP' }] }],
      egress: [
        { to: [{ podSelector: app('b') }], ports: [{ port: 443 }, { port: 'metrics' }] },
        { to: [{ podSelector: app('gone') }], ports: [{ port: 'metrics' }] },
      ],
    });
    const engine = holds([named], [[true, xb, xa]]);
    const fields = () => engine.problems().map(({ policy: key, field }) => `${key} ${field}`);
    assert.deepEqual(fields(), ['x/p spec.ingress[0].ports[1].port', 'x/p spec.egress[0].ports[1].port']);
    assert.match(
      engine.problems()[0]?.message ?? '',
      /^no pod here that the policy selects has a port named "dns" \(TCP\): the port allows nothing\.$/,
    );
    engine.upsertPod(pod('x/b', '10.0.0.2 fd00::2', { ports: [{ name: 'metrics', containerPort: 9100 }] }));
    assert.deepEqual(fields(), ['x/p spec.ingress[0].ports[1].port']);
    // None that it is for.
    engine.removePod('x/a');
    assert.deepEqual(fields(), []);
  });
});
