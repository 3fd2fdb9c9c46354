import type { Guard } from '../../guard/guard.ts';
import type { Diagnosis } from '../../guard/machine.ts';
import { selectGuards } from '../../guard/run-guards.ts';
import { messageOf, RampartError } from '../../lib/errors/errors.ts';
import { printDocument } from '../../lib/cli/document.ts';
import { refuseEmpty } from '../../lib/cli/options.ts';
import { outputOptions } from '../../lib/cli/output.ts';
import { stopSignal } from '../../lib/cli/process.ts';
import { blindSpots, sensorModes } from '../../lib/sensor/modes.ts';
import type { NetworkPolicyMachine } from '../../guards/network-policy/node/machine.ts';
import type { DoctorOptions } from './command.ts';
import { type DiagnosedGuard, diagnosed, renderGuards, renderMachine } from './guard-lines.ts';
import { type MachineFacts, readMachine } from './machine.ts';
import { type DoctorReport, examine, type ModeFacts, renderKernel, renderNetwork } from './report.ts';

const modes: readonly ModeFacts[] = sensorModes.map((mode) => ({
  name: mode.name,
  unavailable: (features) => mode.unavailable(features),
  blindSpots: blindSpots(mode.name).map(({ name, what, unseenBecause }) => ({
    name,
    what,
    because: unseenBecause ?? null,
  })),
}));

/** @returns the exit code: 0 if every guard works here, with limits or without, 1 if one cannot. */
export async function runDoctor(all: readonly Guard[], options: DoctorOptions): Promise<0 | 1> {
  refuseEmpty({ '--data': options.data, '--cri-socket': options.criSocket });
  const { signal } = stopSignal();
  const chosen = selectGuards(all, options.guards);
  const machine = await readMachine({ dataDirectory: options.data, criSocket: options.criSocket, signal });
  const guards: DiagnosedGuard[] = [];
  let facts: Readonly<Record<string, unknown>> = {};
  for (const guard of chosen) {
    const diagnosis = await diagnose(guard, machine);
    if (diagnosis === undefined) continue;
    guards.push(diagnosed(guard.name, diagnosis));
    facts = { ...facts, ...diagnosis.facts };
  }
  const network = facts['network'] as NetworkPolicyMachine | undefined;
  const kernel = examine(machine.kernel, modes);
  if (options.output === 'json' || options.output === 'yaml') {
    const report: DoctorReport = {
      guards,
      machine: machineReport(machine),
      ...kernel,
      ...(network && { network }),
    };
    printDocument(options.output, 'rampart.dev/doctor/v1', report);
  } else {
    const text = outputOptions(80, { max: 100, isWide: options.output === 'wide' });
    const tables = [renderKernel(kernel, text), ...(network ? [renderNetwork(network, text)] : [])];
    const more =
      options.kernel === true ? tables : ['rampart doctor --kernel shows what the kernel supports.\n'];
    process.stdout.write([renderGuards(guards, text), renderMachine(machine, text), ...more].join('\n'));
  }
  return guards.some(({ verdict }) => verdict === 'cannot') ? 1 : 0;
}

/** Undefined for a guard without `examine`. */
async function diagnose({ examine: load }: Guard, machine: MachineFacts): Promise<Diagnosis | undefined> {
  try {
    return await (
      await load?.()
    )?.(machine);
  } catch (error) {
    if (!(error instanceof RampartError)) throw error;
    return { obstacles: [messageOf(error)], limits: [] };
  }
}

function machineReport({
  runtime,
  api,
  dataDirectory,
  freeBytes,
  inotify,
}: MachineFacts): DoctorReport['machine'] {
  return {
    runtime: runtime ?? null,
    api: { address: api.address, problem: api.problem ?? null },
    data: { directory: dataDirectory, freeBytes },
    inotify: inotify ?? null,
  };
}
