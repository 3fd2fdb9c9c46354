/** Reports an agent's presence and the state of its guards: in one Lease for each node. */
import { apiMicroTime } from '../lib/kube/object/api-time.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import { isAlreadyExists, isNotFound } from '../lib/kube/client/client-errors.ts';
import { type Clock, sleep, systemClock } from '../lib/time/clock.ts';
import { type Lease, leases } from '../lib/kube/object/object.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import {
  agentGuardsAnnotation,
  agentLeaseLabel,
  agentLeaseName,
  agentLossesAnnotation,
  agentNodeAnnotation,
  kernelLeaseLabel,
} from './agent-lease-names.ts';
import { systemNamespace } from './guard.ts';
import type { GuardStates } from './guard-states.ts';
import { readKernelId } from './kernel-id.ts';

interface AgentLeaseOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly identity: string;
  readonly states: GuardStates;
  /** The boot ID of the kernel. Default: that of this machine. */
  readonly kernelId?: string;
  /** When it aborts, the lease is given back. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly clock?: Clock;
}

/** As often as a kubelet renews the Lease of its node (KEP-589). */
const RENEW_MS = 10_000;
const DURATION_SECONDS = 30;
/** How often guards that start are asked whether they are ready. */
const READY_MS = 1000;
/** Changes within this time are written together. */
const SETTLE_MS = 500;
const RELEASE_MS = 2000;
const MAX_LABEL = 63;

/** Keeps the lease until `signal` aborts. A write that fails is logged and retried. */
export async function keepAgentLease(options: AgentLeaseOptions): Promise<void> {
  const { states, signal, logger, clock = systemClock } = options;
  let changed = Promise.withResolvers<void>();
  using _listening = states.onChange(() => changed.resolve());
  signal.addEventListener('abort', () => changed.resolve(), { once: true });
  let isReported = false;
  while (!signal.aborted) {
    changed = Promise.withResolvers();
    try {
      await write(options, options.identity, signal);
      isReported = false;
    } catch (error) {
      if (!signal.aborted && !isReported)
        logger.warn({ err: error }, 'cannot renew the lease of this agent; retrying');
      isReported = true;
    }
    const pause = new AbortController();
    const renewal = untilDue(states, clock, AbortSignal.any([signal, pause.signal])).catch(() => undefined);
    await Promise.race([renewal, changed.promise]);
    pause.abort();
    await sleep(clock, SETTLE_MS, signal).catch(() => undefined);
  }
  await write(options, '', AbortSignal.timeout(RELEASE_MS)).catch(() => undefined);
}

/** Waits until the next renewal, or until a guard has become ready. */
async function untilDue(states: GuardStates, clock: Clock, signal: AbortSignal): Promise<void> {
  const dueMs = clock.monotonicMs() + RENEW_MS;
  const before = states.notReady();
  for (;;) {
    const leftMs = dueMs - clock.monotonicMs();
    if (leftMs <= 0 || states.notReady() < before) return;
    await sleep(clock, before === 0 ? leftMs : Math.min(leftMs, READY_MS), signal);
  }
}

async function write(options: AgentLeaseOptions, holder: string, signal: AbortSignal): Promise<void> {
  const { client, nodeName, states, kernelId = readKernelId(), clock = systemClock } = options;
  const target = { namespace: systemNamespace, name: agentLeaseName(nodeName) };
  const now = apiMicroTime(clock.wallMs());
  const label = nodeName.length <= MAX_LABEL ? nodeName : agentLeaseName(nodeName).slice(-16);
  const lease = (before: Lease | undefined): Lease => ({
    ...before,
    metadata: {
      ...before?.metadata,
      ...target,
      labels: { ...before?.metadata.labels, [agentLeaseLabel]: label, [kernelLeaseLabel]: kernelId },
      annotations: {
        ...before?.metadata.annotations,
        [agentNodeAnnotation]: nodeName,
        [agentGuardsAnnotation]: states.text(),
        [agentLossesAnnotation]: JSON.stringify(states.losses()),
      },
    },
    spec: {
      ...before?.spec,
      holderIdentity: holder,
      leaseDurationSeconds: holder === '' ? 1 : DURATION_SECONDS,
      renewTime: now,
      ...(before?.spec?.holderIdentity !== holder && holder !== '' && { acquireTime: now }),
    },
  });
  const update = async (): Promise<void> => {
    const before = await client.get(leases, target, { signal });
    await client.update(leases, lease(before), { signal });
  };
  try {
    await update();
  } catch (error) {
    if (!isNotFound(error)) throw error;
    try {
      await client.create(leases, lease(undefined), { signal });
    } catch (again) {
      if (!isAlreadyExists(again)) throw again;
      await update();
    }
  }
}
