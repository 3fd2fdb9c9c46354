import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';

import type { Outcome } from './desired.ts';
import { ProgramFailure } from './failure.ts';
import { cable, Lab, NAME, obstacle, ownNetwork } from './lab.fixture.ts';
import { Refusals } from './refusals.ts';
import type { Feature, KernelFeatures } from '../../../lib/ebpf/features/feature.ts';

test('a refusal names what the kernel lacks, once asked for each kind', () => {
  const asked: string[] = [];
  const no = (reason: string, detail: string) => ({ available: false, reason, detail }) as Feature;
  const refusals = new Refusals((kinds) => {
    asked.push(kinds.join());
    return {
      programs: {
        kprobe: { available: true },
        fentry: no('no_btf', 'There is no BTF.'),
        xdp: { available: true },
      },
      attach: { kprobe: no('no_kprobes', 'ENOENT.'), fentry: { available: true }, xdp: { available: true } },
    } as unknown as KernelFeatures;
  });
  const failure = new ProgramFailure('load', 'It does not load: EPERM');
  const kprobe = refusals.explain(failure, 'kprobe');
  assert.match(
    kprobe.message,
    /^It does not load: EPERM\nThis kernel does not run kprobe programs \(no_kprobes\): ENOENT\. It needs a kernel with CONFIG_KPROBES/,
  );
  // A temporary refusal is no evidence about the kernel.
  const passing = new ProgramFailure('attach', 'another program is there', true);
  assert.equal(refusals.explain(passing, 'kprobe'), passing);
  assert.match(
    refusals.explain(failure, 'fentry').message,
    /\(no_btf\): There is no BTF\. It needs a kernel with CONFIG_DEBUG_INFO_BTF/,
  );
  // If the kernel has the feature, the failure is complete; and a missing target does not need an
  // explanation.
  assert.equal(refusals.explain(failure, 'xdp'), failure);
  const target = new ProgramFailure('target', 'no such interface');
  assert.equal(refusals.explain(target, 'kprobe'), target);
  refusals.explain(failure, 'kprobe');
  assert.deepEqual(asked, ['kprobe', 'fentry', 'xdp']);
});

const skip =
  obstacle() ?? (spawnSync('setpriv', ['--version']).status === 0 ? false : 'setpriv is not installed');

suite('with few capabilities', { skip }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  /** The outcomes in a process that has only these. */
  function applied(lab: Lab, capabilities: readonly string[]): Readonly<Record<string, Outcome>> {
    const file = (name: string): string => JSON.stringify(join(import.meta.dirname, name));
    const program = `
      import { openProgramHost } from ${file('host.ts')};
      import { desired, tc, tcx, xdp } from ${file('lab.fixture.ts')};
      import { createLogger } from ${file('../../../lib/telemetry/log.ts')};
      const host = await openProgramHost({
        bpffs: ${JSON.stringify(lab.bpffs)}, name: ${JSON.stringify(NAME)},
        stateDirectory: ${JSON.stringify(lab.state)}, logger: createLogger({ level: 'silent' }),
      });
      const wanted = [desired('x', xdp('in0')), desired('y', xdp('in0')), desired('t', tc('in0', 'ingress'))];
      await host.apply(wanted);
      const outcomes = await host.apply(wanted.toReversed().map((one, at) => ({ ...one, name: String(at) })));
      console.log(JSON.stringify(Object.fromEntries(outcomes)));`;
    const set = ['-all', ...capabilities.map((name) => `+${name}`)].join();
    const command = [
      `--bounding-set=${set}`,
      '--inh-caps=-all',
      '--no-new-privs',
      process.execPath,
      '--input-type=module',
      '-e',
      program,
    ];
    return JSON.parse(execFileSync('setpriv', command, { encoding: 'utf8' })) as Record<string, Outcome>;
  }

  test('CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are enough for XDP and TC', async () => {
    await using lab = new Lab();
    const outcomes = applied(lab, ['bpf', 'net_admin', 'perfmon', 'dac_override']);
    for (const outcome of Object.values(outcomes))
      assert.equal(outcome.state, 'loaded', JSON.stringify(outcome));
    await lab.host();
  });

  test('a missing capability is named', async () => {
    await using lab = new Lab();
    const { x } = applied(lab, ['net_admin', 'dac_override']);
    assert.ok(x?.state === 'failed' && x.reason === 'load');
    assert.match(
      x.message,
      /This kernel does not run xdp programs \(missing_capability\): EPERM: needs CAP_BPF/,
    );
  });
});
