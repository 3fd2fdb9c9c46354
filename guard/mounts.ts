/** Mounts of the agent's pod that several guards need. Each is one shared object, since a volume name can be defined only once in a pod. */
import type { PodMount } from './guard.ts';

export const runtimeMount: PodMount = {
  name: 'runtime',
  hostPath: '/run/containerd',
  mountPath: '/run/containerd',
  type: 'Directory',
  readOnly: true,
  why: 'The directory, not the socket: each start of the runtime creates a new socket.',
};

export const btfMount: PodMount = {
  name: 'btf',
  hostPath: '/sys/kernel/btf',
  mountPath: '/sys/kernel/btf',
  type: 'Directory',
  readOnly: true,
  why: "The kernel's types, for CO-RE relocation of eBPF programs.",
};

export const hostMount: PodMount = {
  name: 'host',
  hostPath: '/',
  mountPath: '/hostroot',
  type: 'Directory',
  readOnly: true,
  propagation: 'HostToContainer',
  why: 'The files of the node, including later mounts.',
};
