/**
 * Findings as events of OCSF, the Open Cybersecurity Schema Framework, for OTLP: https://schema.ocsf.io/1.8.0/
 *
 * The names of attributes are those of OCSF, with dots between nested objects, so that each can be searched for. A guard decides the class
 * of its findings and adds its own attributes; those that all findings have are in otlp-record.ts.
 */
import { basename } from 'node:path';

import type { Attributes } from '../../lib/otlp/log-record.ts';
import type { FindingHead } from './finding.ts';
import type { ReadFinding } from './read-finding.ts';

export const ocsfVersion = '1.8.0';

export const ocsfClasses = {
  fileActivity: { uid: 1001, name: 'File System Activity', category: [1, 'System Activity'] },
  complianceFinding: { uid: 2003, name: 'Compliance Finding', category: [2, 'Findings'] },
  detectionFinding: { uid: 2004, name: 'Detection Finding', category: [2, 'Findings'] },
  networkActivity: { uid: 4001, name: 'Network Activity', category: [4, 'Network Activity'] },
  apiActivity: { uid: 6003, name: 'API Activity', category: [6, 'Application Activity'] },
} as const;

export interface OcsfEvent {
  readonly class: keyof typeof ocsfClasses;
  /** `activity_id` and `activity_name` of the class. */
  readonly activity: readonly [id: number, name: string];
  /** The outcome, according to the profile `security_control`. */
  readonly action?: 'allowed' | 'denied' | 'observed';
  readonly attributes: Attributes;
}

/**
 * Undefined for a line that lacks keys which the guard writes: then only the attributes common to all findings are sent.
 *
 * @example
 * export const doorMapping: OcsfMapping = ({ keys }) => ({
 *   class: 'detectionFinding',
 *   activity: findingActivity(false),
 *   action: 'observed',
 *   attributes: { 'door.name': textAt(keys, 'door') },
 * });
 */
export type OcsfMapping = (finding: ReadFinding) => OcsfEvent | undefined;

/**
 * The value at a path of nested objects; lines of earlier versions and of other programs may have other
 * types.
 */
export function valueAt(keys: unknown, ...path: readonly string[]): unknown {
  let value = keys;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[key];
  }
  return value;
}

/** The text at the path; undefined also if it is empty. */
export function textAt(keys: unknown, ...path: readonly string[]): string | undefined {
  const value = valueAt(keys, ...path);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function integerAt(keys: unknown, ...path: readonly string[]): number | undefined {
  const value = valueAt(keys, ...path);
  return Number.isSafeInteger(value) ? (value as number) : undefined;
}

/** A process in the form that findings have it. */
export interface OcsfProcess {
  readonly pid?: number | undefined;
  readonly binary?: string | undefined;
  readonly arguments?: string | undefined;
  readonly cwd?: string | undefined;
  readonly uid?: number | undefined;
  readonly parentPid?: number | undefined;
  readonly parentBinary?: string | undefined;
  readonly container?: { readonly id?: string | undefined; readonly name?: string | undefined };
}

/** The attributes `actor.process.*`. */
export function processAttributes(process: OcsfProcess): Attributes {
  const { pid, binary, cwd, uid, parentPid, parentBinary, container } = process;
  const words = [binary, process.arguments].filter((word) => word !== undefined && word !== '');
  return {
    'actor.process.pid': pid,
    'actor.process.name': binary && basename(binary),
    'actor.process.path': binary,
    'actor.process.cmd_line': words.length === 0 ? undefined : words.join(' '),
    'actor.process.working_directory': cwd,
    // OCSF requires a string, because Windows has no numeric user IDs.
    'actor.process.user.uid': uid === undefined ? undefined : String(uid),
    'actor.process.parent_process.pid': parentPid,
    'actor.process.parent_process.path': parentBinary,
    'actor.process.container.uid': container?.id,
    'actor.process.container.name': container?.name,
  };
}

/** The attributes `file.*`. */
export function fileAttributes(path: string): Attributes {
  // 0 is `unknown`: findings do not contain the file's type.
  return { 'file.path': path, 'file.name': basename(path), 'file.type_id': 0 };
}

/** The attribute `resources`, with the object of the finding, for classes that have it. */
export function resourceAttributes({ object }: FindingHead): Attributes {
  if (object === null) return {};
  const { kind, namespace, name } = object;
  return { resources: [{ type: kind, ...(namespace !== '' && { namespace }), name }] };
}

/**
 * Attributes that classes of the category Findings require. All findings of one policy about one object have the same `uid`, so that a
 * finding that closes another one can be matched to it.
 *
 * @param places - The places of the finding within its object, if there are several.
 */
export function findingAttributes(
  { guard, object, policy, message }: FindingHead,
  isClosed: boolean,
  places: readonly string[] = [],
): Attributes {
  const references = [object, policy].map((one) =>
    one === null ? '' : [one.kind, one.namespace, one.name].join('/'),
  );
  return {
    'finding_info.uid': [guard, ...references, ...places].join(':'),
    'finding_info.title': message,
    status_id: isClosed ? 4 : 1,
    status: isClosed ? 'Resolved' : 'New',
  };
}

/** `activity_id` and its name in the category Findings. */
export function findingActivity(isClosed: boolean): readonly [number, string] {
  return isClosed ? [3, 'Close'] : [1, 'Create'];
}
