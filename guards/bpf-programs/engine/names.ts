/**
 * The names, labels and annotations of the per-node objects: the same as in bpfman-operator v0.5.5
 * (controllers/bpfman-agent, internal/constants.go), so that tools that select and show them work unchanged.
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

/** On users' objects: it stays until no node runs any part of them. */
export const parentFinalizer = `${prefix}.operator/finalizer`;

/** On per-node objects: they stay until the node's kernel has nothing of them. @param controller - Of the kind of their parent. */
export function nodeFinalizer(controller: string): string {
  return `${prefix}.${controller}controller/finalizer`;
}

/** Whether it is that of any kind. */
export function isNodeFinalizer(finalizer: string): boolean {
  return /^bpfman\.io\.[a-z]+controller\/finalizer$/.test(finalizer);
}

/** An annotation of the controller of a kind: `bpfman.io.xdpprogramcontroller/interface`. */
export function kindAnnotation(kind: string, name: string): string {
  return `${prefix}.${kind.toLowerCase()}controller/${name}`;
}

/** A function, file or tracepoint as a part of an attach point. */
export function sanitized(name: string): string {
  return name.replace(/^\//, '').replaceAll(/[/_]/g, '-').toLowerCase();
}

/** Selects the objects of a node. */
export function ofNode(nodeName: string): string {
  return `${labels.hostname}=${labelValue(nodeName)}`;
}

/**
 * Numbers IDs that come more than once: `a`, `a-2`. bpfman gives two programs of one type and function the same ID,
 * and loses one.
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
