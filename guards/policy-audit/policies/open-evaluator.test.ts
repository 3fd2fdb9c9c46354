import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { digestOf } from '../../../lib/oci/digest.ts';
import type { FetchedModule } from '../modules/modules.ts';
import type { HostCalls } from '../engine/evaluator.ts';
import { openEvaluator, type OpenEvaluatorOptions } from './open-evaluator.ts';
import type { KindName } from '../engine/host-calls/cluster-reader.ts';
import { isCelModule, type ModuleProgram } from '../engine/program.ts';
import { podNamed, requestFor } from '../engine/requests.fixture.ts';

const policies = join(import.meta.dirname, '../../../test/policies');
const noHostCalls: HostCalls = { call: () => Promise.reject(new Error('not granted')) };

function optionsWith(asked: (readonly KindName[])[] = []): OpenEvaluatorOptions {
  return {
    modules: {
      fetch: async (url): Promise<FetchedModule> => {
        const bytes = await readFile(join(policies, url)).catch(() => {
          throw new RampartError(errorCodes.NOT_FOUND, { what: `${url} does not exist` });
        });
        return { bytes, digest: digestOf(bytes) };
      },
    },
    hostCalls: (allowed) => {
      asked.push(allowed);
      return noHostCalls;
    },
  };
}

function program(
  module: string,
  settings: Record<string, unknown>,
  more: Partial<ModuleProgram> = {},
): ModuleProgram {
  return { type: 'module', module, settings, contextAware: [], deadlineMs: undefined, ...more };
}

const notRoot = program('registry.example/policies/cel-policy:v1', {
  validations: [{ expression: 'object.metadata.name != "root"', message: 'root is denied' }],
});
const labelled = program('labels.wapc.wasm', { required: ['app'] });

