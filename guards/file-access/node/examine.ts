import { type Diagnosis, diskLimits, type ExamineMachine, type Machine } from '../../../guard/machine.ts';
import { blindSpots, sensorModes } from '../../../lib/sensor/modes.ts';

export const examineFileAccess: ExamineMachine = (machine) => Promise.resolve(diagnose(machine));

function diagnose(machine: Machine): Diagnosis {
  const { kernel, noRuntime } = machine;
  const mode = sensorModes.find((one) => one.unavailable(kernel) === undefined);
  const unseen = mode === undefined ? [] : blindSpots(mode.name).map(({ name }) => name);
  const refusals = sensorModes.map((one) => `${one.name}: ${one.unavailable(kernel)}`);
  return {
    mode: mode?.name,
    obstacles: mode === undefined ? [`no sensor mode works: ${refusals.at(-1)}`] : [],
    limits: [
      ...(noRuntime === undefined
        ? []
        : [
            'watches files of this machine, and none of pods: no container runtime; start containerd or CRI-O, or name its socket',
          ]),
      ...(unseen.length === 0 ? [] : [`does not see: ${unseen.join(', ')}`]),
      ...diskLimits(machine),
    ],
  };
}
