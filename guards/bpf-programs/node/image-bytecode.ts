/**
 * Bytecode in OCI images: which file in the single layer it is, and what the labels of the image say about it (bpfman,
 * docs/design/bpf-image-spec: the labels io.ebpf.programs and io.ebpf.maps, and older ones).
 */
import { endianness } from 'node:os';

import { isObject } from '../../../lib/json/json.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isForbidden, isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { type Secret, secrets } from '../../../lib/kube/object/object.ts';
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { readArchive } from './archive.ts';
import { credentialsOfSecrets } from '../../../lib/oci/pull-secrets.ts';
import type { Artifact, CredentialsSource, PullOptions, Registry } from '../../../lib/oci/registry.ts';
import { forTenant } from '../../../lib/oci/tenant-error.ts';
import type { Parent } from '../engine/parent.ts';
import type { BytecodeImage } from '../spec-schema.ts';
import { MAX_OBJECT_BYTES } from './bytecode-file.ts';
import { isOfTenant, type PullBytecode } from './bytecode.ts';
import type { BytecodeVerification } from './bytecode-verification.ts';

const imageLabels = {
  programs: 'io.ebpf.programs',
  maps: 'io.ebpf.maps',
  oldFunction: 'io.ebpf.bpf_function_name',
  oldName: 'io.ebpf.program_name',
  oldType: 'io.ebpf.program_type',
} as const;

export interface ImageOptions {
  readonly registry: Pick<Registry, 'layer' | 'pull'>;
  readonly client: KubeClient;
  /** If set, images must have the signatures that it requires. */
  readonly verification?: BytecodeVerification | undefined;
}

/** Pulls with the registry client, using the Secret that the object names, and verifies the signatures of each image, cached or not. */
export function imagePuller({ registry, client, verification }: ImageOptions): PullBytecode {
  return async (image, parent, signal) => {
    const credentials = await credentialsFor(client, image, parent, signal);
    const options: PullOptions = { policy: image.imagepullpolicy, signal, credentials };
    const artifact = await registry.pull(image.url, options);
    let untrusted: unknown;
    try {
      await verification?.checkImage(registry, artifact, options);
    } catch (error) {
      signal.throwIfAborted();
      untrusted = error;
    }
    return {
      digest: artifact.digest,
      untrusted,
      bytes: () => objectOf(registry, artifact, options),
      types: programTypesOf(artifact),
      stale: artifact.stale && messageOf(isOfTenant(parent) ? forTenant(artifact.stale) : artifact.stale),
    };
  };
}

