import { accessSync, constants } from 'node:fs';
import { tmpdir } from 'node:os';

import { diskLimits, type ExamineMachine } from '../../../guard/machine.ts';

/** The guard needs nothing from the kernel: policies run in threads of the process. */
export const examinePolicyAudit: ExamineMachine = (machine) => {
  const obstacles: string[] = [];
  try {
    accessSync(tmpdir(), constants.W_OK);
  } catch {
    obstacles.push(`cannot write ${tmpdir()}, where modules of policies are kept: set TMPDIR`);
  }
  return Promise.resolve({ obstacles, limits: diskLimits(machine) });
};
