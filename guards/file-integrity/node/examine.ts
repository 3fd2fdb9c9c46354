import { type Diagnosis, diskLimits, type ExamineMachine, type Machine } from '../../../guard/machine.ts';
import { sensorModes } from '../../../lib/sensor/modes.ts';

/** Fewer inotify watches are too few: at most half of them are used, and a node has some ten thousand directories to watch. */
const FEW_WATCHES = 32_768;

export const examineFileIntegrity: ExamineMachine = (machine) => Promise.resolve(diagnose(machine));

function diagnose(machine: Machine): Diagnosis {
  const { kernel, isRoot, inotify } = machine;
  const mode = sensorModes.find((one) => one.unavailable(kernel) === undefined);
  const refusals = sensorModes.map((one) => `${one.name}: ${one.unavailable(kernel)}`);
  return {
    mode: mode?.name,
    obstacles: isRoot ? [] : ['only root can read all files: run it as root'],
    limits: [
      ...(mode === undefined ? [`does not know who changed a file: ${refusals.at(-1)}`] : []),
      ...(inotify !== undefined && inotify.watches < FEW_WATCHES
        ? [
            `follows ${inotify.watches / 2} directories at most (fs.inotify.max_user_watches is ${inotify.watches}); changes elsewhere are found by scans`,
          ]
        : []),
      ...(machine.noRuntime === undefined ? [] : ['does not know in which pod a change was made']),
      ...diskLimits(machine),
    ],
  };
}
