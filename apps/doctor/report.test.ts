import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';

import { displayWidth } from '../../lib/output/table.ts';
import { examine, type ModeFacts, renderKernel } from './report.ts';
import {
  attachKinds,
  type Feature,
  type KernelFeatures,
  programKinds,
} from '../../lib/ebpf/features/feature.ts';

const yes: Feature = { available: true };
const refused: Feature = {
  available: false,
  reason: 'refused',
  detail:
    'The kernel answers EPERM to a process with CAP_BPF and CAP_PERFMON, though it came with Linux 5.5.',
};

function kernel(overrides: Partial<KernelFeatures> = {}): KernelFeatures {
  return {
    release: '6.12.1',
    arch: 'x64',
    libbpf: 'v1.1',
    btf: yes,
    btfSizeBytes: 5 * 2 ** 20,
    jit: true,
    unprivilegedBpfDisabled: 2,
    lockdown: undefined,
    lsms: undefined,
    capabilities: ['CAP_SYS_ADMIN'],
    inUserNamespace: false,
    cgroupVersions: [1, 2],
    ringBuffer: yes,
    probeReadKernel: yes,
    programs: Object.fromEntries(programKinds.map((kind) => [kind, yes])) as KernelFeatures['programs'],
    attach: Object.fromEntries(attachKinds.map((kind) => [kind, yes])) as KernelFeatures['attach'],
    ...overrides,
  };
}

const modes: readonly ModeFacts[] = [
  {
    name: 'best',
    unavailable: ({ attach }) => (attach.fexit.available ? undefined : 'fexit is refused'),
    blindSpots: [],
  },
  {
    name: 'plain',
    unavailable: ({ attach }) => (attach.raw_tracepoint.available ? undefined : 'no raw tracepoints'),
    blindSpots: [
      { name: 'metadata', what: 'stat and chmod', because: null },
      {
        name: 'denied',
        what: 'an open that is refused',
        because: 'only system calls that succeeded are seen',
      },
    ],
  },
];

const without = (...kinds: (keyof KernelFeatures['attach'])[]): KernelFeatures =>
  kernel({
    attach: { ...kernel().attach, ...Object.fromEntries(kinds.map((kind) => [kind, refused])) },
  });

describe('the mode that is used', () => {
  test('is the first that can run, with its blind spots', () => {
    assert.equal(examine(kernel(), modes).sensor.mode, 'best');
    const { sensor } = examine(without('fexit'), modes);
    assert.equal(sensor.mode, 'plain');
    assert.deepEqual(sensor.cannotSee, modes[1]?.blindSpots);
    assert.deepEqual(sensor.modes, [
      { name: 'best', unavailable: 'fexit is refused' },
      { name: 'plain', unavailable: null },
    ]);
  });

  test('is none when none can run', () => {
    const report = examine(without('fexit', 'raw_tracepoint'), modes);
    assert.equal(report.sensor.mode, null);
    assert.match(renderKernel(report, { widthColumns: 80, colour: false }), /No sensor mode can run here\./);
  });
});

describe('the text', () => {
  const text = (features: KernelFeatures, widthColumns = 80, colour = false) =>
    renderKernel(examine(features, modes), { widthColumns, colour });

  test('keeps within 80 columns, names every kind, and has no spaces at line ends', () => {
    const lsms = 'lockdown capability landlock yama apparmor tomoyo bpf ipe ima evm'.split(' ');
    const shown = text({ ...without('fentry', 'fexit', 'kprobe'), lsms });
    for (const line of shown.split('\n')) {
      assert.ok(displayWidth(line) <= 80, line);
      assert.equal(line, line.trimEnd());
    }
    for (const kind of [...programKinds, ...attachKinds]) {
      assert.match(shown, new RegExp(`^${kind} +(yes|no) `, 'm'));
    }
    assert.match(shown, /^Security modules +lockdown, .* bpf,\n {19}ipe, ima, evm$/m);
    assert.match(shown, /^fexit +no +5\.5 +refused\n {4}The kernel answers EPERM/m);
    assert.match(
      shown,
      /What plain cannot see:\n {2}- stat and chmod\n {2}- an open that is refused; only system/,
    );
    assert.ok(shown.endsWith('\n') && !shown.endsWith('\n\n'));
  });

  test('says an answer that neighbours share once', () => {
    const shown = text(without('fentry', 'fexit', 'kprobe'));
    assert.equal(shown.match(/answers EPERM/g)?.length, 2);
  });

  test('names missing capabilities, and what this process cannot know', () => {
    const shown = text(kernel({ capabilities: ['CAP_BPF'] }));
    assert.match(shown, /^Capabilities +missing CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN$/m);
    assert.match(shown, /^Lockdown +unknown to this process$/m);
    assert.match(text(kernel()), /^Capabilities +all required$/m);
  });

  test('tells lacking BTF and libbpf apart from having them', () => {
    const btf: Feature = { available: false, reason: 'no_btf', detail: 'There is no BTF here.' };
    const shown = text(kernel({ btf, btfSizeBytes: undefined, libbpf: undefined }));
    assert.match(shown, /^BTF +no\n {4}There is no BTF here\.$/m);
    assert.match(shown, /^libbpf +not installed/m);
    assert.match(text(kernel()), /^BTF +yes, 5\.0 MiB$/m);
  });

  test('is the same with colour, but for the colour', () => {
    const coloured = text(without('fexit'), 80, true);
    assert.ok(coloured.includes('\u001b['));
    assert.equal(stripVTControlCharacters(coloured), text(without('fexit')));
  });
});
