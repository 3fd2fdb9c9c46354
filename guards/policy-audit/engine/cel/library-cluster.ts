/**
 * The additions of the module `cel-policy` to the CEL of Kubernetes: `kw.k8s`, by which expressions read the
 * cluster, and `base64`.
 */
import { allFunctions } from '../../../../lib/cel/environment.ts';
import { failure } from '../../../../lib/cel/failure.ts';
import type { Library } from '../../../../lib/cel/register.ts';
import { currentAsks } from './asks.ts';
import type { ListReference } from './cluster.ts';

class ClientBuilder {
  readonly apiVersion: string;

  constructor(apiVersion: string) {
    this.apiVersion = apiVersion;
  }

  equals(other: unknown): boolean {
    return this === other;
  }
}

class Client {
  readonly reference: ListReference;

  constructor(reference: ListReference) {
    this.reference = reference;
  }

  with(part: Partial<ListReference>): Client {
    return new Client({ ...this.reference, ...part });
  }

  equals(other: unknown): boolean {
    return this === other;
  }
}

function get({ reference }: Client, name: string): unknown {
  const { apiVersion, kind, namespace } = reference;
  const object = currentAsks().object({
    apiVersion,
    kind,
    name,
    ...(namespace !== undefined && { namespace }),
  });
  if (object !== undefined) return object;
  const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
  throw failure(`cannot get Kubernetes resource: there is no ${kind} ${name}${where}`);
}

/** Accepts base64 with or without padding, and line breaks. */
function decodedBase64(text: string): Uint8Array {
  const plain = text.replaceAll(/[\r\n]/g, '');
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/.test(plain))
    throw failure('illegal base64 data');
  return new Uint8Array(Buffer.from(plain, 'base64'));
}

let library: Library | undefined;

/** All functions of Kubernetes, plus these. */
export function policyFunctions(): Library {
  if (library !== undefined) return library;
  library = allFunctions()
    .extended()
    .type('kw.k8s.ClientBuilder', ClientBuilder)
    .type('kw.k8s.Client', Client)
    .add('base64.decode(string): bytes', decodedBase64)
    .add('base64.encode(bytes): string', (bytes: Uint8Array) => Buffer.from(bytes).toString('base64'))
    .add('kw.k8s.apiVersion(string): kw.k8s.ClientBuilder', (version: string) => new ClientBuilder(version))
    .add(
      'kw.k8s.ClientBuilder.kind(string): kw.k8s.Client',
      ({ apiVersion }: ClientBuilder, kind: string) => new Client({ apiVersion, kind }),
    )
    .add('kw.k8s.Client.namespace(string): kw.k8s.Client', (client: Client, namespace: string) =>
      client.with({ namespace }),
    )
    .add('kw.k8s.Client.labelSelector(string): kw.k8s.Client', (client: Client, labelSelector: string) =>
      client.with({ labelSelector }),
    )
    .add('kw.k8s.Client.fieldSelector(string): kw.k8s.Client', (client: Client, fieldSelector: string) =>
      client.with({ fieldSelector }),
    )
    .add('kw.k8s.Client.get(string): dyn', get)
    .add('kw.k8s.Client.list(): dyn', ({ reference }: Client) => currentAsks().list(reference));
  return library;
}
