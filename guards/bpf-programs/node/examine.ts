import { type Diagnosis, diskLimits, type ExamineMachine, type Machine } from '../../../guard/machine.ts';
import type { AttachType } from '../kernel/desired.ts';
import { programTypes } from '../kernel/load/program-types.ts';
import { isBpffs } from '../kernel/pins/pin.ts';
import { Refusals } from '../kernel/refusals.ts';
import { bpffsOption } from '../options.ts';

const bpffs = String(bpffsOption.default);

export const examineBpfPrograms: ExamineMachine = (machine) => Promise.resolve(diagnose(machine));

function diagnose(machine: Machine): Diagnosis {
  const { kernel, isRoot, noRuntime } = machine;
  const refusals = new Refusals(() => kernel);
  const types = Object.keys(programTypes).toSorted() as AttachType[];
  const refused = Map.groupBy(
    types.flatMap((type) => {
      const answer = refusals.answer(type);
      return answer.available ? [] : [{ type, why: answer.detail }];
    }),
    ({ why }) => why,
  );
  const none = [...refused.values()].flat().length === types.length;
  const reasons = [...refused].map(
    ([why, all]) => `does not run ${all.map(({ type }) => type).join(', ')}: ${why}`,
  );
  return {
    obstacles: [
      ...(isRoot ? [] : ['only root may load eBPF programs: run it as root']),
      ...(kernel.libbpf === undefined ? ['libbpf.so.1 is missing: apt-get install libbpf1'] : []),
      ...(isBpffs(bpffs) ? [] : [`${bpffs} is not a bpffs: mount -t bpf bpf ${bpffs}`]),
      ...(none ? reasons : []),
    ],
    limits: [
      ...(none ? [] : reasons),
      ...(noRuntime === undefined
        ? []
        : ['runs no programs in the networks and files of pods: no container runtime']),
      ...diskLimits(machine),
    ],
  };
}
