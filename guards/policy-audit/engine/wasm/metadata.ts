/** The metadata of a policy: the custom section `io.kubewarden.metadata`, and the runtime that it needs. */
import { isObject } from '../../../../lib/json/json.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import type { KindName } from '../host-calls/cluster-reader.ts';
import { BinaryError, BinaryReader, customSection, type Section, sectionIds, sectionsOf } from './binary.ts';

export type WasmRuntime = 'gatekeeper' | 'opa' | 'wapc' | 'wasi';

/** Metadata as written by Kubewarden's tools (`kwctl annotate`). */
export interface PolicyMetadata {
  readonly executionMode: 'gatekeeper' | 'kubewarden-wapc' | 'opa' | 'wasi';
  readonly protocolVersion?: string;
  readonly policyType: string;
  readonly mutating: boolean;
  readonly backgroundAudit: boolean;
  readonly rules: readonly Readonly<Record<string, unknown>>[];
  readonly contextAwareResources: readonly KindName[];
  readonly annotations: Readonly<Record<string, string>>;
  readonly minimumKubewardenVersion?: string;
}

export interface InspectedModule {
  readonly runtime: WasmRuntime;
  /** Undefined if the module has no such section. */
  readonly metadata: PolicyMetadata | undefined;
  /** Imports from the host: `wapc.__host_call`, `env.opa_abort`. */
  readonly imports: readonly string[];
  readonly exports: readonly string[];
}

const sectionName = 'io.kubewarden.metadata';
const runtimes = { 'kubewarden-wapc': 'wapc', gatekeeper: 'gatekeeper', opa: 'opa', wasi: 'wasi' } as const;

/**
 * The metadata of a module; `undefined` if it has none.
 *
 * @throws {RampartError} `INPUT` if it is not a WebAssembly module, or its metadata is malformed.
 */
export function readPolicyMetadata(module: Uint8Array): PolicyMetadata | undefined {
  return inspected(() => metadataOf(sectionsOf(module)));
}

/**
 * For `rampart policy inspect`: metadata, runtime, imports and exports. Nothing is compiled or run.
 *
 * @throws {RampartError} `INPUT` also if the runtime of the module cannot be determined.
 */
export function inspectPolicy(module: Uint8Array): InspectedModule {
  return inspected(() => {
    const sections = sectionsOf(module);
    const metadata = metadataOf(sections);
    const imports = namesOf(sections, sectionIds.import, (reader) => {
      const name = `${reader.name()}.${reader.name()}`;
      skipImportType(reader);
      return name;
    });
    const exports = namesOf(sections, sectionIds.export, (reader) => {
      const name = reader.name();
      reader.byte();
      reader.skipLeb();
      return name;
    });
    const runtime =
      metadata === undefined ? runtimeByNames(imports, exports) : runtimes[metadata.executionMode];
    return { runtime, metadata, imports, exports };
  });
}

function inspected<T>(look: () => T): T {
  try {
    return look();
  } catch (error) {
    if (!(error instanceof BinaryError)) throw error;
    throw new RampartError(errorCodes.INPUT, {
      what: 'cannot read the policy',
      why: error.message,
      next: 'A policy is a WebAssembly module; check that the file is complete',
      cause: error,
    });
  }
}

function metadataOf(sections: readonly Section[]): PolicyMetadata | undefined {
  const content = customSection(sections, sectionName);
  if (content === undefined) return undefined;
  let said: unknown;
  try {
    said = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(content));
  } catch (error) {
    throw malformed('it is not JSON', error);
  }
  if (!isObject(said)) throw malformed('it is not an object');
  const mode = said['executionMode'] ?? 'kubewarden-wapc';
  if (!isMode(mode)) {
    throw malformed(
      `executionMode ${JSON.stringify(mode)} is not one of ${Object.keys(runtimes).join(', ')}`,
    );
  }
  const { protocolVersion, minimumKubewardenVersion } = said;
  return {
    executionMode: mode,
    ...(typeof protocolVersion === 'string' && { protocolVersion }),
    policyType: typeof said['policyType'] === 'string' ? said['policyType'] : 'kubernetes',
    mutating: said['mutating'] === true,
    backgroundAudit: said['backgroundAudit'] !== false,
    rules: listOf(said['rules'], 'rules'),
    contextAwareResources: listOf(said['contextAwareResources'], 'contextAwareResources').map(kindOf),
    annotations: textsOf(said['annotations']),
    ...(typeof minimumKubewardenVersion === 'string' && { minimumKubewardenVersion }),
  };
}

function isMode(mode: unknown): mode is PolicyMetadata['executionMode'] {
  return typeof mode === 'string' && Object.hasOwn(runtimes, mode);
}

function listOf(value: unknown, field: string): Record<string, unknown>[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || !value.every(isObject)) throw malformed(`${field} is not a list of objects`);
  return value;
}

function kindOf({ apiVersion, kind }: Record<string, unknown>): KindName {
  if (typeof apiVersion === 'string' && typeof kind === 'string') return { apiVersion, kind };
  throw malformed('an entry of contextAwareResources has no apiVersion or kind');
}

function textsOf(value: unknown): Record<string, string> {
  if (!isObject(value)) return {};
  return Object.fromEntries(Object.entries(value).map(([key, text]) => [key, String(text)]));
}

function malformed(why: string, cause?: unknown): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `cannot read the section ${sectionName} of the policy`,
    why,
    next: 'Rebuild and annotate the policy',
    cause,
  });
}

/** @param read - Parses one entry of the section. */
function namesOf(
  sections: readonly Section[],
  wanted: number,
  read: (reader: BinaryReader) => string,
): string[] {
  const reader = new BinaryReader(sections.find(({ id }) => id === wanted)?.content ?? Uint8Array.of(0));
  const found: string[] = [];
  for (let left = reader.u32(); left > 0; left--) found.push(read(reader));
  return found;
}

/** Moves to the position after the two names of an import. */
export function skipImportType(reader: BinaryReader): void {
  const kind = reader.byte();
  if (kind === 0) return reader.skipLeb();
  if (kind === 1) {
    skipValueType(reader);
    return skipLimits(reader);
  }
  if (kind === 2) return skipLimits(reader);
  if (kind === 3) {
    skipValueType(reader);
    reader.byte();
    return;
  }
  if (kind === 4) {
    reader.byte();
    return reader.skipLeb();
  }
  throw new BinaryError(`an import has the unknown kind ${kind}`);
}

/** Skips a value type: `(ref null? heaptype)` is a prefix and a heap type; all others are one byte. */
export function skipValueType(reader: BinaryReader): void {
  const type = reader.byte();
  if (type === 0x63 || type === 0x64) reader.skipLeb();
}

function skipLimits(reader: BinaryReader): void {
  const flags = reader.byte();
  reader.skipLeb();
  if ((flags & 1) !== 0) reader.skipLeb();
}

function runtimeByNames(imports: readonly string[], exports: readonly string[]): WasmRuntime {
  if (exports.includes('__guest_call')) return 'wapc';
  // Both of Rego's dialects have the same ABI; as upstream, Gatekeeper's has to be declared in the metadata.
  if (exports.includes('opa_eval_ctx_new') || imports.includes('env.opa_abort')) return 'opa';
  if (exports.includes('_start')) return 'wasi';
  throw new RampartError(errorCodes.INPUT, {
    what: 'cannot determine the runtime of the policy',
    why: `it has no section ${sectionName}, and exports neither __guest_call (waPC), opa_eval_ctx_new (Rego) nor _start (WASI)`,
    next: 'Check that this module is a policy',
  });
}
