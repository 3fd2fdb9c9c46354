/**
 * Names, labels and annotations of the per-node objects: the same as in bpfman-operator v0.5.5 (controllers/bpfman-agent,
 * internal/constants.go), so that tools that select and display these objects work unchanged.
 */
import { createHash } from 'node:crypto';

import { labelValue } from '../../../lib/kube/selectors/label-names.ts';

const prefix = 'bpfman.io';
const MAX_NAME = 253;
const SUFFIX_LENGTH = 8;

export const labels = {
  ownedByProgram: `${prefix}/ownedByProgram`,
  appProgramId: `${prefix}/appProgramId`,
  hostname: 'kubernetes.io/hostname',
} as const;

export const annotations = {
  programId: `${prefix}/ProgramId`,
  attachPoint: `${prefix}/bpfProgramAttachPoint`,
} as const;

/** On users' objects: stays until no node runs any of their programs. */
export const parentFinalizer = `${prefix}.operator/finalizer`;

/** On per-node objects: stays until the node's kernel runs nothing for them. @param controller - The controller of the parent's kind. */
export function nodeFinalizer(controller: string): string {
  return `${prefix}.${controller}controller/finalizer`;
}

/** Whether it is the per-node finalizer of any kind. */
export function isNodeFinalizer(finalizer: string): boolean {
  return /^bpfman\.io\.[a-z]+controller\/finalizer$/.test(finalizer);
}

/** An annotation of the controller for a kind: `bpfman.io.xdpprogramcontroller/interface`. */
export function kindAnnotation(kind: string, name: string): string {
  return `${prefix}.${kind.toLowerCase()}controller/${name}`;
}

/** A function, file or tracepoint in the form that it has in an attach point. */
export function sanitized(name: string): string {
  return name.replace(/^\//, '').replaceAll(/[/_]/g, '-').toLowerCase();
}

/** A label selector for the objects of a node. */
export function ofNode(nodeName: string): string {
  return `${labels.hostname}=${labelValue(nodeName)}`;
}

/**
 * Makes ids distinct by numbering repeated ones: `a`, `a-2`. bpfman gives two programs with the same type and function the same id, and
 * loses one of them.
 */
export function distinctIds(): (id: string) => string {
  const counts = new Map<string, number>();
  return (id) => {
    const count = (counts.get(id) ?? 0) + 1;
    counts.set(id, count);
    return count === 1 ? id : `${id}-${count}`;
  };
}

/**
 * `<name>-<8 hex>`. bpfman chooses the digits at random; here they follow from `identity`, so an agent that was killed while it
 * created the object does not create a second one.
 */
export function nodeObjectName(name: string, identity: readonly string[]): string {
  const begin = name.slice(0, MAX_NAME - SUFFIX_LENGTH - 1).replace(/[^a-z0-9]+$/, '');
  return `${begin}-${digest(JSON.stringify(identity))}`;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, SUFFIX_LENGTH);
}
