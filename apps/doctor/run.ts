/** `rampart doctor`: probes this kernel and prints what was found. */
import { probeFeatures } from '../../shared/ebpf/features/features.ts';
import { wantsColour } from '../../shared/observe/table.ts';
import { blindSpots, sensorModes } from '../../shared/sensor/modes.ts';
import { examineMachine } from '../../systems/network-policy/node/machine.ts';
import type { DoctorOptions } from './command.ts';
import { examine, type ModeFacts, renderNetwork, renderReport, type TextOptions } from './report.ts';

const defaultWidthColumns = 80;
/** Longer lines are hard to read, however wide the terminal. */
const greatestWidthColumns = 100;

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
  const text: TextOptions = {
    widthColumns: Math.min(stdout.columns || defaultWidthColumns, greatestWidthColumns),
    colour: wantsColour(stdout),
  };
  stdout.write(
    options.json === true
      ? `${JSON.stringify(report)}\n`
      : `${renderReport(report, text)}\n${renderNetwork(network, text)}`,
  );
  return report.sensor.mode === null ? 1 : 0;
}
