export async function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => resolve(), { once: true });
  if (!signal.aborted) await promise;
}

/**
 * The result of `promise`, which continues in the background if the signal aborts first.
 *
 * @throws the rejection of `promise`, or the signal's reason
 */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  const { promise: stopped, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason as Error);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([stopped, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
