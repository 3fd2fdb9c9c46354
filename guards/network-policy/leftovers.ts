/** What this guard leaves behind: rules stay in the kernel while the agent is away. */
import { defineLeftovers } from '../../guard/leftovers.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';

export const networkPolicyLeftovers = defineLeftovers({
  async cleanNode(_options, { signal }) {
    const { cleanNode } = await import('./commands/cleanup.ts');
    const cleaned = await cleanNode(signal);
    const failed = cleaned.filter(
      ({ error }) =>
        error !== undefined && !(error instanceof RampartError && error.code === errorCodes.UNSUPPORTED),
    );
    if (failed.length > 0) throw failed[0]?.error;
    return cleaned.flatMap(({ removed }) => removed.map((line) => line.trim()));
  },
});
