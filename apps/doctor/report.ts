import { printable } from '../../lib/output/printable.ts';
import {
  ebpfCapabilities,
  type EbpfCapability,
  missingCapabilities,
} from '../../lib/ebpf/features/capabilities.ts';
import { attachNeeds } from '../../lib/ebpf/features/attach.ts';
import { programProbes } from '../../lib/ebpf/features/programs.ts';
import type { DiagnosedGuard } from './guard-lines.ts';
import type { NetworkPolicyMachine } from '../../guards/network-policy/node/machine.ts';
import {
  indentText,
  paint,
  renderTable,
  type Row,
  wrapText,
  type RenderOptions,
} from '../../lib/output/table.ts';
import {
  attachKinds,
  type Feature,
  type KernelFeatures,
  programKinds,
} from '../../lib/ebpf/features/feature.ts';

interface BlindSpot {
  readonly name: string;
  readonly what: string;
  readonly because: string | null;
}

export interface ModeFacts {
  readonly name: string;
  /** Why the mode cannot run with these features; undefined if it can. */
  unavailable(features: KernelFeatures): string | undefined;
  readonly blindSpots: readonly BlindSpot[];
}

/**
 * `rampart doctor -o json`. Within `rampart.dev/doctor/v1`, fields keep their names and meanings; new ones
 * may be added.
 *
 * - `guards`: whether each works on this machine: `works`, `limited` or `cannot`; `obstacles` and `limits`
 *   are clauses for people.
 * - `machine`: the common requirements. `runtime` is null without a container runtime, `api.problem` null
 *   if the port is free.
 * - `kernel`: everything that was probed, see {@link KernelFeatures}. A field this process cannot know is
 *   absent. Each feature is `{"available":true}` or `{"available":false,"reason":WORD,"detail":SENTENCE}`
 *   with a word of `featureReasons`.
 * - `missingCapabilities`: those that eBPF requires and this process lacks.
 * - `sensor.mode`: the mode that `rampart watch` takes, null without a usable one.
 * - `sensor.cannotSee`: what that mode cannot see: `name` is a stable word, `because` null without a
 *   reason.
 * - `network`: the requirements of network policies, and the chosen backend, null if none works; see {@link
 *   NetworkPolicyMachine}.
 * - `sensor.modes`: all modes, best first; `unavailable` is the reason, null when the mode can run.
 */
export interface DoctorReport extends KernelReport {
  readonly guards: readonly DiagnosedGuard[];
  readonly machine: {
    readonly runtime: string | null;
    readonly api: { readonly address: string; readonly problem: string | null };
    readonly data: { readonly directory: string; readonly freeBytes: number };
    readonly inotify: { readonly watches: number; readonly instances: number } | null;
  };
  readonly network?: NetworkPolicyMachine;
}

/** The part that `--kernel` shows. */
export interface KernelReport {
  readonly schemaVersion: 1;
  readonly kernel: KernelFeatures;
  readonly missingCapabilities: readonly EbpfCapability[];
  readonly sensor: {
    readonly mode: string | null;
    readonly cannotSee: readonly BlindSpot[];
    readonly modes: readonly { readonly name: string; readonly unavailable: string | null }[];
  };
}

/** @param modes - Best first; the first one that can run is the one that is used. */
export function examine(kernel: KernelFeatures, modes: readonly ModeFacts[]): KernelReport {
  const used = modes.find((mode) => mode.unavailable(kernel) === undefined);
  return {
    schemaVersion: 1,
    kernel,
    missingCapabilities: missingCapabilities(kernel.capabilities, ebpfCapabilities),
    sensor: {
      mode: used?.name ?? null,
      cannotSee: used?.blindSpots ?? [],
      modes: modes.map((mode) => ({ name: mode.name, unavailable: mode.unavailable(kernel) ?? null })),
    },
  };
}

/** The report for people, ending with a newline. */
export function renderKernel(report: KernelReport, options: RenderOptions): string {
  const { kernel } = report;
  return (
    [
      renderTable(headRows(report, options.widthColumns), options),
      renderFeatures(
        'PROGRAM TYPE',
        programKinds.map((kind) => [kind, programProbes[kind].since, kernel.programs[kind]]),
        options,
      ),
      renderFeatures(
        'ATTACH KIND',
        attachKinds.map((kind) => [kind, attachNeeds[kind].since, kernel.attach[kind]]),
        options,
      ),
      renderSensor(report, options),
      '',
    ]
      .join('\n\n')
      .trimEnd() + '\n'
  );
}

