/** The names in this guard's lines: both ends of a packet or a connection, pods and policies. */
import type { ObjectReference } from '../../guard/stream/finding.ts';
import type { PodKey } from './engine/rules.ts';

export interface LineEnd {
  readonly address: string;
  /** Undefined for protocols without ports, and for later fragments. */
  readonly port?: number;
  /** Undefined if the address belongs to no pod, or to one in its node's network. */
  readonly namespace?: string;
  readonly pod?: string;
}

/** @param pod - Undefined if the address belongs to no pod. */
export function lineEnd(address: string, pod: PodKey | undefined, port: number | undefined): LineEnd {
  const [namespace, name] = pod?.split('/') ?? [];
  return {
    address,
    ...(port !== undefined && { port }),
    ...(namespace !== undefined && name !== undefined && { namespace, pod: name }),
  };
}

/** @param key - `namespace/name` */
export function referenceOf(kind: string, key: string | undefined): ObjectReference | null {
  if (key === undefined) return null;
  const [namespace = '', name = ''] = key.split('/');
  return { kind, namespace, name };
}

/** The pod of an end, if it is one. */
export function podReference({ namespace, pod }: LineEnd): ObjectReference | null {
  return referenceOf('Pod', pod === undefined ? undefined : `${namespace}/${pod}`);
}

interface Ends {
  readonly source: LineEnd;
  readonly destination: LineEnd;
  readonly protocol: string;
}

/** `shop/web (10.0.0.3) -> shop/db (10.0.0.4) 5432/TCP` */
export function endsText(ends: Ends): string {
  return `${endText(ends.source)} -> ${endText(ends.destination)} ${portText(ends)}`;
}

/** `5432/TCP` */
export function portText({ protocol, destination }: Pick<Ends, 'destination' | 'protocol'>): string {
  return destination.port === undefined ? protocol : `${destination.port}/${protocol}`;
}

export function endText({ namespace, pod, address }: LineEnd): string {
  return pod === undefined ? address : `${namespace}/${pod} (${address})`;
}