async function credentialsFor(
  client: KubeClient,
  { imagepullsecret: named }: BytecodeImage,
  { namespace: own, kind, fields: { pullSecret: field } }: Parent,
  signal: AbortSignal,
): Promise<CredentialsSource | undefined> {
  if (named === undefined) return undefined;
  const { name, namespace } = named;
  if (own !== undefined && namespace !== own) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${field}.namespace is ${namespace}`,
      why: `a ${kind.kind} may use only Secrets of its own namespace, which is ${own}`,
    });
  }
  let secret: Secret;
  try {
    secret = await client.get(secrets, { namespace, name }, { signal });
  } catch (error) {
    if (isNotFound(error)) {
      throw new RampartError(errorCodes.NOT_FOUND, {
        what: `${field}: there is no Secret ${namespace}/${name}`,
        next: `Create it: kubectl -n ${namespace} create secret docker-registry ${name} ...`,
      });
    }
    if (!isForbidden(error)) throw error;
    throw new RampartError(errorCodes.PRIVILEGE, {
      what: `${field}: the agent may not read Secret ${namespace}/${name}`,
      next: `Allow it: kubectl -n ${namespace} create rolebinding rampart-bpf-pull-secrets --clusterrole=rampart-bpf-pull-secrets --serviceaccount=rampart-system:rampart-agent`,
      cause: error,
    });
  }
  return credentialsOfSecrets([{ name: `${namespace}/${name}`, secret }]);
}

/**
 * The programs that the image declares: their types, keyed by name ('' if only the name is given); undefined if it declares no programs.
 *
 * @throws {RampartError} `CORRUPT` for labels that are not a JSON object of strings.
 */
export function programTypesOf({
  config,
  reference,
}: Artifact): Readonly<Record<string, string>> | undefined {
  const inner = config['config'];
  const found = isObject(inner) ? inner['Labels'] : undefined;
  const labels = isObject(found) ? found : {};
  let programs: Readonly<Record<string, string>> | undefined;
  for (const label of [imageLabels.programs, imageLabels.maps]) {
    const text = labels[label];
    if (text === undefined) continue;
    const types = stringsOf(text);
    if (types === undefined) {
      throw new RampartError(errorCodes.CORRUPT, {
        what: `label ${label} of ${reference} is ${JSON.stringify(text).slice(0, 100)}`,
        why: 'it must be a JSON object from program names to types: {"xdp_pass":"xdp"}',
        next: 'Rebuild the image',
      });
    }
    if (label === imageLabels.programs) programs = types;
  }
  if (programs !== undefined) return programs;
  const old = labels[imageLabels.oldFunction] ?? labels[imageLabels.oldName];
  const type = labels[imageLabels.oldType];
  return typeof old === 'string' && old !== '' ? { [old]: typeof type === 'string' ? type : '' } : undefined;
}

function stringsOf(text: unknown): Readonly<Record<string, string>> | undefined {
  try {
    const value: unknown = JSON.parse(String(text));
    if (!isObject(value) || Object.values(value).some((one) => typeof one !== 'string')) return undefined;
    return value as Record<string, string>;
  } catch {
    return undefined;
  }
}

/**
 * The object file of an image.
 *
 * @throws {RampartError} `CORRUPT` if the image has another structure; errors of the registry.
 */
export async function objectOf(
  registry: Pick<Registry, 'layer'>,
  artifact: Artifact,
  options: PullOptions,
): Promise<Uint8Array> {
  const { reference, layers } = artifact;
  const [layer, ...more] = layers;
  if (layer === undefined || more.length > 0) {
    throw refused(reference, `it has ${layers.length} layers, but exactly one is required`);
  }
  const what = `the layer of ${reference}`;
  const files = await readArchive(await registry.layer(artifact, layer, options), what, {
    fileBytes: MAX_OBJECT_BYTES,
  });
  const objects = files.filter(({ path }) => path.endsWith('.o'));
  const [object, ...others] = objects.length > 0 ? objects : files;
  if (object === undefined) throw refused(reference, 'its layer contains no file');
  if (others.length > 0) {
    const names = [object, ...others].map(({ path }) => path);
    throw refused(
      reference,
      `its layer contains several files, but exactly one object file is required: ${names.slice(0, 5).join(', ')}`,
    );
  }
  checkElf(object.bytes, `${object.path} of ${reference}`);
  return object.bytes;
}

const EI_CLASS = 4;
const EI_DATA = 5;
const E_MACHINE = 18;
const EM_BPF = 247;

/** @throws {RampartError} `CORRUPT` if it is not an eBPF object in this machine's byte order (elf(5)). */
function checkElf(bytes: Uint8Array, what: string): void {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const refuse = (why: string): RampartError => refused(what, why);
  if (view.length < 64 || view.toString('latin1', 0, 4) !== '\x7fELF') throw refuse('it is not an ELF file');
  const order = view[EI_DATA] === 1 ? 'LE' : 'BE';
  if (order !== endianness()) {
    const names = { LE: 'little-endian', BE: 'big-endian' } as const;
    throw refuse(
      `it is ${names[order]}, and this node is ${names[endianness()]}; build it with -target bpf${endianness() === 'LE' ? 'el' : 'eb'}`,
    );
  }
  const machine = order === 'LE' ? view.readUInt16LE(E_MACHINE) : view.readUInt16BE(E_MACHINE);
  if (view[EI_CLASS] !== 2 || machine !== EM_BPF)
    throw refuse(`it is for machine ${machine}, and eBPF is ${EM_BPF}; build it with clang -target bpf`);
}

function refused(what: string, why: string): RampartError {
  return new RampartError(errorCodes.CORRUPT, { what: `${what} cannot be used as bytecode`, why });
}
