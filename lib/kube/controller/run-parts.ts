import { aborted } from '../../time/abort.ts';

/** Runs `then` when the caches are synced, unless the signal aborts before. */
export async function whenSynced(
  caches: readonly { readonly synced: Promise<void> }[],
  signal: AbortSignal,
  then: () => Promise<void>,
): Promise<void> {
  await Promise.race([aborted(signal), Promise.all(caches.map(({ synced }) => synced))]);
  if (!signal.aborted) await then();
}

/** Resolves when all have ended; if one fails, the others are stopped. @throws the first failure, after all have ended */
export async function allOrNone(stop: AbortController, running: readonly Promise<void>[]): Promise<void> {
  const failures: unknown[] = [];
  await Promise.all(
    running.map((one) =>
      one.catch((error: unknown) => {
        failures.push(error);
        stop.abort(error);
      }),
    ),
  );
  if (failures.length > 0) throw failures[0];
}
