// The containers that a trap selects: real pods, and only the files of selected ones raise alerts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import { sampled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import type { KiveMatch } from '../../../guards/file-access/api.ts';
import { pods as podType } from '../../../lib/kube/object/object.ts';
import type { GuardedLab } from '../guarded-lab.fixture.ts';
import type { LabContainer, LabPod } from '../lab.ts';
import type { ContainerSpec, PodSpec } from '../pod-config.ts';

const path = '/etc/shadow';
/** They share the pod's network, where port 80 is only once. */
const containers = (...names: string[]): { readonly containers: readonly ContainerSpec[] } => ({
  containers: names.map((name) => ({ name, command: ['sleep', '1000'] })),
});
const specs: readonly PodSpec[] = [
  { name: 'web-0', namespace: 'shop', labels: { app: 'web', tier: 'front' }, ...containers('nginx', 'log') },
  { name: 'web-1', namespace: 'shop', labels: { app: 'web', tier: 'back' }, ...containers('nginx') },
  { name: 'web-0', namespace: 'stage', labels: { app: 'web' }, ...containers('nginx-canary') },
  { name: 'vault', namespace: 'stage', labels: { app: 'vault', level: '' }, ...containers('vault') },
];
const all = ['shop/web-0/log', 'shop/web-0/nginx', 'shop/web-1/nginx'].concat(
  ...['stage/vault/vault', 'stage/web-0/nginx-canary'],
);
/** Leaves out the lab's marker. */
const isMine = (name: string): boolean => !name.startsWith('marker/');
const only = (pattern: RegExp): string[] => all.filter((name) => pattern.test(name));

/** Each row differs from the one before, which it takes the place of. `ip` is the name of a pod, whose address is put there. */
const rows: readonly (readonly [matchAny: readonly KiveMatch[], expected: readonly string[]])[] = [
  [[{ pod: 'web-0' }], only(/web-0/)],
  [[{ pod: 'web' }], []],
  [[{ namespace: 'stage' }], only(/^stage/)],
  [[{ pod: 'web-0', namespace: 'stage' }], only(/^stage.web-0/)],
  [[{ pod: 'vault', namespace: 'shop' }], []],
  // OR of both, one of them a part of the other.
  [[{ pod: 'vault' }, { namespace: 'stage' }], only(/^stage/)],
  [[{ pod: 'vault' }, { namespace: 'shop' }], only(/vault|^shop/)],
  [[{ ip: 'shop/web-1' }], only(/web-1/)],
  [[{ ip: 'shop/web-1', namespace: 'stage' }], []],
  [[{ ip: 'shop/web-1' }, { ip: 'stage/vault' }], only(/web-1|vault/)],
  [[{ matchLabels: { app: 'web' } }], only(/web/)],
  [[{ matchLabels: { app: 'web', tier: 'front' } }], only(/^shop.web-0/)],
  [[{ matchLabels: { app: 'web', tier: '' } }], []],
  [[{ matchLabels: { level: '' } }], only(/vault/)],
  // The whole name, unless it has a character that no name may have.
  [[{ containerName: 'nginx' }], only(/nginx$/)],
  [[{ containerName: '^nginx$' }], only(/nginx$/)],
  [[{ containerName: '.*' }], all],
  [[{ containerName: 'ngin.|l.*' }], only(/nginx$|log/)],
  [[{ containerName: 'regex:^n.*x$' }], only(/nginx$/)],
  [[{ containerName: 'glob:nginx*' }], only(/nginx/)],
  [[{ containerName: 'glob:nginx' }], only(/nginx$/)],
  [[{ containerName: 'glob:*g*' }], only(/nginx|log/)],
  [[{ containerName: 'nginx', namespace: 'shop', matchLabels: { app: 'web' } }], only(/^shop.*nginx/)],
  [[{ containerName: '', pod: 'vault' }], only(/vault/)],
  [
    [{ containerName: '^log$' }, { pod: 'web-1', namespace: 'shop', matchLabels: { tier: 'back' } }],
    only(/log|web-1/),
  ],
];

