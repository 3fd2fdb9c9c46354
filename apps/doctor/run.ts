import { probeFeatures } from '../../lib/ebpf/features/features.ts';
import { printDocument } from '../../lib/cli/document.ts';
import { blindSpots, sensorModes } from '../../lib/sensor/modes.ts';
import { examineMachine } from '../../guards/network-policy/node/machine.ts';
import type { DoctorOptions } from './command.ts';
import { examine, type ModeFacts, renderNetwork, renderReport } from './report.ts';
import { outputOptions } from '../../lib/cli/output.ts';

const modes: readonly ModeFacts[] = sensorModes.map((mode) => ({
  name: mode.name,
  unavailable: (features) => mode.unavailable(features),
  blindSpots: blindSpots(mode.name).map(({ name, what, unseenBecause }) => ({
    name,
    what,
    because: unseenBecause ?? null,
  })),
}));

/** @returns the exit code: 0 when some sensor mode can run here, 1 when none can. */
export async function runDoctor(options: DoctorOptions): Promise<number> {
  const network = await examineMachine();
  const report = { ...examine(probeFeatures(), modes), network };
  const { stdout } = process;
  if (options.output === 'json' || options.output === 'yaml')
    printDocument(options.output, 'rampart.dev/doctor/v1', report);
  else {
    const text = outputOptions(80, { most: 100, isWide: options.output === 'wide' });
    stdout.write(`${renderReport(report, text)}\n${renderNetwork(network, text)}`);
  }
  return report.sensor.mode === null ? 1 : 0;
}
