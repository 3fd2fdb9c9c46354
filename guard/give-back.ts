/** Removes what must not outlive Rampart when it is uninstalled: webhooks without a server, finalizers that no process would remove. */
import { orUndefined } from '../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import { releaseAll } from '../lib/kube/controller/finalizers.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import { aborted } from '../lib/time/abort.ts';
import type { Guard } from './guard.ts';
import type { HeldKind, ObjectSelection } from './leftovers.ts';
import { endWhenRemoved, type RampartRemoved, type RemovalOptions, removalOf } from './removal.ts';

interface GiveBackOptions {
  readonly client: KubeClient;
  readonly logger: Logger;
  readonly guards: readonly Guard[];
  /** Set for an agent, which gives back only what its node holds. */
  readonly nodeName?: string | undefined;
}

/**
 * Time limits for giving back. After the request to stop, an agent is killed within 15 s, and the operator within 30 s, in which the guards
 * must end as well.
 */
const times = { agentMs: 8000, operatorMs: 15_000 } as const;

/**
 * Runs the parts of a process until `end` aborts. If Rampart is being removed, it then gives back the resources that the guards hold, and
 * waits for the request to stop: if it ended earlier, it would be restarted.
 */
export async function runUntilRemoved(
  end: AbortController,
  options: GiveBackOptions & RemovalOptions,
  run: () => Promise<void>,
): Promise<void> {
  endWhenRemoved(end, options);
  await run();
  const removal = removalOf(end.signal);
  if (removal === undefined) return;
  await giveBack(removal, options);
  await aborted(options.reported);
}

/** Called after the guards have ended, so that they do not create anything again. Failures are logged: it is too late to do more. */
async function giveBack(
  { isEverywhere, message }: RampartRemoved,
  { client, logger, guards, nodeName, reported }: GiveBackOptions & Pick<RemovalOptions, 'reported'>,
): Promise<void> {
  logger.info(`Rampart is being removed: ${message}`);
  using late = lateAfter(reported, nodeName === undefined ? times.operatorMs : times.agentMs);
  const { signal } = late;
  const leftovers = await Promise.all(guards.map(async (guard) => (await guard.leftovers?.()) ?? {}));
  const count = { webhooks: 0, finalizers: 0 };
  const attempt = async (what: keyof typeof count, work: Promise<void>): Promise<void> =>
    work.catch((err: unknown) =>
      logger.error({ err }, `${what} of Rampart are left; \`rampart uninstall\` removes them`),
    );
  const remove = async ({ type, ...selection }: ObjectSelection): Promise<void> => {
    const { items } = await client.list(type, {}, { ...selection, signal });
    for (const { metadata } of items) {
      await orUndefined(client.delete(type, { name: metadata.name ?? '' }, { signal }));
      count.webhooks++;
    }
  };
  const release = async ({ type, finalizers, ofNode }: HeldKind): Promise<void> => {
    const selection = nodeName === undefined ? {} : ofNode?.(nodeName);
    await releaseAll(client, type, finalizers, {
      ...selection,
      ...{ signal, onReleased: () => count.finalizers++ },
    });
  };
  const isHeldHere = ({ ofNode }: HeldKind): boolean =>
    nodeName === undefined ? ofNode === undefined || isEverywhere : ofNode !== undefined;
  const webhooks = nodeName === undefined ? leftovers.flatMap((of) => of.webhooks ?? []) : [];
  await Promise.all(webhooks.map((selection) => attempt('webhooks', remove(selection))));
  const held = leftovers.flatMap((of) => of.finalizers ?? []).filter(isHeldHere);
  await Promise.all(held.map((kind) => attempt('finalizers', release(kind))));
  logger.info(count, 'removed what would be left of Rampart');
}

/** Its signal aborts some time after the process is asked to stop. */
function lateAfter(reported: AbortSignal, afterMs: number): Disposable & { readonly signal: AbortSignal } {
  const late = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const begin = (): void => {
    timer = setTimeout(() => late.abort(new Error('it takes too long')), afterMs);
  };
  if (reported.aborted) begin();
  else reported.addEventListener('abort', begin, { once: true });
  return {
    signal: late.signal,
    [Symbol.dispose]: () => {
      reported.removeEventListener('abort', begin);
      clearTimeout(timer);
    },
  };
}