suite('opening of policies', () => {
  test('cel-policy runs without its module, from whichever registry', async () => {
    await using policy = await openEvaluator(notRoot, optionsWith());
    assert.equal(policy.runtime, 'cel');
    assert.equal(policy.digests.size, 0);
    assert.equal((await policy.evaluate(requestFor(podNamed('root')))).message, 'root is denied');
    for (const url of [
      'registry://ghcr.example/a/cel-policy:v1',
      'cel-policy',
      'https://h/cel-policy@sha256:00',
    ]) {
      assert.ok(isCelModule(url), url);
    }
    for (const url of [
      'registry://ghcr.example/my-cel-policy:v1',
      'file:///cel-policy.wasm',
      'h/cel-policy/other:v1',
    ]) {
      assert.ok(!isCelModule(url), url);
    }
  });

  test('expressions of a ValidatingAdmissionPolicy', async () => {
    await using policy = await openEvaluator(
      { type: 'expressions', settings: { validations: [{ expression: 'object.metadata.name != "root"' }] } },
      optionsWith(),
    );
    assert.equal((await policy.evaluate(requestFor(podNamed('root')))).allowed, false);
    assert.equal((await policy.evaluate(requestFor(podNamed('web')))).allowed, true);
  });

  test('a module, with its digest', async () => {
    await using policy = await openEvaluator(labelled, optionsWith());
    assert.equal(policy.runtime, 'wapc');
    assert.deepEqual(
      [...policy.digests],
      [['', digestOf(await readFile(join(policies, 'labels.wapc.wasm')))]],
    );
    assert.equal((await policy.evaluate(requestFor(podNamed('web')))).allowed, true);
  });

  test('a group of both kinds, each member with what it may read', async () => {
    const asked: (readonly KindName[])[] = [];
    const pods = [{ apiVersion: 'v1', kind: 'Pod' }];
    await using policy = await openEvaluator(
      {
        type: 'group',
        expression: 'named() && labelled()',
        message: 'neither',
        members: new Map([
          ['named', notRoot],
          ['labelled', { ...labelled, settings: { required: ['team'] }, contextAware: pods }],
        ]),
      },
      optionsWith(asked),
    );
    assert.deepEqual(asked, [[], pods]);
    assert.deepEqual([...policy.digests.keys()], ['labelled']);
    const verdict = await policy.evaluate(requestFor(podNamed('web')));
    assert.equal(verdict.message, 'neither');
    assert.deepEqual(verdict.causes, [{ field: 'spec.policies.labelled', message: 'label team is missing' }]);
  });

  test('a group with a mutating member is reported as mutating', async () => {
    await using policy = await openEvaluator(
      {
        type: 'group',
        expression: 'owner()',
        message: 'm',
        members: new Map([['owner', program('owner.wapc.wasm', {})]]),
      },
      optionsWith(),
    );
    const { valid, message } = await policy.validateSettings();
    assert.equal(valid, false);
    assert.match(message ?? '', /mutation is not allowed/);
  });

  test('a missing module is an error, alone and in a group', async () => {
    const missing = program('none.wasm', {});
    const members = new Map([
      ['a', labelled],
      ['b', missing],
    ]);
    for (const each of [
      missing,
      { type: 'group', expression: 'a() && b()', message: 'm', members } as const,
    ]) {
      await assert.rejects(openEvaluator(each, optionsWith()), { code: errorCodes.NOT_FOUND });
    }
  });

  test('errors of a module have its URI, also for a member of a group', async () => {
    const page = Buffer.from('<!-- us -->\n<!DOCTYPE html><html><body>Sign in</body></html>');
    const empty = Buffer.from('\0asm\x01\0\0\0');
    const modules = {
      fetch: (url: string) => {
        if (url.includes('refused')) throw new RampartError(errorCodes.PRIVILEGE, { what: 'no entry' });
        return Promise.resolve({ bytes: url.includes('page') ? page : empty, digest: '' });
      },
    };
    for (const [module, why] of [
      ['registry://r.example/empty:v1', /^registry:\/\/r\.example\/empty:v1: cannot determine the runtime/],
      ['https://r.example/refused.wasm', /^https:\/\/r\.example\/refused\.wasm: no entry$/],
    ] as const) {
      const members = new Map([
        ['a', notRoot],
        ['b', program(module, {})],
      ]);
      for (const each of [
        program(module, {}),
        { type: 'group', expression: 'a() && b()', message: 'm', members } as const,
      ])
        await assert.rejects(openEvaluator(each, { ...optionsWith(), modules }), (error: Error) => {
          assert.match(error.message, why);
          return true;
        });
    }
  });

  test('the time limit of a policy replaces that of its caller, be it shorter or longer', async () => {
    const list = JSON.stringify(Array.from({ length: 50 }, (_, index) => index));
    const expression = 'variables.l.all(a, variables.l.all(b, variables.l.all(c, a + b + c >= 0)))';
    const long = {
      variables: [{ name: 'l', expression: list }],
      validations: [{ expression }, { expression: 'true' }],
    };
    const evaluated = async (more: Partial<ModuleProgram>) => {
      const one = program('cel-policy', long, more);
      const group = {
        type: 'group',
        expression: 'a()',
        message: 'no',
        members: new Map([['a', one]]),
      } as const;
      for (const each of [one, group]) {
        await using policy = await openEvaluator(each, optionsWith());
        assert.ok((await policy.evaluate(requestFor(podNamed('web')), { deadlineMs: 1 })).allowed);
      }
    };
    await assert.rejects(evaluated({}), { name: 'EvaluationError', why: 'deadline' });
    await evaluated({ deadlineMs: 60_000 });
    await using policy = await openEvaluator(
      program('unruly.wapc.wasm', { do: 'spin' }, { deadlineMs: 50 }),
      optionsWith(),
    );
    await assert.rejects(policy.evaluate(requestFor(podNamed('web')), { deadlineMs: 60_000 }), {
      name: 'EvaluationError',
      why: 'deadline',
    });
  });
});
