/** Converts an access to the JSON line that consumers read: a KiveAlert. */
import type { FindingHead, ObjectReference, Severity } from '../../../guard/stream/finding.ts';
import { printable, visibleJson } from '../../../lib/output/printable.ts';
import {
  type Access,
  type AccessWord,
  attributeBits,
  attributesOf,
  type AttributeWord,
  describeMask,
  kernelBits,
  operationBits,
  operationOf,
  type OperationWord,
  type Verdict,
} from '../../../lib/sensor/access.ts';

/** The versions that Kive's alert has had; their keys are the same. */
export const alertVersions = ['v1', 'v2alpha1'] as const;
export type AlertVersion = (typeof alertVersions)[number];

/** What all alerts of one target have in common: of one trap on one file of one container. */
export interface AlertContext {
  /** Default: v1. */
  readonly alertVersion?: AlertVersion;
  /** Name of the KivePolicy; empty without a cluster. */
  readonly policyName: string;
  /** The policy's namespace; empty or absent without a cluster. */
  readonly policyNamespace?: string;
  /** `/proc/sys/kernel/random/boot_id`. */
  readonly kernelId: string;
  /** The path as the policy or the user wrote it. */
  readonly path: string;
  /** The file in the directory, if `path` is a directory. */
  readonly file?: string;
  /** The URL to which alerts are sent as well; may be empty. */
  readonly callback: string;
  /** Whether the file is no longer at its path: it was renamed, or it was replaced and still has another name. */
  readonly moved?: boolean;
  readonly customMetadata: Readonly<Record<string, string>>;
  /** All fields are empty if the file belongs to no pod. */
  readonly pod: {
    readonly name: string;
    readonly namespace: string;
    readonly ip: string;
    readonly container: {
      /** With the runtime: `containerd://da9e46...`. */
      readonly id: string;
      readonly name: string;
    };
  };
  readonly nodeName: string;
}

/** The fields of a process that the kernel program may have truncated. */
export type TruncatedField = 'binary' | 'cwd' | 'arguments';

/**
 * An alert as `JSON.parse` returns it. All keys are always present, in this order, after those of the head that all findings have. Keys
 * that Kive does not have are marked "ours"; a consumer written for Kive can ignore them. Both Kive's alert and the head have `node`.
 */
export interface KiveAlert extends FindingHead {
  readonly guard: 'file-access';
  readonly kind: 'KiveAlert';
  /** The pod whose file was accessed. */
  readonly object: ObjectReference | null;
  readonly verdict: Verdict;
  readonly 'kive-alert-version': AlertVersion;
  readonly 'kive-policy-name': string;
  /** Ours: two namespaces may have policies with the same name. */
  readonly 'kive-policy-namespace': string;
  /** RFC 3339, UTC, nanoseconds: `2026-11-21T10:00:00.123456789Z`. */
  readonly timestamp: string;
  readonly metadata: {
    readonly path: string;
    /**
     * A u64, written in full. `JSON.parse` rounds it above 2^53: to compare such inode numbers,
     * read them from the text of the line.
     */
    readonly inode: number;
    /** The kernel's MAY_* bits; 0 for an operation other than an access. */
    readonly mask: number;
    readonly 'kernel-id': string;
    readonly callback: string;
    /** Ours: `super_block.s_dev`, major << 20 | minor. */
    readonly device: number;
    /** Ours: the mask in words. */
    readonly access: readonly AccessWord[];
    /** Ours: whether the kernel allowed it. */
    readonly verdict: Verdict;
    /** Ours: how many accesses were folded into this one by the rate limit. */
    readonly folded: number;
    /**
     * Ours. This key and those that follow are present only if they apply. An operation is something for which the kernel does not check a
     * permission of the file.
     */
    readonly operation?: OperationWord;
    /** For `attributes`: which attributes. */
    readonly attributes?: readonly AttributeWord[];
    /**
     * For `delete`, `rename` and `replace`: the previous path of the file, as the process sees it, if known.
     */
    readonly from?: string;
    /** For `rename`: the new path. */
    readonly to?: string;
    /** The path of the file, if `path` is a directory. */
    readonly file?: string;
    /** `path` no longer leads to this file. */
    readonly moved?: true;
  };
  readonly 'custom-metadata': Readonly<Record<string, string>>;
  readonly pod: AlertContext['pod'];
  readonly process: {
    /** The thread ID, in the initial PID namespace. */
    readonly pid: number;
    /** The process ID, in the initial PID namespace. */
    readonly tgid: number;
    readonly uid: number;
    readonly gid: number;
    /** Full path of the executable, as the process sees it. */
    readonly binary: string;
    readonly cwd: string;
    /** argv[1..], joined by one space. */
    readonly arguments: string;
    /** Ours, like all keys that follow. */
    readonly ppid: number;
    readonly comm: string;
    /** A u64, see `metadata.inode`. */
    readonly 'cgroup-id': number;
    readonly 'pid-namespace': number;
    readonly 'mount-namespace': number;
    /** Which of the fields above were truncated because they were too long for the kernel's record; nearly always empty. */
    readonly truncated: readonly TruncatedField[];
  };
  /** Ours, if containers are known: who accessed the file; `pod` only says whose file it is. */
  readonly accessor?: AlertAccessor;
}

