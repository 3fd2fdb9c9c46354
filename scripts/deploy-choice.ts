/**
 * The selectable parts of deploy/, for the one file and for the chart, and the objects that kustomize makes
 * of a selection.
 */
import { join } from 'node:path';

import { errorCodes, RampartError } from '../lib/errors/errors.ts';
import { parseReference } from '../lib/oci/reference.ts';
import { type Kustomization, kustomize, kustomizeOf, type Manifest } from './kustomize.ts';

/**
 * Directories of deploy/ with a component that is chosen beside guards, in the order in which they are applied: one that labels all
 * objects comes before one that brings an object without the label.
 */
export const extraComponents = [
  'guards/bpf-programs/v0.5',
  'bpf-programs-csi',
  'bpf-verification',
  'network-policy-iptables',
  'monitoring',
  'ui',
  'metrics-network-policy',
] as const;

/** Not a component: it may belong to another product, so it must not have the label by which `rampart uninstall` finds ours. */
export const policyReports = 'policy-reports';

export const extras = [...extraComponents, policyReports] as const;

export type Extra = (typeof extras)[number];

export interface DeployChoice {
  /** Names of guards, in the order of apps/guards.ts. */
  readonly guards: readonly string[];
  readonly extras: readonly Extra[];
  /** Default: that of deploy/. */
  readonly image?: string;
}

/** With paths from deploy/, without {@link policyReports}. @throws {RampartError} `INPUT` for an image that is no reference. */
export function kustomizationOf({ guards, extras: chosen, image }: DeployChoice): Kustomization {
  return {
    resources: ['base'],
    components: [
      ...guards.map((name) => `guards/${name}`),
      ...extraComponents.filter((extra) => chosen.includes(extra)),
    ],
    ...(image !== undefined && { images: [{ name: 'rampart', ...parsedImage(image) }] }),
  };
}

/** @param deploy - The directory. @throws {RampartError} `INPUT` for an image that is no reference. */
export function objectsOf(choice: DeployChoice, deploy: string): Manifest[] {
  return [
    ...kustomizeOf(kustomizationOf(choice), deploy),
    ...(choice.extras.includes(policyReports) ? kustomize(join(deploy, policyReports)) : []),
  ];
}

/** As written: without a tag, that of deploy/ stays. */
export function parsedImage(image: string): { newName: string; newTag?: string; digest?: string } {
  parseReference(image);
  const [, newName = image, newTag, digest] = /^(.+?)(?::([^/:@]+))?(?:@(.+))?$/.exec(image) ?? [];
  return { newName, ...(newTag !== undefined && { newTag }), ...(digest !== undefined && { digest }) };
}

/** Those of `all` that are named, in its order. @throws {RampartError} `INPUT` for another name. */
export function chosenOf<T extends string>(what: string, names: readonly string[], all: readonly T[]): T[] {
  const unknown = names.find((name) => !(all as readonly string[]).includes(name));
  if (unknown === undefined) return all.filter((one) => names.includes(one));
  throw new RampartError(errorCodes.INPUT, {
    what: `there is no ${what} ${JSON.stringify(unknown)}`,
    next: `Use any of ${all.join(', ')}`,
  });
}
