import { readFileSync } from 'node:fs';
import { arch, availableParallelism, networkInterfaces, totalmem } from 'node:os';

import type { JsonObject } from '../../../lib/json/json.ts';
import type { MachineState } from './machine-pod.ts';
import { mirrorAnnotation, nodeLabelsAnnotation } from '../../../guard/mirrored.ts';

/** Facts that do not change while the process runs. */
export interface NodeFacts {
  readonly name: string;
  /** `/proc/sys/kernel/random/boot_id`. */
  readonly bootId: string;
  readonly machineId: string;
  readonly systemUuid: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  /** As Kubernetes names it: `amd64`, `arm64`. */
  readonly architecture: string;
  readonly addresses: readonly string[];
  readonly cpus: number;
  readonly memoryBytes: number;
  /** Labels from the command line. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly version: string;
}

/** Facts about this machine; unknown ones are empty. */
export function nodeFacts(name: string, version: string): NodeFacts {
  return {
    name,
    bootId: fileText('/proc/sys/kernel/random/boot_id'),
    machineId: fileText('/etc/machine-id'),
    systemUuid: fileText('/sys/class/dmi/id/product_uuid'),
    kernelVersion: fileText('/proc/sys/kernel/osrelease'),
    osImage: /^PRETTY_NAME="?([^"\n]*)"?$/m.exec(fileText('/etc/os-release'))?.[1] ?? '',
    architecture: { x64: 'amd64', ia32: '386' }[arch() as string] ?? arch(),
    addresses: Object.values(networkInterfaces()).flatMap((addresses = []) =>
      addresses
        .filter(({ internal, address }) => !internal && !address.startsWith('fe80:'))
        .map(({ address }) => address),
    ),
    cpus: availableParallelism(),
    memoryBytes: totalmem(),
    version,
  };
}

function fileText(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    // The file does not exist on every machine, and not every user may read it.
    return '';
  }
}

interface DesiredNode {
  readonly metadata: {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
  readonly status: JsonObject;
}

export function desiredNode(facts: NodeFacts, state: MachineState): DesiredNode {
  const quantities = {
    cpu: String(facts.cpus),
    memory: `${Math.floor(facts.memoryBytes / 1024)}Ki`,
    pods: '110',
  };
  const isKnown = 'pods' in state;
  return {
    metadata: {
      labels: {
        ...facts.labels,
        'kubernetes.io/arch': facts.architecture,
        'kubernetes.io/hostname': facts.name.slice(0, 63),
        'kubernetes.io/os': 'linux',
      },
      annotations: {
        [mirrorAnnotation]: 'node',
        ...(facts.labels && { [nodeLabelsAnnotation]: Object.keys(facts.labels).join(',') }),
      },
    },
    status: {
      addresses: [
        ...facts.addresses.map((address) => ({ type: 'InternalIP', address })),
        { type: 'Hostname', address: facts.name },
      ],
      capacity: quantities,
      allocatable: quantities,
      conditions: [
        {
          type: 'Ready',
          status: isKnown ? 'True' : 'False',
          reason: isKnown ? 'ContainerRuntimeAnswers' : 'ContainerRuntimeUnavailable',
          message: isKnown ? 'the pods of the container runtime are mirrored' : state.unavailable,
        },
      ],
      nodeInfo: {
        architecture: facts.architecture,
        bootID: facts.bootId,
        containerRuntimeVersion: isKnown ? state.runtimeVersion : 'unknown',
        kernelVersion: facts.kernelVersion,
        kubeProxyVersion: '',
        kubeletVersion: `rampart/${facts.version}`,
        machineID: facts.machineId,
        operatingSystem: 'linux',
        osImage: facts.osImage,
        systemUUID: facts.systemUuid,
      },
    },
  };
}