/** The container that a process was in when it accessed a file. */
export interface AlertAccessor {
  /**
   * `owner`: the container that the file belongs to; `container`: another one; `host`: a process of the node, in no container; `unknown`: a
   * container that no runtime has reported.
   */
  readonly relation: 'owner' | 'container' | 'host' | 'unknown';
  /** The texts are empty if it is in no container. */
  readonly pod: { readonly name: string; readonly namespace: string };
  /** For `unknown`: the id without the name of the runtime, if the cgroup contains it. */
  readonly container: { readonly id: string; readonly name: string };
  /** Only for `host`: the systemd unit, if there is one: `system.slice/cron.service`. */
  readonly unit?: string;
  /** Only for `host`: the process is in another mount namespace than the node's own. */
  readonly mounts?: 'own';
}

/** The texts in a line that depend on the access mask. */
interface MaskTexts {
  readonly words: string;
  readonly before: string;
  readonly after: string;
  /** Empty for an access. */
  readonly operation: string;
}

/** The mask of an alert's access, see {@link Access.mask}. */
export function maskOf({ mask, operation, attributes = [] }: KiveAlert['metadata']): number {
  if (operation === undefined) return mask;
  return attributes.reduce<number>((bits, word) => bits | attributeBits[word], operationBits[operation]);
}

/** Adds the accessor to a line of {@link AlertEncoder.encode} that has none. */
export function withAccessor(line: string, accessor: string): string {
  return `${line.slice(0, -1)},"accessor":${accessor}}`;
}

