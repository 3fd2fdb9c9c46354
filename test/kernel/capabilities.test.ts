/**
 * The capabilities that deploy/ gives to the agent, in a kernel of a distribution: with overlayfs as a module, and with a sysctl that
 * asks for more.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { kustomize } from '../../apps/agent/kustomize.fixture.ts';
import { kernelRunObstacle, runInKernel } from './vm.ts';

const agent = kustomize(new URL('../../deploy', import.meta.url).pathname).find(
  ({ kind }) => kind === 'DaemonSet',
) as unknown as {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: [
          { readonly securityContext: { readonly capabilities: { readonly add: readonly string[] } } },
        ];
      };
    };
  };
};

// The older one: it has not all that the programs can use, either.
test(
  "the agent's capabilities load both objects on 6.1",
  { skip: kernelRunObstacle() ?? false },
  async (t) => {
    const [container] = agent.spec.template.spec.containers;
    const capabilities = [
      ...new Set(container.securityContext.capabilities.add.map((name) => `+${name.toLowerCase()}`)),
    ];
    const run = await runInKernel({
      kernel: '6.1',
      command: ['sh', 'test/kernel/guest-capabilities.sh', capabilities.join(','), 'fentry'],
      timeoutMs: 300_000,
      signal: t.signal,
    });
    assert.equal(run.exitCode, 0, run.output.slice(-4000));
    const lines = [...run.output.matchAll(/^fentry identity (\d+ \d+ \d+); changes (\w+)$/gm)];
    const [[, all, changes] = [], [, few, fewer] = []] = lines;
    assert.equal(lines.length, 2, run.output);
    // With the types of the module, or the file would be known by less.
    assert.equal(few, all);
    // Debian lets nobody open perf events for kprobes without CAP_SYS_ADMIN (kernel.perf_event_paranoid = 3).
    assert.deepEqual([changes, fewer], ['kprobe', 'raw_tracepoint']);
  },
);
