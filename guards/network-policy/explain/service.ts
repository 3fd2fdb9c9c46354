/** Where a connection to a Service goes: the endpoints behind it, by its name, its addresses or the port of a node. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { parseAddress } from '../engine/addresses.ts';
import { objectKey } from '../engine/objects.ts';
import type { Address, Family } from '../engine/rules.ts';
import type { ExplainedPod, Question } from './explanation.ts';

interface ServicePort {
  readonly name?: string | null;
  readonly protocol?: string | null;
  readonly port: number;
  readonly nodePort?: number | null;
}

/** The fields that are read. */
export interface ServiceObject {
  readonly metadata: { readonly namespace?: string; readonly name?: string };
  readonly spec?: {
    readonly clusterIP?: string | null;
    readonly clusterIPs?: readonly string[] | null;
    readonly externalIPs?: readonly string[] | null;
    readonly externalTrafficPolicy?: string | null;
    readonly ports?: readonly ServicePort[] | null;
  };
  readonly status?: {
    readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string | null }[] | null } | null;
  };
}

/** The fields that are read. */
export interface EndpointSliceObject {
  readonly metadata: {
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly endpoints?:
    | readonly {
        readonly addresses: readonly string[];
        readonly conditions?: { readonly ready?: boolean | null } | null;
        readonly nodeName?: string | null;
      }[]
    | null;
  readonly ports?:
    | readonly {
        readonly name?: string | null;
        readonly protocol?: string | null;
        readonly port?: number | null;
      }[]
    | null;
}

export interface Services {
  readonly services: readonly ServiceObject[];
  readonly slices: readonly EndpointSliceObject[];
}

export interface ServiceTarget {
  /** `namespace/name` */
  readonly service: string;
  /** Port of the Service: `5432/TCP`. */
  readonly port: string;
  /** One question for each ready endpoint. */
  readonly questions: readonly Question[];
}

interface ServiceName {
  readonly namespace: string;
  readonly name: string;
}

const label = '[a-z0-9](?:[-a-z0-9]*[a-z0-9])?';
const asResource = new RegExp(`^(?:svc|service)/(?:(${label})/)?(${label})$`);
const asDomain = new RegExp(`^(${label})\\.(${label})\\.svc(?:\\.${label})*\\.?$`);

/** Parses `svc/NAME`, `svc/NAMESPACE/NAME`, or `NAME.NAMESPACE.svc` with or without the domain of the cluster. */
export function parseServiceName(text: string, inNamespace: string): ServiceName | undefined {
  const [, namespace = inNamespace, name] = asResource.exec(text) ?? [];
  if (name !== undefined) return { namespace, name };
  const [, first, second] = asDomain.exec(text) ?? [];
  return first === undefined || second === undefined ? undefined : { namespace: second, name: first };
}

/**
 * @param inNamespace - Namespace of a name without one.
 * @returns undefined if the destination is not a Service
 * @throws {RampartError} `INPUT` for a Service that does not exist, has no such port, or no endpoint that is
 * ready.
 */
export function serviceTarget(
  { services, slices }: Services,
  pods: readonly ExplainedPod[],
  question: Question,
  inNamespace: string,
): ServiceTarget | undefined {
  const found = findService(services, pods, question, inNamespace);
  if (found === undefined) return undefined;
  const { service, port, node } = found;
  const key = keyOf(service);
  const { from, protocol } = question;
  const address = parseAddress(question.to);
  const families = familiesOf(from, pods);
  const all = endpointsOf(service, port, slices);
  const family =
    question.family ??
    address?.family ??
    (service.spec?.clusterIPs ?? [])
      .map((text) => parseAddress(text)?.family)
      .find((one) => one !== undefined && families.has(one)) ??
    all.find((one) => families.has(one.family))?.family;
  const isLocalOnly = service.spec?.externalTrafficPolicy === 'Local';
  const reached = all.filter(
    (one) => one.family === family && (node === undefined || !isLocalOnly || one.node === node),
  );
  const text = `${port.port}/${protocol}`;
  if (reached.length === 0) {
    throw new RampartError(errorCodes.INPUT, {
      what: `Service ${key} leads nowhere`,
      why: `it has no endpoint for ${text} that is ready${family === undefined ? '' : ` and has an IPv${family} address`}`,
      next: `Look at its EndpointSlices: kubectl get endpointslices -n ${service.metadata.namespace} -l kubernetes.io/service-name=${service.metadata.name}`,
    });
  }
  const holdsPod = pods.some(
    ({ spec, status }) => spec?.hostNetwork !== true && status?.podIP === parseAddress(from)?.text,
  );
  const isOutside = parseAddress(from) !== undefined && !holdsPod;
  return {
    service: key,
    port: text,
    questions: reached.map((one) => ({
      // A node that forwards the packet to another makes its own address the source.
      from: node !== undefined && node !== one.node && isOutside ? question.to : from,
      to: one.address,
      ...{ protocol, port: one.port, family: one.family },
    })),
  };
}

function keyOf({ metadata }: ServiceObject): string {
  return `${metadata.namespace}/${metadata.name}`;
}

interface FoundService {
  readonly service: ServiceObject;
  readonly port: ServicePort;
  /** Set if the Service was addressed by a port of a node: the name of that node. */
  readonly node?: string;
}

function findService(
  services: readonly ServiceObject[],
  pods: readonly ExplainedPod[],
  question: Question,
  inNamespace: string,
): FoundService | undefined {
  const { to } = question;
  const address = parseAddress(to);
  if (address === undefined) {
    const name = parseServiceName(to, inNamespace);
    if (name === undefined) return undefined;
    const key = `${name.namespace}/${name.name}`;
    const service = services.find((one) => keyOf(one) === key);
    if (service !== undefined) return { service, port: portOf(service, question) };
    // A pod's namespace may be named `svc`.
    if (pods.some((pod) => objectKey(pod) === to)) return undefined;
    throw new RampartError(errorCodes.INPUT, {
      what: `there is no Service ${key}`,
      next: 'Name one as svc/NAMESPACE/NAME, or svc/NAME with --namespace',
    });
  }
  const service = services.find((one) => addressesOf(one).includes(address.text));
  if (service !== undefined) return { service, port: portOf(service, question) };
  const onNode = pods.find(({ status }) =>
    [status?.hostIP, ...(status?.hostIPs ?? []).map(({ ip }) => ip)].some(
      (text) => parseAddress(text ?? '')?.text === address.text,
    ),
  );
  const node = onNode?.spec?.nodeName;
  if (node === undefined || node === null) return undefined;
  for (const one of services) {
    const port = one.spec?.ports?.find(
      ({ nodePort, protocol }) => nodePort === question.port && (protocol ?? 'TCP') === question.protocol,
    );
    if (port !== undefined) return { service: one, port, node };
  }
  return undefined;
}

function addressesOf({ spec, status }: ServiceObject): Address[] {
  return [
    ...[spec?.clusterIP, ...(spec?.clusterIPs ?? []), ...(spec?.externalIPs ?? [])],
    ...(status?.loadBalancer?.ingress ?? []).map(({ ip }) => ip),
  ].flatMap((text) => parseAddress(text ?? '')?.text ?? []);
}

function portOf(service: ServiceObject, { port, protocol }: Question): ServicePort {
  const ports = service.spec?.ports ?? [];
  const found = ports.find(
    (one) => (one.port === port || one.name === port) && (one.protocol ?? 'TCP') === protocol,
  );
  if (found !== undefined) return found;
  const all = ports.map((one) => `${one.port}/${one.protocol ?? 'TCP'}${one.name ? ` (${one.name})` : ''}`);
  throw new RampartError(errorCodes.INPUT, {
    what: `Service ${keyOf(service)} has no port ${port === undefined ? protocol : `${port}/${protocol}`}`,
    why: all.length === 0 ? 'it has no ports' : `it has ${all.join(', ')}`,
  });
}

interface Endpoint {
  readonly address: Address;
  readonly family: Family;
  readonly port: number;
  readonly node: string | undefined;
}

function endpointsOf(
  { metadata }: ServiceObject,
  { name, protocol }: ServicePort,
  slices: readonly EndpointSliceObject[],
): Endpoint[] {
  const found = new Map<Address, Endpoint>();
  for (const slice of slices) {
    if (slice.metadata.namespace !== metadata.namespace) continue;
    if (slice.metadata.labels?.['kubernetes.io/service-name'] !== metadata.name) continue;
    const { port } =
      slice.ports?.find(
        (one) => (one.name ?? '') === (name ?? '') && (one.protocol ?? 'TCP') === (protocol ?? 'TCP'),
      ) ?? {};
    if (port === undefined || port === null) continue;
    for (const { addresses, conditions, nodeName } of slice.endpoints ?? []) {
      // A missing condition counts as ready.
      if (conditions?.ready === false) continue;
      const address = parseAddress(addresses[0] ?? '');
      if (address === undefined) continue;
      const { text, family } = address;
      found.set(text, { address: text, family, port, node: nodeName ?? undefined });
    }
  }
  return [...found.values()];
}

/** The address families of the source. */
function familiesOf(from: string, pods: readonly ExplainedPod[]): ReadonlySet<Family> {
  const own = parseAddress(from);
  if (own !== undefined) return new Set([own.family]);
  const { status } = pods.find((pod) => objectKey(pod) === from) ?? {};
  const texts = [status?.podIP, ...(status?.podIPs ?? []).map(({ ip }) => ip)];
  return new Set(texts.flatMap((text) => parseAddress(text ?? '')?.family ?? []));
}
