/**
 * What the objects of the nodes are called, and what their labels and annotations are: as bpfman-operator v0.5.5 has them
 * (controllers/bpfman-agent, internal/constants.go), so that what selects and shows them works unchanged.
 */
import { createHash } from 'node:crypto';

const prefix = 'bpfman.io';
const MAX_LABEL = 63;
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

/** Of what users write: it stays until no node has anything of it. */
export const parentFinalizer = `${prefix}.operator/finalizer`;

/** Of the objects of the nodes: they stay until the node's kernel has nothing of them. */
export function nodeFinalizer(kind: string): string {
  return `${prefix}.${kind.toLowerCase()}controller/finalizer`;
}

/** An annotation of the controller of a kind: `bpfman.io.xdpprogramcontroller/interface`. */
export function kindAnnotation(kind: string, name: string): string {
  return `${prefix}.${kind.toLowerCase()}controller/${name}`;
}

/** A function, file or tracepoint as a part of an attach point. */
export function sanitized(name: string): string {
  return name.replace(/^\//, '').replaceAll(/[/_]/g, '-').toLowerCase();
}

/** Any text as the value of a label: itself where it is one. Otherwise without what may not be there, and with a digest. */
export function labelValue(text: string): string {
  const allowed = text.replaceAll(/[^A-Za-z0-9_.-]/g, '-').replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, '');
  if (allowed === text && text.length <= MAX_LABEL) return text;
  const begin = allowed.slice(0, MAX_LABEL - SUFFIX_LENGTH - 1).replace(/[^A-Za-z0-9]+$/, '');
  return begin === '' ? digest(text) : `${begin}-${digest(text)}`;
}

/**
 * `<name>-<8 hex>`. bpfman draws the digits by chance; here they follow from `identity`, so an agent that was killed while it
 * made the object makes no second one.
 */
export function nodeObjectName(name: string, identity: readonly string[]): string {
  const begin = name.slice(0, MAX_NAME - SUFFIX_LENGTH - 1).replace(/[^a-z0-9]+$/, '');
  return `${begin}-${digest(JSON.stringify(identity))}`;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, SUFFIX_LENGTH);
}
