import { errorCodes, RampartError } from '../errors/errors.ts';
import type { Cri } from './cri.ts';
import { type LogReadOptions, openLog } from './log-reader.ts';
import { containerState } from './records.ts';

/**
 * Opens the log of a container, which may have ended. See `openLog`.
 *
 * @param onLoss called with a description of what is missing in the text.
 * @throws {RampartError} `NOT_FOUND` for a container or a file that does not exist; `UNSUPPORTED` for a container whose
 *   runtime writes no file; `SYSTEM`; as `Cri.call`.
 */
export async function openContainerLog(
  cri: Cri,
  id: string,
  options: LogReadOptions & { readonly signal: AbortSignal; readonly onLoss: (what: string) => void },
): Promise<AsyncGenerator<Uint8Array, void, void>> {
  const { signal, onLoss, ...read } = options;
  const { status } = await cri.call('ContainerStatus', { containerId: id }, { signal });
  const path = status?.logPath ?? '';
  if (path === '') {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `container ${id} has no log`,
      why: 'it was created without a log file',
    });
  }
  const hasEnded = async (): Promise<boolean> => {
    try {
      const answer = await cri.call('ContainerStatus', { containerId: id }, { signal });
      const state = containerState(answer.status?.state ?? -1);
      return state === 'exited' || state === 'unknown';
    } catch (error) {
      if (error instanceof RampartError && error.code === errorCodes.NOT_FOUND) return true;
      // While the runtime is down, the container keeps running and its log keeps growing.
      if (!signal.aborted && error instanceof RampartError) return false;
      throw error;
    }
  };
  return await openLog({ path, hasEnded, onLoss }, read, signal);
}
