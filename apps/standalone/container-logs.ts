/** The logs of this machine's containers, for `kubectl logs`. */
import { ApiError, apiErrors } from '../../lib/apiserver/resources/api-error.ts';
import { openContainerLog } from '../../lib/cri/container-log.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import type { NodeRuntime } from '../../lib/cri/node-runtime.ts';
import type { PodLogs } from '../../lib/apiserver/verbs/pod-logs.ts';

/** @param nodeName of this machine: pods of other nodes have their logs elsewhere. */
export function containerLogs(
  runtime: Pick<NodeRuntime, 'state'>,
  nodeName: string,
  logger: Pick<Logger, 'warn'>,
): PodLogs {
  return async (request) => {
    const { container, containerId, options, signal } = request;
    if (request.nodeName !== nodeName) {
      throw apiErrors.internal(
        `pod ${JSON.stringify(request.pod)} is on node ${JSON.stringify(request.nodeName)}, this is ${JSON.stringify(nodeName)}`,
      );
    }
    const { state } = runtime;
    if ('unavailable' in state) throw apiErrors.internal(`no container runtime: ${state.unavailable}`);
    const onLoss = (what: string): void =>
      logger.warn({ container: containerId }, `log of ${container}: ${what}`);
    try {
      return await openContainerLog(state.cri, idIn(containerId), { ...options, signal, onLoss });
    } catch (error) {
      throw toldOf(error, containerId);
    }
  };
}

/** Without `containerd://`. */
function idIn(containerId: string): string {
  return containerId.slice(containerId.indexOf('://') + 3);
}

/** A kubelet answers 400 to all that goes wrong here (pkg/kubelet/server/server.go, getContainerLogs). */
function toldOf(error: unknown, containerId: string): unknown {
  if (error instanceof ApiError || !(error instanceof RampartError)) return error;
  const noAnswer = error.code === errorCodes.RUNTIME_UNREACHABLE || error.code === errorCodes.PRIVILEGE;
  if (noAnswer) return apiErrors.internal(error.message, error);
  return apiErrors.badRequest(`unable to retrieve container logs for ${containerId}: ${error.message}`);
}
