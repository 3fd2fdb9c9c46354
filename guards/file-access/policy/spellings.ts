/**
 * The only place that reads the different spellings of Kive's releases and of its design document. Objects that Rampart
 * writes use the names of the design document.
 *
 * | what                   | design document                   | v1.0.0-pre2                            | earlier releases                    |
 * | ---------------------- | --------------------------------- | -------------------------------------- | ----------------------------------- |
 * | name of the container  | `containerName`, `container-name` | `containerName`                        | `container-name`                    |
 * | the file               | `inodeNo`, `devId`                | `inode-no`, `dev-id`                   | `inodeNo`, `dev-id`                 |
 * | its kernel             | `kernelId`                        | label `kernel-id`                      | `kernelId`, `kernel-id`             |
 * | annotations            | `container-id`, `pod_name`, ...   | `pod-name`, ...                        | `pod_name`, `container_id`, ...     |
 * | finalizers             | not named                         | `kivepolicy.GROUP/...`, `kivedata....` | `kivebpf.san7o.github.io/finalizer` |
 *
 * Source: kivebpf, `api/` and `config/samples/`; the same in both versions of its API.
 */
import type { KiveData, KiveMatch } from '../api.ts';

/** The container's name; empty if the match does not specify it. */
export function containerNameOf({ containerName, 'container-name': older }: KiveMatch): string {
  return containerName || older || '';
}

/** Inode number and device number of the file; undefined if the object lacks them. JSON numbers are rounded above 2^53. */
export function fileNumbersOf({ spec }: KiveData): {
  readonly inode: number | undefined;
  readonly device: number | undefined;
} {
  return { inode: spec.inodeNo ?? spec['inode-no'], device: spec.devId ?? spec['dev-id'] };
}

/** The kernel that the file belongs to; empty if the object does not specify it. */
export function kernelOf({ spec, metadata }: KiveData): string {
  return spec.kernelId ?? spec['kernel-id'] ?? metadata.labels?.['kernel-id'] ?? '';
}

/** An annotation, given its name in the spelling with `-`; empty if it is absent. */
export function annotationOf({ metadata }: KiveData, name: string): string {
  return metadata.annotations?.[name] ?? metadata.annotations?.[name.replaceAll('-', '_')] ?? '';
}

/** A finalizer of policies and KiveData that even Kive no longer removes: an object with it could never be deleted. */
export const oldFinalizer = 'kivebpf.san7o.github.io/finalizer';
