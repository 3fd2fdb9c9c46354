import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import type { KivePolicy } from '../api.ts';
import { misreadModes, parseFileMode } from './file-mode.ts';
import { compilePolicy } from './matching.ts';
import { movedTo, policyOf, trapOn } from './policy.fixture.ts';
import { PolicyScope } from './policy-scope.ts';
import { describeProblem, validatePolicy } from './validation.ts';

function problemsOf(more: object) {
  const policy = policyOf('p', { ...trapOn('/secret.txt'), ...more });
  return [...validatePolicy(policy).values()].flat();
}

suite('faults are reported by field', () => {
  for (const [more, field, why] of [
    [{ path: 'secret.txt' }, 'path', /does not start with \//],
    [{ path: '' }, 'path', /does not start with \//],
    [{ path: '/etc/../secret' }, 'path', /".."/],
    [{ path: '/..' }, 'path', /".."/],
    [{ path: '/etc/./secret' }, 'path', /"\."/],
    [{ path: '/etc/' }, 'path', /directory/],
    [{ path: '/' }, 'path', /directory/],
    [
      { path: '/proc/self/environ' },
      'path',
      /cannot be followed: \/proc\/self is another directory for each/,
    ],
    [{ path: '/proc/thread-self' }, 'path', /cannot be followed: \/proc\/thread-self is/],
    [{ path: '/se\0cret' }, 'path', /NUL/],
    [{ callback: 'sink:8080' }, 'callback', /not supported/],
    [{ callback: 'not a url' }, 'callback', /not a URL/],
    [{ callback: '/alerts' }, 'callback', /not a URL/],
    [{ callback: 'file:///etc/shadow' }, 'callback', /not supported/],
    [{ callback: 'https://user:hunter2@sink/' }, 'callback', /password/],
    [{ callbackSecret: 'hook' }, 'callbackSecret', /no callback/],
    [{ callback: '', callbackSecret: 'hook' }, 'callbackSecret', /no callback/],
    [{ callback: 'http://127.0.0.1/', callbackSecret: 'hook' }, 'callbackSecret', /plain http/],
    [{ callback: 'https://sink/', callbackSecret: '' }, 'callbackSecret', /not the name of a Secret/],
    [{ callback: 'https://sink/', callbackSecret: 'shop/hook' }, 'callbackSecret', /not the name/],
    [{ callback: 'https://sink/', callbackSecret: '..' }, 'callbackSecret', /not the name/],
    [{ callback: 'https://sink/', callbackSecret: 'a'.repeat(254) }, 'callbackSecret', /not the name/],
    [{ mode: '888' }, 'mode', /octal/],
    [{ mode: '' }, 'mode', /octal/],
    [{ mode: 888 }, 'mode', /octal/],
    [{ mode: 4.5 }, 'mode', /octal/],
    [{ mode: -444 }, 'mode', /octal/],
    [{ mode: 292 }, 'mode', /unquoted 0444/],
    [{ mode: 420 }, 'mode', /unquoted 0644/],
    [{ mode: 256 }, 'mode', /unquoted 0400/],
    [{ mode: 4755 }, 'mode', /setuid/],
    [{ mode: '2644' }, 'mode', /setgid/],
    [{ path: '/etc/ld.so.preload', create: true }, 'create', /used by the dynamic linker/],
    [{ path: '/root/.bashrc', create: true, mode: 666 }, 'create', /used by shells/],
    [{ matchAny: [] }, 'matchAny', /no container/],
    [{ matchAny: undefined }, 'matchAny', /no container/],
    [{ matchAny: [{ 'container-name': 'a(' }] }, 'matchAny[0].container-name', /missing/],
    [
      { matchAny: [{ containerName: 'a', 'container-name': 'b' }] },
      'matchAny[0].container-name',
      /the same field/,
    ],
    [{ matchAny: [{}] }, 'matchAny[0]', /every container/],
    [{ matchAny: [{ pod: 'a' }, { pod: undefined }] }, 'matchAny[1]', /every container/],
    [{ matchAny: [{ containerName: 'a(' }] }, 'matchAny[0].containerName', /missing/],
    [{ matchAny: [{ ip: '10.0.0.0/8' }] }, 'matchAny[0].ip', /not an IP address/],
    [{ matchAny: [{ ip: 'localhost' }] }, 'matchAny[0].ip', /not an IP address/],
    [{ matchAny: [{ host: false }] }, 'matchAny[0]', /every container/],
    [{ processes: {} }, 'processes', /names no programs/],
    [{ processes: { except: ['/a'], only: ['/b'] } }, 'processes', /has except and only/],
    [{ processes: { except: ['/a', 'vault'] } }, 'processes.except[1]', /does not start with/],
    [{ processes: { only: ['/usr/bin/'] } }, 'processes.only[0]', /directory/],
    [{ processes: { only: ['/usr/bin/*'] } }, 'processes.only[0]', /all files of a directory/],
    [{ processes: { only: ['/usr/../vault'] } }, 'processes.only[0]', /"\.\."/],
    [{ processes: { except: ['/proc/self/exe'] } }, 'processes.except[0]', /another directory for each/],
    [{ path: '/etc/*.conf' }, 'path', /a \* stands for files only at the end/],
    [{ path: '/etc/**/shadow' }, 'path', /a \* stands/],
    [{ path: '/etc/a**' }, 'path', /a \* stands/],
    [{ path: '/etc/***' }, 'path', /a \* stands/],
    [{ path: '/proc/self/*' }, 'path', /is another directory for each process/],
    [{ path: '/etc/app/*', create: true }, 'create', /all files of a directory/],
    [{ matchAny: [{ host: true, pod: 'a' }] }, 'matchAny[0].host', /the block also has pod, which the node/],
    [{ matchAny: [{ host: true, matchLabels: {} }] }, 'matchAny[0].host', /also has matchLabels/],
    [{ matchAny: [{ pod: 'a' }, { host: true }], create: true }, 'create', /nothing is created on the node/],
  ] as const) {
    test(JSON.stringify(more), () => {
      const [problem, ...others] = problemsOf(more);
      assert.deepEqual(others, []);
      assert.equal(problem?.field, `spec.traps[0].${field}`);
      assert.match(problem.why, why);
      assert.ok(problem.what !== '' && problem.next !== '');
      assert.ok(!describeProblem(problem).includes('hunter2'));
    });
  }

  test('a policy that works has no problems', () => {
    for (const more of [
      {},
      { callback: '' },
      { callback: 'http://my-callback.com/alerts' },
      { callback: 'https://[fd00::1]:8443/in?key=a' },
      { callback: 'https://sink/', callbackSecret: 'a'.repeat(253) },
      { path: '/..data/.x/...' },
      { path: '/proc/selfish' },
      { path: '/proc/1/environ' },
      { path: '/*' },
      { path: '/etc/app/**' },
      { matchAny: [{ pod: '' }] },
      { matchAny: [{ host: true }] },
      { processes: { except: ['/usr/bin/vault', '/..x'] } },
      { processes: { only: ['/usr/bin/curl'] } },
      { matchAny: [{ host: true }, { pod: 'a', host: false }], create: false },
      { matchAny: [{ containerName: '', ip: '', matchLabels: {} }] },
      { mode: 0 },
      { mode: '0444', create: true },
      { mode: 666, create: true },
      { mode: 1777, create: true },
      { path: '/etc/ld.so.preload' },
      { path: '/etc/shadow', create: false },
    ]) {
      assert.deepEqual(problemsOf(more), [], JSON.stringify(more));
    }
  });

  test('only policies of the system namespaces match the node itself, whatever namespaces may match all pods', () => {
    const policy = policyOf('p', trapOn('/a', { pod: 'x' }, { host: true }));
    for (const scope of [new PolicyScope(['tenant']), new PolicyScope(['*'])]) {
      assert.deepEqual([...validatePolicy(policy, scope)], []);
      assert.deepEqual([...validatePolicy(movedTo('rampart-system', policy), scope)], []);
      const [problem, ...others] = [...validatePolicy(movedTo('tenant', policy), scope).values()].flat();
      assert.deepEqual([problem?.field, others], ['spec.traps[0].matchAny[1].host', []]);
      assert.match(describeProblem(problem!), /Move the policy to kivebpf-system\.$/);
    }
  });

  test('a trap that is there twice, however it is written', () => {
    const [one, same] = [
      trapOn('/a', { pod: 'x', namespace: 'y' }),
      { create: false, callback: '', ...trapOn('/a', { namespace: 'y', pod: 'x' }) },
    ];
    const policy = policyOf('p', one, trapOn('/b'), same);
    assert.deepEqual([...validatePolicy(policy).keys()], [2]);
    assert.deepEqual(
      compilePolicy(policy).traps.map(({ index }) => index),
      [0, 1],
    );
  });

  test('all faults of a trap are reported at once', () => {
    assert.deepEqual(
      problemsOf({ path: 'x', mode: 9, callback: 'x', matchAny: [{}, { ip: 'x' }] }).map(
        ({ field }) => field,
      ),
      ['path', 'callback', 'mode', 'matchAny[0]', 'matchAny[1].ip'].map((field) => `spec.traps[0].${field}`),
    );
  });

  test('no policy makes it throw', () => {
    fc.assert(
      fc.property(fc.webUrl(), fc.string(), fc.string(), (callback, path, containerName) => {
        const policy: KivePolicy = policyOf('p', {
          path,
          callback: callback + path,
          matchAny: [{ containerName, ip: path }],
        });
        compilePolicy(policy);
      }),
    );
  });
});

suite('modes', () => {
  test('numbers and texts have octal digits', () => {
    for (const [mode, bits] of [
      [444, 0o444],
      ['444', 0o444],
      ['0444', 0o444],
      ['0o444', 0o444],
      [0, 0],
      [44, 0o44],
      [4755, 0o4755],
      [511, 0o511],
      [400, 0o400],
      [777, 0o777],
    ] as const) {
      assert.deepEqual(parseFileMode(mode), { bits }, String(mode));
    }
  });

  test('a mode with a leading 0, as YAML reads it, is never silently another mode', () => {
    // Those of which both readings are usual: the digits count, as the design document has it.
    const both = [400, 500, 510, 511];
    for (const bits of [0o400, 0o440, 0o444, 0o600, 0o640, 0o644, 0o660, 0o664, 0o666, 0o700, 0o750, 0o755]) {
      const mode = parseFileMode(bits);
      assert.ok('why' in mode, bits.toString(8));
      assert.ok(mode.why.includes(`0${bits.toString(8)}`));
    }
    for (const value of both) assert.ok(!misreadModes.includes(value));
    assert.deepEqual(parseFileMode(0o777), { bits: 0o511 });
  });
});
