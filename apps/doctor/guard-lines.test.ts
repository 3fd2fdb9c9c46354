import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Machine } from '../../guard/machine.ts';
import {
  attachKinds,
  type Feature,
  type KernelFeatures,
  programKinds,
} from '../../lib/ebpf/features/feature.ts';
import { guards } from '../guards.ts';
import { diagnosed, renderGuards } from './guard-lines.ts';

const yes: Feature = { available: true };
const no: Feature = { available: false, reason: 'refused', detail: 'It is refused.' };

function kernel(feature: Feature): KernelFeatures {
  return {
    ...{ release: '6.12.1', arch: 'x64', libbpf: 'v1.1', btf: feature, btfSizeBytes: 1, jit: true },
    ...{ unprivilegedBpfDisabled: 2, lockdown: undefined, lsms: undefined, capabilities: [] },
    ...{ inUserNamespace: false, cgroupVersions: [2], ringBuffer: feature, probeReadKernel: feature },
    programs: Object.fromEntries(programKinds.map((kind) => [kind, feature])) as KernelFeatures['programs'],
    attach: Object.fromEntries(attachKinds.map((kind) => [kind, feature])) as KernelFeatures['attach'],
  };
}

const whole: Machine = {
  ...{ kernel: kernel(yes), isRoot: true, noRuntime: undefined },
  ...{ dataDirectory: '/data', freeBytes: 2 ** 40, inotify: { watches: 2 ** 20, instances: 128 } },
  signal: new AbortController().signal,
};

async function verdictOf(name: string, machine: Partial<Machine>): Promise<string> {
  const guard = guards.find((one) => one.name === name);
  const examine = await guard?.examine?.();
  assert.ok(examine);
  const { verdict, obstacles, limits } = diagnosed(name, await examine({ ...whole, ...machine }));
  return [verdict, ...obstacles, ...limits].join('; ');
}

test('each guard says what it needs of a machine', async () => {
  const [nothing, noRuntime] = [{ kernel: kernel(no) }, { noRuntime: 'no answer' }];
  assert.match(await verdictOf('file-access', {}), /^limited; does not see: [a-z-]/);
  assert.match(await verdictOf('file-access', nothing), /^cannot; no sensor mode works: .*refused/);
  assert.match(
    await verdictOf('file-access', noRuntime),
    /^limited; watches files of this machine, and none of pods: no container runtime/,
  );
  assert.equal(await verdictOf('file-integrity', {}), 'works');
  assert.match(await verdictOf('file-integrity', nothing), /^limited; does not know who changed a file: /);
  assert.match(await verdictOf('file-integrity', { isRoot: false }), /^cannot; only root/);
  assert.match(
    await verdictOf('file-integrity', { inotify: { watches: 8192, instances: 128 } }),
    /^limited; follows 4096 directories at most \(fs\.inotify\.max_user_watches is 8192\)/,
  );
  assert.match(
    await verdictOf('file-integrity', { freeBytes: 5 * 2 ** 20 }),
    /^limited; \/data has only 5 MiB left$/,
  );
  assert.equal(await verdictOf('policy-audit', {}), 'works');
  assert.match(
    await verdictOf('bpf-programs', nothing),
    /^cannot; .*does not run fentry, .*: It is refused\./,
  );
  assert.match(await verdictOf('bpf-programs', { isRoot: false }), /^cannot; only root/);
  assert.match(
    await verdictOf('bpf-programs', { kernel: { ...kernel(yes), libbpf: undefined } }),
    /^cannot; libbpf\.so\.1 is missing/,
  );
});

test('a line for each guard, no longer than the terminal; what does not fit is below, whole', () => {
  const long = 'a reason that goes on for much longer than one line of a terminal has room for';
  const text = renderGuards(
    [
      diagnosed('one', { mode: 'best', obstacles: [], limits: [] }),
      diagnosed('another', { mode: 'plain', obstacles: [], limits: [long, 'and \u001b[31m more'] }),
      diagnosed('third', { obstacles: ['no kernel'], limits: [long] }),
    ],
    { widthColumns: 60, colour: false },
  );
  const lines = text.split('\n');
  assert.equal(lines[0], 'one      works              by best');
  assert.match(lines[1] ?? '', /^another  works with limits  by plain; a reason .* \.\.\.$/);
  assert.equal(lines[2], 'third    cannot work        no kernel');
  assert.equal(lines[3], '');
  assert.equal(lines[4], 'another works by plain:');
  for (const line of lines) assert.ok(line.length <= 60, line);
  assert.ok(text.replaceAll(/\s+/g, ' ').includes(`- ${long} - and \\x1b[31m more`), text);
});
