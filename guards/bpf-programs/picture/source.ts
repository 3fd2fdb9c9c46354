import type { Picture, PictureSource } from '../../../guard/picture.ts';
import { readPrograms } from '../status/section.ts';
import { apiChains } from './api-chains.ts';
import { type KernelChains, kernelChains } from './kernel-chains.ts';

export const bpfProgramsPicture: PictureSource = {
  async read(context) {
    const kernel: KernelChains = context.isThisMachine
      ? await kernelChains(context.signal)
      : {
          items: [],
          notes: ['How often programs run is told on their node: rampart bpf chain, rampart bpf stats.'],
        };
    if (kernel.items.length > 0) return picture(kernel);
    const programs = await readPrograms(context);
    if (programs === undefined) return picture(kernel);
    const { items, notes } = apiChains(programs);
    const none = items.length === 0 ? ['No program is asked for on an interface.'] : [];
    return picture({ items, notes: [...none, ...notes, ...kernel.notes] });
  },
};

function picture({ items, notes }: KernelChains): Picture {
  return {
    ...{ form: 'chains', title: 'What runs on each interface, in its order', items, notes },
    ...{ axes: ['hook', 'program'], unit: 'runs' },
    legend: [
      { tone: 'ok', words: 'runs' },
      { tone: 'warn', words: 'runs, with a note' },
      { tone: 'bad', words: 'does not run' },
      { tone: 'none', words: "not Rampart's" },
    ],
  };
}
