import { type ProcessIdentity } from './process.ts';
import type { Container, Pod } from './records.ts';

export interface NodeContainer extends Container {
  readonly pod: Pod;
  /** Its first process; undefined if it is not running, or the process could not be determined. */
  readonly process: ProcessIdentity | undefined;
  /**
   * `/proc/PID/root`. A PID may be reused at any time: open what you need below it, then check
   * `isSameProcess(container.process)` before you trust what you opened.
   */
  readonly root: string | undefined;
}

/** A change of a container, as found by comparing two lists. */
export type ContainerChange =
  | { readonly type: 'added'; readonly container: NodeContainer }
  | {
      readonly type: 'changed';
      readonly container: NodeContainer;
      /** The container as reported by the previous change. */
      readonly previous: NodeContainer;
    }
  | {
      readonly type: 'removed';
      /** The container as reported by its last change. */
      readonly container: NodeContainer;
    };

export function nodeContainer(
  container: Container,
  pod: Pod,
  process: ProcessIdentity | undefined,
  procPath: string,
): NodeContainer {
  const root = process === undefined ? undefined : `${procPath}/${process.pid}/root`;
  return { ...container, pod, process, root };
}

/** Compares the fields that can change; all others are fixed when a container or a sandbox is created. */
export function isUnchanged(a: NodeContainer, b: NodeContainer): boolean {
  return (
    a.state === b.state &&
    a.process?.pid === b.process?.pid &&
    a.process?.startTicks === b.process?.startTicks &&
    a.pod.state === b.pod.state &&
    a.pod.hostNetwork === b.pod.hostNetwork &&
    a.pod.ips.join() === b.pod.ips.join()
  );
}
