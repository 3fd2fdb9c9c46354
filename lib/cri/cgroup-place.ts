/**
 * What the path of a cgroup reveals about a process in it: the container for which a runtime created the cgroup, or the
 * systemd unit.
 */

export interface CgroupPlace {
  /** IDs of containers, the outermost first. Only the outermost one is reliable: processes in it may create cgroups with any name. */
  readonly containers: readonly string[];
  /** `system.slice/cron.service`: the outermost unit. */
  readonly unit: string | undefined;
  /** Whether the cgroup belongs to a pod, even if it has no container ID. */
  readonly isPod: boolean;
}

/**
 * The cgroup of a container in containerd, CRI-O, Docker and Podman; the ID has 64 hexadecimal digits. `ID` and `crio-ID` with
 * the driver cgroupfs, `cri-containerd-ID.scope`, `crio-ID.scope`, `docker-ID.scope` and `libpod-ID.scope` with systemd.
 */
const containerName = /^(?:([a-z][a-z-]*)-)?([0-9a-f]{64})(?:\.scope)?$/;
/** The prefix of CRI-O's and Podman's monitor of a container, which is a process of the node: `crio-conmon-ID.scope`. */
const ofMonitor = /(?:^|-)conmon$/;
/** Types of systemd units that have processes (systemd.unit(5)). */
const unitName = /\.(?:service|scope|socket|mount|swap)$/;

/** @param path from the root of its hierarchy: `/system.slice/cron.service` */
export function cgroupPlace(path: string): CgroupPlace {
  const names = path.split('/').slice(1);
  const containers = runtimeNames(names).flatMap((name) => {
    const [, prefix = '', id] = containerName.exec(name) ?? [];
    return id === undefined || ofMonitor.test(prefix) ? [] : [id];
  });
  const unitAt = names.findIndex((name) => unitName.test(name));
  return {
    containers,
    unit: unitAt < 0 ? undefined : names.slice(0, unitAt + 1).join('/'),
    isPod: names.some((name) => name === 'kubepods' || name === 'kubepods.slice'),
  };
}

/** The cgroup names without those that users and services can choose: they may know the ID of a container and use it. */
function runtimeNames(names: readonly string[]): readonly string[] {
  if (names[0] === 'user.slice') return [];
  const serviceAt = names.findIndex((name) => name.endsWith('.service'));
  // In a nested node, which is itself a container, the pods are below the service of the runtime.
  const isNested = names.slice(0, Math.max(serviceAt, 0)).some((name) => containerName.test(name));
  return serviceAt < 0 || isNested ? names : names.slice(0, serviceAt);
}
