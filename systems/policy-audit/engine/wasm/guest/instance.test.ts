import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { policyModule } from '../policies.fixture.ts';
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
  const policy = new WapcPolicy({
    ...prepared,
    id: 1,
    runtime: 'wapc',
    module,
    settings: '{}',
    memoryPages,
    answerBytes: 1000,
  });
  const ask = (name: string): string => {
    const input = { request: { object: { metadata: { name } } }, settings };
    return policy.run('validate', JSON.stringify(input), host);
  };
  return { ask, prepared, module };
}

const fresh = '{"accepted":false,"message":"call 1 after nobody, global 1"}';

suite('instances of a policy', () => {
  test('one is put back and used again, and knows nothing of what it was asked before', () => {
    const { module, prepared } = instancesOf({});
    let started = 0;
    const instances = new Instances({ ...prepared, memoryPages: 100 }, () => {
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

  test('one whose memory grew is not used again, and the next has more to begin with', () => {
    const { module, prepared } = instancesOf({});
    const sizes: number[] = [];
    const extra: number[] = [];
    const instances = new Instances({ ...prepared, memoryPages: 100 }, (extraPages) => {
      extra.push(extraPages);
      const instance = new WebAssembly.Instance(module, stubs(module));
      if (extraPages > 0) (instance.exports['memory'] as WebAssembly.Memory).grow(extraPages);
      return { guest: instance, instance };
    });
    /** An allocator that takes what there is, up to four pages, and grows where there is less. */
    const use = () =>
      instances.with(({ exports }) => {
        const memory = exports['memory'] as WebAssembly.Memory;
        const lacking = 4 - memory.buffer.byteLength / 65_536;
        if (lacking > 0) memory.grow(lacking);
        sizes.push(memory.buffer.byteLength / 65_536);
      });
    for (let left = 4; left > 0; left--) use();
    assert.deepEqual(extra, [0, 3]);
    assert.deepEqual(sizes, [4, 4, 4, 4]);
  });

  test('one that failed is not used again', () => {
    const { module, prepared } = instancesOf({});
    let started = 0;
    const instances = new Instances({ ...prepared, memoryPages: 100 }, () => {
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

  test('a policy that grows its memory each time is asked by a new instance each time', () => {
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
