/** The files that containerd and the network plugins of a lab are configured by. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { images } from './image.ts';
import { cniDirectory } from './obstacle.ts';

export interface NetworkOptions {
  /** IPv4 network of the pods, with its length. */
  readonly subnet: string;
  /** The first pod's address; the next ones get those after it. */
  readonly firstIp: string;
}

/** `overlayfs`, or `native` (whole copies) where an overlay cannot be mounted. */
export type Snapshotter = 'overlayfs' | 'native';

/** Where a lab's files are. */
export function labPaths(directory: string) {
  return {
    socket: join(directory, 'containerd.sock'),
    config: join(directory, 'containerd.toml'),
    log: join(directory, 'containerd.log'),
    image: join(directory, 'image.tar'),
    podLogs: join(directory, 'pod-logs'),
    cni: join(directory, 'cni'),
    root: join(directory, 'root'),
    state: join(directory, 'state'),
  };
}

export async function writeConfiguration(
  directory: string,
  snapshotter: Snapshotter,
  network: NetworkOptions,
): Promise<void> {
  const paths = labPaths(directory);
  const cri = 'plugins."io.containerd.grpc.v1.cri"';
  const toml = [
    'version = 2',
    `root = ${JSON.stringify(paths.root)}`,
    `state = ${JSON.stringify(paths.state)}`,
    // The first would make /opt/containerd; the others look for tools that are not needed.
    `disabled_plugins = ${JSON.stringify(['opt', 'tracing'].map((name) => `io.containerd.internal.v1.${name}`))}`,
    '[grpc]',
    `address = ${JSON.stringify(paths.socket)}`,
    `[${cri}]`,
    `sandbox_image = "${images.pause}"`,
    // Without CAP_SYS_RESOURCE runc may not make a process less likely to be killed than containerd is.
    'restrict_oom_score_adj = true',
    'netns_mounts_under_state_dir = true',
    'disable_apparmor = true',
    `[${cri}.cni]`,
    `bin_dir = "${cniDirectory}"`,
    `conf_dir = ${JSON.stringify(paths.cni)}`,
    `[${cri}.containerd]`,
    `snapshotter = "${snapshotter}"`,
    `[${cri}.containerd.runtimes.runc]`,
    'runtime_type = "io.containerd.runc.v2"',
  ];
  const bridge = {
    type: 'bridge',
    bridge: 'lab0',
    isGateway: true,
    ipam: {
      type: 'host-local',
      dataDir: join(directory, 'addresses'),
      ranges: [[{ subnet: network.subnet, rangeStart: network.firstIp }]],
      routes: [{ dst: '0.0.0.0/0' }],
    },
  };
  await mkdir(paths.cni, { recursive: true });
  await writeFile(
    join(paths.cni, '10-lab.conflist'),
    JSON.stringify({ cniVersion: '0.4.0', name: 'lab', plugins: [bridge] }),
  );
  await writeFile(paths.config, `${toml.join('\n')}\n`);
}
