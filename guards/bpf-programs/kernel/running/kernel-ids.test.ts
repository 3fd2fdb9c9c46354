import assert from 'node:assert/strict';
import { constants } from 'node:os';
import { suite, test } from 'node:test';

import { Descriptor, type Outcome } from '../../../../lib/ebpf/bpf-call.ts';
import { obstacle } from '../lab.fixture.ts';
import { idsOf, openById } from './kernel-ids.ts';

suite('lists the objects of the kernel by ID', { skip: obstacle() ?? false }, () => {
  test('an ID that nothing has, and one that something has', () => {
    // The kernel counts up from 1 and never comes so far.
    for (const kind of ['link', 'map', 'program'] as const)
      assert.equal(openById(kind, 0x7fff_fff0), undefined);
    for (const id of idsOf('program')) {
      using program = openById('program', id);
      assert.ok(program === undefined || program instanceof Descriptor);
    }
  });

  // The kernel gives this answer only for a moment that cannot be prolonged: here a stand-in gives it.
  test('a link that is just being attached is passed over, and what is not allowed is an error', () => {
    const { EAGAIN, EPERM } = constants.errno;
    const answers = (errno: number) => (): Outcome => ({ errno, log: '' });
    assert.equal(openById('link', 7, answers(EAGAIN)), undefined);
    assert.throws(() => openById('link', 7, answers(EPERM)), /cannot open eBPF link 7.*EPERM/s);
  });
});
