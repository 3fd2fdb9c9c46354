/** The command-line options of this guard. */
import { isAbsolute, normalize } from 'node:path';

import type { GuardOption, OptionValues } from '../../guard/guard.ts';
import { defaultMapMemoryMiB, type TenantRules } from './kernel/tenant/rules.ts';
import { number, optionalText, text, texts } from '../../guard/option-values.ts';

export interface BpfProgramsOptions {
  /** The mount point of the node's bpffs. */
  readonly bpffs: string;
  /** A directory on tmpfs, because its contents belong to this boot. */
  readonly bpfState: string;
  readonly bpfRegistries?: string | undefined;
  readonly bpfInsecureRegistry: readonly string[];
  readonly bpfVerificationConfig?: string | undefined;
  readonly tenants: TenantRules;
  /** Undefined if volumes are not served. */
  readonly csi:
    { readonly kubeletDirectory: string; readonly clusterNamespaces: readonly string[] } | undefined;
}

export const bpffsOption: GuardOption = {
  flags: '--bpffs <dir>',
  description: "the mount point of the node's bpffs, where eBPF programs stay pinned while the agent is away",
  on: ['agent', 'standalone'],
  default: '/sys/fs/bpf',
};

export const bpfStateOption: GuardOption = {
  flags: '--bpf-state <dir>',
  description: 'directory for state of eBPF programs that the kernel does not keep; use a tmpfs',
  on: ['agent', 'standalone'],
  default: '/run/rampart/bpf-programs',
};

export const verificationOption: GuardOption = {
  flags: '--bpf-verification-config <file>',
  description: 'the signatures that bytecode images must have, as YAML; default: none',
  on: ['agent', 'standalone'],
};

export const tenantHelpersOption: GuardOption = {
  flags: '--bpf-tenant-helpers <name>',
  description:
    'a helper or kernel function that programs of namespaced kinds may call besides those of the guide, such as bpf_probe_read_kernel, with which they read all memory of the node; repeatable',
  on: ['agent', 'standalone'],
  repeatable: true,
  parse: functionName,
};

export const tenantMapMemoryOption: GuardOption = {
  flags: '--bpf-tenant-map-memory <MiB>',
  description:
    'memory for the maps of all programs of one namespace on a node; a program may have a quarter of it',
  on: ['agent', 'standalone'],
  default: defaultMapMemoryMiB,
  parse: mebibytes,
};

export const bpfProgramsOptions: readonly GuardOption[] = [
  bpffsOption,
  bpfStateOption,
  {
    flags: '--bpfman-api <version>',
    description:
      'which BpfApplication to serve: cluster-scoped as in bpfman v0.5, or namespaced as in v0.6; default: that of the objects that there are, else v0.6',
    on: ['standalone'],
    choices: ['v0.5', 'v0.6'],
  },
  {
    flags: '--bpf-registries <file>',
    description: 'a registries.conf for bytecode images: mirrors, insecure and blocked registries',
    on: ['agent', 'standalone'],
  },
  {
    flags: '--bpf-insecure-registry <host>',
    description:
      'a registry for bytecode images that needs no valid certificate, such as registry.example:5000; repeatable',
    on: ['agent', 'standalone'],
    repeatable: true,
  },
  verificationOption,
  tenantHelpersOption,
  tenantMapMemoryOption,
  {
    flags: '--bpf-csi <dir>',
    description:
      'serve volumes of the CSI driver csi.bpfman.io, with maps of eBPF programs, to the kubelet with this directory, such as /var/lib/kubelet; default: none are served',
    on: ['agent'],
    parse: kubeletDirectory,
  },
  {
    flags: '--bpf-csi-namespaces <namespaces>',
    description:
      'namespaces whose pods may mount maps of cluster-scoped programs, to read and change them; * for every namespace. Pods elsewhere may mount only those of programs of their own namespace; repeatable',
    on: ['agent'],
    repeatable: true,
  },
];

/** @throws {RangeError} unless the path is absolute */
function kubeletDirectory(value: string): string {
  const path = normalize(value).replace(/\/$/, '');
  if (!isAbsolute(value) || path === '')
    throw new RangeError('It must be the absolute path of a directory, such as /var/lib/kubelet.');
  return path;
}

/** @throws {RangeError} for a text that cannot be the name of a function */
function functionName(value: string): string {
  if (!/^[A-Za-z_]\w*$/.test(value))
    throw new RangeError('It must be the name of one function, such as bpf_probe_read_kernel.');
  return value;
}

/** @throws {RangeError} for an invalid number */
function mebibytes(value: string): number {
  if (!/^\d{1,7}$/.test(value) || Number(value) === 0)
    throw new RangeError('It must be a number of MiB, such as 128.');
  return Number(value);
}

export function parseBpfProgramsOptions(values: OptionValues): BpfProgramsOptions {
  const directory = optionalText(values, 'bpfCsi');
  // Separated by commas, like other lists of namespaces.
  const clusterNamespaces = texts(values, 'bpfCsiNamespaces').flatMap((names) => names.split(','));
  return {
    bpffs: text(values, 'bpffs'),
    bpfState: text(values, 'bpfState'),
    bpfRegistries: optionalText(values, 'bpfRegistries'),
    bpfInsecureRegistry: texts(values, 'bpfInsecureRegistry'),
    bpfVerificationConfig: optionalText(values, 'bpfVerificationConfig'),
    tenants: tenantRules(values),
    csi: directory === undefined ? undefined : { kubeletDirectory: directory, clusterNamespaces },
  };
}

/** The rules from `--bpf-tenant-helpers` and `--bpf-tenant-map-memory`. */
export function tenantRules(values: OptionValues): TenantRules {
  return {
    helpers: new Set(texts(values, 'bpfTenantHelpers')),
    mapMemoryBytes: number(values, 'bpfTenantMapMemory') * 1024 * 1024,
  };
}