const NS_PER_SECOND = 1_000_000_000n;
const threeDigits: readonly string[] = Array.from({ length: 1000 }, (_, value) =>
  String(value).padStart(3, '0'),
);
/** Kernel masks use eight bits; a map with more entries than this is not worth keeping. */
const MAX_CACHED_MASKS = 1024;
const needsEscape = /[^ !#-[\]-~]/;

/** An access with an unknown verdict counts as allowed. */
export const severityOfVerdict = {
  allowed: 'high',
  denied: 'medium',
  unknown: 'high',
} as const satisfies Record<Verdict, Severity>;

const didWhat: Readonly<Record<Verdict, string>> = {
  allowed: 'accessed',
  denied: 'was denied access to',
  unknown: 'tried to access',
};

/** Encodes a JSON string. Most texts need no escape, and testing for that is faster than JSON.stringify. */
function quote(text: string): string {
  return needsEscape.test(text) ? visibleJson(JSON.stringify(text)) : `"${text}"`;
}

/** A part of a JSON string, without the quotes. It has no line breaks, even after parsing. */
function quotedPart(text: string): string {
  return needsEscape.test(text) ? quote(printable(text)).slice(1, -1) : text;
}

function referenceJson(kind: string, namespace: string, name: string): string {
  return name === '' ? 'null' : visibleJson(JSON.stringify({ kind, namespace, name }));
}

/**
 * Writes the alerts of one target. The text that never changes is serialized once, and what seldom changes (second, mask, inode, cgroup) is
 * kept from the previous alert. Concatenating strings was faster here than writing into a Buffer (see README.md).
 *
 * The result is identical to that of {@link visibleJson} for the same object, including integers above 2^53.
 */
export class AlertEncoder {
  /** Keyed by verdict: the text from `node` up to the name of the program in the message. */
  readonly #afterTime: Readonly<Record<Verdict, string>>;
  /** Keyed by verdict: the text after that name, up to the words for the access. */
  readonly #accessed: Readonly<Record<Verdict, string>>;
  readonly #head: string;
  readonly #path: string;
  readonly #afterTimestamp: string;
  readonly #afterMask: string;
  readonly #afterMetadata: string;
  readonly #masks = new Map<number, MaskTexts>();
  #secondStartNs = 0n;
  #second = '1970-01-01T00:00:00.';
  #inode = 0n;
  #inodeText = '0';
  #cgroupId = 0n;
  #cgroupText = '0';

  constructor(context: AlertContext) {
    const { pod } = context;
    const { path, file = path } = context;
    this.#path = file;
    // Written field by field, not from the caller's object: the keys and their order are the contract.
    const podJson = visibleJson(
      JSON.stringify({
        name: pod.name,
        namespace: pod.namespace,
        ip: pod.ip,
        container: { id: pod.container.id, name: pod.container.name },
      }),
    );
    const node = visibleJson(JSON.stringify({ name: context.nodeName }));
    const object = referenceJson('Pod', pod.namespace, pod.name);
    const policy = referenceJson('KivePolicy', context.policyNamespace ?? '', context.policyName);
    this.#afterTime = eachVerdict(
      (verdict) =>
        `Z","node":${node},"severity":"${severityOfVerdict[verdict]}","object":${object},"policy":${policy},` +
        `"verdict":"${verdict}","message":"`,
    );
    const place = pod.name === '' ? '' : ` in ${pod.namespace}/${pod.name}/${pod.container.name}`;
    const where = quotedPart(`${file}${place}`);
    this.#accessed = eachVerdict((verdict) => ` ${didWhat[verdict]} ${where} (`);
    this.#head =
      `).","kive-alert-version":"${context.alertVersion ?? 'v1'}","kive-policy-name":${quote(context.policyName)},` +
      `"kive-policy-namespace":${quote(context.policyNamespace ?? '')},"timestamp":"`;
    this.#afterTimestamp = `Z","metadata":{"path":${quote(path)},"inode":`;
    this.#afterMask = `,"kernel-id":${quote(context.kernelId)},"callback":${quote(context.callback)},"device":`;
    this.#afterMetadata =
      `${context.file === undefined ? '' : `,"file":${quote(file)}`}${context.moved === true ? ',"moved":true' : ''}},"custom-metadata":${visibleJson(JSON.stringify(context.customMetadata))},"pod":${podJson}` +
      ',"process":{"pid":';
  }

  /**
   * One alert as one line, without any newline.
   *
   * @param accessor - The JSON of an {@link AlertAccessor}; without it the key is absent.
   */
  encode(access: Access, accessor?: string): string {
    const mask = this.#masks.get(access.mask) ?? this.#addMask(access.mask);
    if (access.inode !== this.#inode) {
      this.#inode = access.inode;
      this.#inodeText = access.inode.toString();
    }
    if (access.cgroupId !== this.#cgroupId) {
      this.#cgroupId = access.cgroupId;
      this.#cgroupText = access.cgroupId.toString();
    }
    const { verdict } = access;
    const timestamp = this.#timestamp(access.timeNs);
    const program = access.executable === '' ? `[${access.comm}]` : access.executable;
    return (
      '{"guard":"file-access","kind":"KiveAlert","time":"' +
      timestamp +
      this.#afterTime[verdict] +
      quotedPart(program) +
      this.#accessed[verdict] +
      mask.words +
      this.#head +
      timestamp +
      this.#afterTimestamp +
      this.#inodeText +
      mask.before +
      access.device +
      mask.after +
      verdict +
      '","folded":' +
      access.folded +
      mask.operation +
      (mask.operation === '' ? '' : namesJson(namesOf(access, this.#path))) +
      this.#afterMetadata +
      access.tid +
      ',"tgid":' +
      access.pid +
      ',"uid":' +
      access.uid +
      ',"gid":' +
      access.gid +
      ',"binary":' +
      quote(access.executable) +
      ',"cwd":' +
      quote(access.cwd) +
      ',"arguments":' +
      quote(access.arguments) +
      ',"ppid":' +
      access.ppid +
      ',"comm":' +
      quote(access.comm) +
      ',"cgroup-id":' +
      this.#cgroupText +
      ',"pid-namespace":' +
      access.pidNamespace +
      ',"mount-namespace":' +
      access.mountNamespace +
      ',"truncated":' +
      truncatedJson(access) +
      (accessor === undefined ? '}}' : '},"accessor":' + accessor + '}')
    );
  }

  /** Without the final Z. `timeNs` is a u64, so the year always has four digits. */
  #timestamp(timeNs: bigint): string {
    let ns = Number(timeNs - this.#secondStartNs);
    if (ns < 0 || ns >= 1e9) {
      const second = timeNs / NS_PER_SECOND;
      this.#secondStartNs = second * NS_PER_SECOND;
      this.#second = new Date(Number(second) * 1000).toISOString().slice(0, '2026-11-21T10:00:00.'.length);
      ns = Number(timeNs - this.#secondStartNs);
    }
    const ms = Math.trunc(ns / 1e6);
    const us = Math.trunc(ns / 1e3) - ms * 1e3;
    return this.#second + threeDigits[ms] + threeDigits[us] + threeDigits[ns % 1e3];
  }

  #addMask(mask: number): MaskTexts {
    if (this.#masks.size >= MAX_CACHED_MASKS) this.#masks.clear();
    const fragments = {
      words: describeMask(mask).join(', '),
      before: `,"mask":${kernelBits(mask)}${this.#afterMask}`,
      after: `,"access":${JSON.stringify(describeMask(mask))},"verdict":"`,
      operation: operationJson(mask),
    };
    this.#masks.set(mask, fragments);
    return fragments;
  }
}

function eachVerdict(text: (verdict: Verdict) => string): Readonly<Record<Verdict, string>> {
  return { allowed: text('allowed'), denied: text('denied'), unknown: text('unknown') };
}

function operationJson(mask: number): string {
  const operation = operationOf(mask);
  if (operation === undefined) return '';
  const attributes = operation === 'attributes' ? `,"attributes":${JSON.stringify(attributesOf(mask))}` : '';
  return `,"operation":"${operation}"${attributes}`;
}

interface Names {
  readonly from: string;
  readonly to: string;
}

/**
 * The paths before and after an operation. If they start at the root of their file system, its mount point is derived from `path`, which
 * led to the file: a rename stays within a mount.
 */
export function namesOf({ from, to, namesOfFileSystem }: Access, path: string): Names {
  if (!namesOfFileSystem || from === '' || !path.endsWith(from)) return { from, to };
  const mount = path.slice(0, path.length - from.length);
  return { from: path, to: to && mount + to };
}

function namesJson({ from, to }: Names): string {
  return (from === '' ? '' : `,"from":${quote(from)}`) + (to === '' ? '' : `,"to":${quote(to)}`);
}

function truncatedJson(access: Access): string {
  if (!access.executableTruncated && !access.cwdTruncated && !access.argumentsTruncated) return '[]';
  const fields: TruncatedField[] = [];
  if (access.executableTruncated) fields.push('binary');
  if (access.cwdTruncated) fields.push('cwd');
  if (access.argumentsTruncated) fields.push('arguments');
  return JSON.stringify(fields);
}