function headRows(report: KernelReport, widthColumns: number): readonly Row[] {
  const { kernel, missingCapabilities: missing } = report;
  const btfMiB = ((kernel.btfSizeBytes ?? 0) / 2 ** 20).toFixed(1);
  const facts: readonly (readonly [string, string, string?])[] = [
    ['Kernel', `${kernel.release} (${kernel.arch})`],
    ['libbpf', kernel.libbpf ?? 'not installed: apt-get install libbpf1'],
    kernel.btf.available ? ['BTF', `yes, ${btfMiB} MiB`] : ['BTF', 'no', kernel.btf.detail],
    ['JIT', choose(kernel.jit, 'on', 'off')],
    kernel.ringBuffer.available ? ['Ring buffer', 'yes'] : ['Ring buffer', 'no', kernel.ringBuffer.detail],
    kernel.probeReadKernel.available
      ? ['Kernel memory', 'readable']
      : ['Kernel memory', 'not readable', kernel.probeReadKernel.detail],
    ['Unprivileged eBPF', choose(kernel.unprivilegedBpfDisabled, 'off', 'allowed')],
    ['Lockdown', kernel.lockdown ?? unknown],
    ['Security modules', kernel.lsms?.join(', ') ?? unknown],
    ['Control groups', kernel.cgroupVersions.map((version) => `v${version}`).join(' and ') || 'not mounted'],
    ['Capabilities', missing.length === 0 ? 'all required' : `missing ${missing.join(', ')}`],
  ];
  const nameColumns = Math.max(...facts.map(([name]) => name.length)) + 2;
  return facts.flatMap(([name, value, note]) =>
    wrapText(value, widthColumns - nameColumns).map((line, index, lines) => ({
      cells: [{ text: index === 0 ? name : '', style: 'bold' }, line],
      note: index === lines.length - 1 ? note : undefined,
    })),
  );
}

const unknown = 'unknown to this process';

function choose(value: boolean | number | undefined, yes: string, no: string): string {
  return value === undefined ? unknown : value ? yes : no;
}

function renderFeatures(
  title: string,
  features: readonly (readonly [name: string, since: string, feature: Feature])[],
  options: RenderOptions,
): string {
  const rows = features.map(([name, since, feature], index): Row => {
    if (feature.available) return { cells: [name, { text: 'yes', style: 'green' }, since, ''] };
    const { reason, detail } = feature;
    // Consecutive equal answers are printed once.
    const next = features[index + 1]?.[2];
    const repeated =
      next !== undefined && !next.available && next.reason === reason && next.detail === detail;
    return {
      cells: [name, { text: 'no', style: 'red' }, since, reason],
      note: repeated ? undefined : detail,
    };
  });
  return renderTable(rows, { ...options, head: [title, 'HERE', 'SINCE', 'REASON'] });
}

function renderSensor(report: KernelReport, options: RenderOptions): string {
  const { sensor } = report;
  const { widthColumns, colour } = options;
  const lines =
    sensor.mode === null
      ? [paint('red', 'No sensor mode can run here.', colour)]
      : [`rampart watch uses the sensor mode ${paint('green', sensor.mode, colour)}.`];
  for (const { name, unavailable } of sensor.modes) {
    if (unavailable !== null) lines.push(indentText(`not ${name}: ${unavailable}`, 2, widthColumns));
  }
  if (sensor.mode !== null) {
    lines.push(
      sensor.cannotSee.length === 0 ? 'It sees every access.' : `What ${sensor.mode} cannot see:`,
      ...sensor.cannotSee.map(({ what, because }) => {
        const sentence = because === null ? what : `${what}; ${because}`;
        return `  - ${indentText(sentence, 4, widthColumns).trimStart()}`;
      }),
    );
  }
  return lines.join('\n');
}

/** The requirements of network policies for people, ending with a newline. */
export function renderNetwork(
  { backend, facts, others }: NetworkPolicyMachine,
  options: RenderOptions,
): string {
  const rows = facts.map(({ name, available, detail }) => ({
    cells: [
      name,
      available ? { text: 'yes', style: 'green' as const } : { text: 'no', style: 'red' as const },
    ],
    note: detail,
  }));
  const verdict =
    backend === null
      ? paint('red', 'Network policies cannot be programmed here.', options.colour)
      : `Network policies use ${paint('green', backend, options.colour)}.`;
  const list = others.map(
    (one) => `  - ${indentText(printable(one), 4, options.widthColumns).trimStart()}\n`,
  );
  const beside = others.length === 0 ? '' : `Other rules in this kernel:\n${list.join('')}`;
  return `${renderTable(rows, { ...options, head: ['NETWORK POLICY', 'HERE'] })}\n\n${verdict}\n${beside}`;
}
