/**
 * What the path of a cgroup reveals about a process in it: the container that a runtime created it for, or the
 * unit of systemd.
 */

export interface CgroupPlace {
  /** Ids of containers, the outermost first: a process that may create cgroups in a container can give them any name. */
  readonly containers: readonly string[];
  /** `system.slice/cron.service`: the outermost unit. */
  readonly unit: string | undefined;
  /** Whether it belongs to a pod, for a container without an id. */
  readonly isPod: boolean;
}

/**
 * 64 hexadecimal digits, as containerd, CRI-O, Docker and Podman name them: `ID` and `crio-ID` with the driver cgroupfs,
 * `cri-containerd-ID.scope`, `crio-ID.scope`, `docker-ID.scope`, `libpod-ID.scope` with systemd.
 */
const containerName = /^(?:([a-z][a-z-]*)-)?([0-9a-f]{64})(?:\.scope)?$/;
/** The monitor of a container of CRI-O or Podman is a process of the node: `crio-conmon-ID.scope`. */
const ofMonitor = /(?:^|-)conmon$/;
/** systemd.unit(5): those that have processes. */
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

/** Without what users and services name themselves: the id of a container is not a secret. */
function runtimeNames(names: readonly string[]): readonly string[] {
  if (names[0] === 'user.slice') return [];
  const serviceAt = names.findIndex((name) => name.endsWith('.service'));
  // The runtime of a nested node has its pods below its service, in a container.
  const isNested = names.slice(0, Math.max(serviceAt, 0)).some((name) => containerName.test(name));
  return serviceAt < 0 || isNested ? names : names.slice(0, serviceAt);
}
