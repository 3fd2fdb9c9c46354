/** Pods of a machine, as a kubelet would start them: with the images of the lab, by the containerd that Debian has. */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';

import { openCri } from '../../lib/cri/lab-schema.fixture.ts';
import { imageArchive, images } from '../../test/lab/image.ts';
import { containerConfig, type PodSpec, sandboxConfig } from '../../test/lab/pod-config.ts';
import type { Machine } from './machine.fixture.ts';

const timeout = { timeoutMs: 60_000 };

const configuration = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "${images.pause}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "/etc/cni/net.d"
`;
const network = {
  ...{ type: 'bridge', bridge: 'cni0', isGateway: true },
  ipam: { type: 'host-local', ranges: [[{ subnet: '10.88.0.0/24' }]], routes: [{ dst: '0.0.0.0/0' }] },
};

export interface MachinePod {
  readonly ip: string;
  /** Pid of its container, in the machine. */
  readonly pid: number;
}

/** Installs containerd, and starts a pod of each. */
export async function runPods(machine: Machine, specs: readonly PodSpec[]): Promise<MachinePod[]> {
  await machine.run('apt-get install -q containerd runc containernetworking-plugins iproute2 busybox-static');
  writeFileSync(machine.at('/etc/containerd/config.toml'), configuration);
  const conflist = { cniVersion: '0.4.0', name: 'lab', plugins: [network] };
  writeFileSync(machine.at('/etc/cni/net.d/10-lab.conflist'), JSON.stringify(conflist));
  writeFileSync(machine.at('/root/image.tar'), imageArchive());
  await machine.run(
    'systemctl restart containerd; ctr -n k8s.io images import /root/image.tar; rm /root/image.tar',
  );
  using cri = openCri({ socketPath: machine.at('/run/containerd/containerd.sock') });
  const pods: MachinePod[] = [];
  for (const spec of specs) {
    const config = sandboxConfig(spec, randomUUID(), '/var/log/pods', 'kubelet');
    const { podSandboxId } = await cri.call('RunPodSandbox', { config }, timeout);
    for (const container of spec.containers ?? [{ name: 'nginx' }]) {
      const { containerId } = await cri.call(
        'CreateContainer',
        { podSandboxId, sandboxConfig: config, config: containerConfig(spec, config, container, 0) },
        timeout,
      );
      await cri.call('StartContainer', { containerId }, timeout);
      const [ip = ''] = (await cri.podNetwork(podSandboxId))?.ips ?? [];
      pods.push({ ip, pid: (await cri.containerPid(containerId)) ?? 0 });
    }
  }
  return pods;
}
