import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { policyModule } from '../policies.fixture.ts';
import type { GuestPolicy } from '../messages.ts';
import { prepareModule } from '../prepare.ts';
import { GuestFailure } from './failure.ts';
import type { GuestHost } from './host.ts';
import { WapcPolicy } from './wapc.ts';
import { Instances } from './instance.ts';

const host: GuestHost = { ask: () => new Uint8Array(), say: () => undefined };

/** Counts the instances of the policy that remembers. */
function instancesOf(settings: object, memoryPages = 1000) {
  const { bytes, ...prepared } = prepareModule(policyModule('memory', 'wapc'), memoryPages);
  const module = new WebAssembly.Module(bytes);
  const guestPolicy: GuestPolicy = {
    ...prepared,
    id: 1,
    runtime: 'wapc',
    module,
    settings: '{}',
    memoryPages,
    answerBytes: 1000,
  };
  const policy = new WapcPolicy(guestPolicy);
  const ask = (name: string): string => {
    const input = { request: { object: { metadata: { name } } }, settings };
    return policy.run('validate', JSON.stringify(input), host);
  };
  return { ask, guestPolicy, module };
}

const fresh = '{"accepted":false,"message":"call 1 after nobody, global 1"}';

suite('instances of a policy', () => {
  test('one is put back and used again, and knows nothing of what it was asked before', () => {
    const { module, guestPolicy } = instancesOf({});
    let started = 0;
    const instances = new Instances({ ...guestPolicy, memoryPages: 100 }, () => {
      started++;
      const instance = new WebAssembly.Instance(module, stubs(module));
      return { guest: instance, instance };
    });
    const secret = new TextEncoder().encode('a secret of this request');
    const at = 40_000;
    for (let left = 5; left > 0; left--) {
      instances.with(({ exports }) => {
        const bytes = new Uint8Array((exports['memory'] as WebAssembly.Memory).buffer);
        assert.equal(Buffer.from(bytes).indexOf(secret), -1);
        bytes.set(secret, at);
      });
    }
    assert.equal(started, 1);
  });

  test('an instance whose memory grew has its former size for the guest, and its former content', () => {
    const { module, guestPolicy } = instancesOf({});
    let started = 0;
    const instances = new Instances({ ...guestPolicy, memoryPages: 100 }, () => {
      started++;
      const instance = new WebAssembly.Instance(module, stubs(module));
      return { guest: instance, instance };
    });
    for (let left = 4; left > 0; left--) {
      instances.with(({ exports }) => {
        const memory = exports['memory'] as WebAssembly.Memory;
        const before = new Uint8Array(memory.buffer);
        assert.equal(before.subarray(65_536).indexOf(1), -1);
        if (memory.buffer.byteLength === 65_536) memory.grow(3);
        new Uint8Array(memory.buffer).fill(1, 65_536);
      });
    }
    assert.equal(started, 1);
  });

  test('one that has grown over 8 MiB is not worth it', () => {
    const { module, guestPolicy } = instancesOf({});
    let started = 0;
    const instances = new Instances({ ...guestPolicy, memoryPages: 1000 }, () => {
      started++;
      const instance = new WebAssembly.Instance(module, stubs(module));
      return { guest: instance, instance };
    });
    for (let left = 3; left > 0; left--) {
      instances.with(({ exports }) => (exports['memory'] as WebAssembly.Memory).grow(128));
    }
    assert.equal(started, 3);
  });

  test('one that failed is not used again', () => {
    const { module, guestPolicy } = instancesOf({});
    let started = 0;
    const instances = new Instances({ ...guestPolicy, memoryPages: 100 }, () => {
      started++;
      const instance = new WebAssembly.Instance(module, stubs(module));
      return { guest: instance, instance };
    });
    const failure = new GuestFailure('answer', 'no');
    for (let left = 3; left > 0; left--) {
      assert.throws(
        () =>
          instances.with(() => {
            throw failure;
          }),
        failure,
      );
    }
    assert.equal(started, 3);
  });

  test('a policy that grows its memory each time does not see that it did', () => {
    const { ask } = instancesOf({ grow: true });
    for (let number = 0; number < 20; number++) assert.equal(ask(`pod-${number}`), fresh);
  });
});

function stubs(module: WebAssembly.Module): WebAssembly.Imports {
  const found: WebAssembly.Imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module))
    (found[from] ??= {})[name] = () => 0;
  return found;
}