export function matchingCases(lab: () => GuardedLab): void {
  suite('a trap is for', () => {
    let guarded: GuardedLab;
    const pods: LabPod[] = [];
    const byName = new Map<string, LabContainer>();
    before(async () => {
      guarded = lab();
      for (const spec of specs) {
        const { pod } = await guarded.run(spec);
        pods.push(pod);
        for (const container of pod.containers.values()) {
          byName.set(`${pod.namespace}/${pod.name}/${container.name}`, container);
        }
      }
      assert.deepEqual([...byName.keys()].sort(), all);
    });
    /** Puts the addresses in. */
    const withIps = (matchAny: readonly KiveMatch[]): KiveMatch[] =>
      matchAny.map(({ ip, ...match }) => {
        const pod = pods.find(({ namespace, name }) => `${namespace}/${name}` === ip);
        return pod === undefined ? match : { ...match, ip: pod.ip };
      });

    suite('containers that its policy matches', () => {
      // A row may match containers of the tests after this.
      after(async () => await guarded.deletePolicy('matching'));

      for (const [matchAny, expected] of sampled(rows, 4)) {
        test(`${JSON.stringify(matchAny)}: ${expected.length === all.length ? 'all' : expected.join(', ') || 'none'}`, async () => {
          // One policy that is edited: what the row before matched has to go.
          await guarded.setPolicy('matching', [{ path, matchAny: withIps(matchAny) }]);
          await until(`KiveData of ${expected.join(', ') || 'none'}`, async () => {
            const names = (await guarded.data('matching')).map(({ metadata: { annotations = {} } }) =>
              [annotations['namespace'], annotations['pod-name'], annotations['container-name']].join('/'),
            );
            return isDeepStrictEqual(names.filter(isMine).sort(), expected);
          });
          // Not as many as there are now: the marker's may still have to go.
          await guarded.dataCount('matching', expected.length + (expected === all ? 1 : 0));
          const alerts = await guarded.alertsOf(() => {
            for (const container of byName.values()) readFileSync(guarded.pathIn(container, path));
          });
          assert.deepEqual(
            alerts.map(({ pod }) => `${pod.namespace}/${pod.name}/${pod.container.name}`).sort(),
            expected,
          );
        });
      }
    });

    test('a pod in the network of its node by the address of that', async () => {
      const { container } = await guarded.run({ name: 'host', hostNetwork: true, ...containers('main') });
      const ip = await until('its address in the API', async () => {
        const { status } = await guarded.client.get(podType, { namespace: 'default', name: 'host' });
        return status?.podIP !== '' && status?.podIP;
      });
      await guarded.setPolicy('host', [{ path, matchAny: [{ ip }] }]);
      await guarded.dataCount('host', 1);
      const alerts = await guarded.alertsOf(() => readFileSync(guarded.pathIn(container, path)));
      assert.deepEqual(
        alerts.map(({ pod, accessor }) => [pod.name, pod.ip, accessor?.relation]),
        [['host', ip, 'host']],
      );
      await guarded.deletePolicy('host');
    });

    test('a file whatever it is called', async () => {
      const { container } = await guarded.run({ name: 'odd', ...containers('main') });
      const paths = ['a b"c\\d', 'ümläut-日本', 'line\nbreak', '..hidden', '/double', '%20y;$(id)', '-n'].map(
        (name) => `/root/${name}`,
      );
      const matchAny = [{ pod: 'odd' }];
      await guarded.setPolicy(
        'odd',
        paths.map((odd) => ({ path: odd, create: true, matchAny })),
      );
      await guarded.dataCount('odd', paths.length);
      const alerts = await guarded.alertsOf(async () => {
        for (const odd of paths) await guarded.lab.exec(container, ['cat', odd]);
      });
      assert.deepEqual(
        alerts.map(({ metadata, process }) => [metadata.path, process.arguments]),
        paths.map((odd) => [odd, odd]),
      );
      await guarded.deletePolicy('odd');
    });

    test('no container when a match has no item: the policy is refused', () => {
      const sentence = /At least one match block with one match item must be present/;
      const empty = ['[{}]', '[{ pod: vault }, {}]'];
      for (const matchAny of sampled(empty, 1)) {
        guarded.standalone.write(
          'policy.yaml',
          `apiVersion: kivebpf.san7o.github.io/v1
kind: KivePolicy
metadata: { name: everything }
spec: { traps: [{ path: /etc/shadow, matchAny: ${matchAny} }] }
`,
        );
        const { code, stderr } = guarded.standalone.kubectl(
          'apply',
          '-f',
          guarded.standalone.at('policy.yaml'),
        );
        assert.equal(code, 1);
        assert.match(stderr, sentence, matchAny);
      }
    });
  });
}
