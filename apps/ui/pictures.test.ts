import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { startTestApi } from '../../lib/apiserver/test-api.fixture.ts';
import { refusalLine } from '../../guards/network-policy/refusal-line.ts';
import { readFinding } from '../../guard/stream/read-finding.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { PolicyApi } from '../../test/network-policy/policy-api.fixture.ts';
import { guards } from '../guards.ts';
import { installResources } from '../resources.ts';
import { RbacApi } from '../ui-server/rbac-api.fixture.ts';
import { Pictures } from './pictures.ts';

const hostile = '<img src=x onerror=alert(1)>';

suite('pictures of the guards, from an API', () => {
  const { signal } = new AbortController();

  test('each is there, also where nothing is asked; names are as they are; the API is away: the picture says so', async () => {
    await using api = new PolicyApi(await startTestApi({ name: 'pictures', memory: true }));
    await api.createNamespaces('shop');
    const addresses = (last: number) => ({ 4: `10.1.0.${last}`, 6: `fd00:1::${last}` });
    await api.createPod({ name: 'shop/web', addresses: addresses(10) }, 'one');
    await api.createPod({ name: 'shop/db', addresses: addresses(20) }, 'one');
    await api.apply('shop/closed', { podSelector: { matchLabels: { pod: 'db' } } });
    const end = (pod: string, last: number) => ({ address: `10.1.0.${last}`, namespace: 'shop', pod });
    const line = refusalLine(
      {
        ...{
          verdict: 'refused',
          direction: 'ingress',
          protocol: 'TCP',
          policies: ['shop/closed'],
          reason: '',
        },
        ...{ source: end('web', 10), destination: { ...end('db', 20), port: 22 } },
      },
      { nodeName: 'one', timeMs: Date.now() },
    );
    const state = { isLive: true, note: hostile };
    const pictures = new Pictures({
      guards,
      choice: { kubeconfig: api.kubeconfig },
      findingsOf: (guard) => (guard === 'network-policy' ? [readFinding(line) ?? []].flat() : []),
      live: () => state,
      isThisMachine: false,
      clusterWords: ['--context', 'c'],
    });
    assert.equal(pictures.read('no such', signal), undefined);
    assert.equal(pictures.guards.length, 5);
    for (const guard of pictures.guards) {
      const { picture, failure } = (await pictures.read(guard, signal)) ?? {};
      assert.equal(failure, null, guard);
      if (guard !== 'network-policy')
        assert.notDeepEqual(picture?.notes, [], `${guard} says why there is nothing`);
    }
    const { picture } = (await pictures.read('network-policy', signal)) ?? {};
    const cells = new Map(
      picture?.items.map(({ at, mark, command }) => [at.join(' '), [mark, command?.line]]),
    );
    assert.deepEqual(
      [...cells],
      [
        ['shop/db shop/db', ['', undefined]],
        [
          'shop/db shop/web',
          ['all', 'rampart network explain --from shop/db --to shop/web --port 80/TCP --context c'],
        ],
        [
          'shop/web shop/db',
          ['✕ 1', 'rampart network explain --from shop/web --to shop/db --port 22/TCP --context c'],
        ],
        ['shop/web shop/web', ['', undefined]],
      ],
    );
    state.isLive = false;
    await api.stopApi();
    const gone = await until('it is read again', async () => {
      const last = await pictures.read('network-policy', signal);
      return last?.failure !== null && last;
    });
    assert.equal(gone.picture, null);
    assert.match(gone.failure ?? '', /does not answer|refused|ECONNREFUSED/i);
    // Made of findings alone: the API is not asked.
    const accesses = await pictures.read('file-access', signal);
    assert.equal(accesses?.failure, null);
    await until('it is no longer live', async () =>
      (await pictures.read('file-access', signal))?.picture?.notes.includes(
        `New findings are not seen: ${hostile}`,
      ),
    );
  });

  test('what the user may not read is said, and nothing is drawn in its place', async () => {
    await using api = await RbacApi.start(() => Promise.reject(new Error('no logs')));
    // Else there is nothing that could be read.
    await installResources(api.client, guards, signal);
    api.tokens.set('ann', 'ann');
    const pictures = new Pictures({
      ...{ guards, choice: { kubeconfig: api.kubeconfigOf('ann') }, clusterWords: [], isThisMachine: false },
      ...{ findingsOf: () => [], live: () => ({ isLive: true, note: '' }) },
    });
    for (const [guard, resource] of [
      ['network-policy', 'networkpolicies'],
      ['bpf-programs', 'bpfman.io'],
      ['file-integrity', 'fileintegritynodestatuses'],
      ['policy-audit', 'policyreports'],
    ] as const) {
      const { picture, failure } = (await pictures.read(guard, signal)) ?? {};
      assert.deepEqual([picture?.items, failure], [[], null], guard);
      const notes = picture?.notes.join('\n') ?? '';
      assert.match(notes, new RegExp(`^You may not read ${resource}: .*forbidden`, 'm'), guard);
      assert.doesNotMatch(notes, /Nothing has changed|No policy|No program|no pod/, guard);
    }
  });
});
