/** `policies.yml` of Kubewarden's policy-server. */
import { isObject } from '../../../lib/json/json.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { HostCapabilities } from '../engine/host-calls/capabilities.ts';
import type { KindName } from '../engine/host-calls/cluster-reader.ts';
import type { ModuleProgram } from '../engine/program.ts';
import { parseYaml } from '../../../lib/files/yaml-file.ts';
import type { PolicyFileOrigin, ServedPolicy } from './served-policy.ts';

export interface PoliciesFile {
  readonly policies: readonly ServedPolicy[];
  /** Keys that are unknown here, which a newer server may know, as `ID: key`. */
  readonly unknown: readonly string[];
}

const knownOfGroup = ['origin', 'policyMode', 'policies', 'expression', 'message', 'timeoutEvalSeconds'];
const knownOfMember = [
  'module',
  'url',
  'settings',
  'contextAwareResources',
  'timeoutEvalSeconds',
  'hostCapabilities',
  'host_capabilities',
];
const knownOfPolicy = [...knownOfMember, 'origin', 'policyMode', 'allowedToMutate', 'message'];

/** @param what - Where the text comes from, for messages. @throws {RampartError} `INPUT` */
export function parsePoliciesFile(text: string, what: string): PoliciesFile {
  const document = parseYaml(text, what);
  if (document === null || document === undefined) return { policies: [], unknown: [] };
  if (!isObject(document)) throw unusable(what, 'it is not a mapping of policies');
  const unknown: string[] = [];
  const policies = Object.entries(document).map(([id, value]) => policyOf(id, value, what, unknown));
  return { policies, unknown };
}

function policyOf(id: string, value: unknown, file: string, unknown: string[]): ServedPolicy {
  const what = `${file}: ${id}`;
  if (id.includes('/')) throw unusable(what, 'the name of a policy must not contain "/"');
  if (!isObject(value)) throw unusable(what, 'it is not a mapping');
  const mode = value['policyMode'] ?? 'protect';
  if (mode !== 'monitor' && mode !== 'protect') {
    throw unusable(what, `policyMode ${JSON.stringify(mode)} is neither monitor nor protect`);
  }
  const isGroup = 'policies' in value;
  if (isGroup) return groupOf(id, value, mode, { what, unknown });
  note(value, knownOfPolicy, what, unknown);
  const mayMutate = value['allowedToMutate'] ?? false;
  if (typeof mayMutate !== 'boolean') throw unusable(what, 'allowedToMutate is neither true nor false');
  const message = textOf(value, 'message', what);
  return { id, program: programOf(value, what), mode, mayMutate, message, origin: originOf(value, what) };
}

function groupOf(
  id: string,
  value: Record<string, unknown>,
  mode: ServedPolicy['mode'],
  { what, unknown }: { readonly what: string; readonly unknown: string[] },
): ServedPolicy {
  note(value, knownOfGroup, what, unknown);
  const { policies } = value;
  if (!isObject(policies)) throw unusable(what, 'policies is not a mapping');
  const members = new Map<string, ModuleProgram>();
  for (const [name, member] of Object.entries(policies)) {
    if (name.includes('/')) throw unusable(what, `the member name ${JSON.stringify(name)} contains "/"`);
    if (!isObject(member)) throw unusable(what, `policies.${name} is not a mapping`);
    note(member, knownOfMember, `${what}.${name}`, unknown);
    members.set(name, programOf(member, `${what}.${name}`, timeoutOf(value, what)));
  }
  const expression = textOf(value, 'expression', what);
  const message = textOf(value, 'message', what);
  if (expression === undefined) throw unusable(what, 'expression is missing');
  if (message === undefined) throw unusable(what, 'message is missing');
  return {
    id,
    program: { type: 'group', expression, message, members },
    mode,
    mayMutate: false,
    message: undefined,
    origin: originOf(value, what),
  };
}

function originOf(value: Record<string, unknown>, what: string): PolicyFileOrigin | undefined {
  const { origin } = value;
  if (origin === undefined) return undefined;
  const { kind, namespace = '', name, severity } = isObject(origin) ? origin : {};
  if (typeof kind !== 'string' || typeof name !== 'string' || typeof namespace !== 'string')
    throw unusable(what, 'origin is not an object with a kind and a name');
  return { kind, namespace, name, ...(typeof severity === 'string' && { severity }) };
}

function programOf(value: Record<string, unknown>, what: string, otherwiseMs?: number): ModuleProgram {
  const module = textOf(value, 'module', what) ?? textOf(value, 'url', what);
  if (module === undefined) throw unusable(what, 'module is missing');
  const settings = value['settings'] ?? {};
  if (!isObject(settings)) throw unusable(what, 'settings is not a mapping');
  return {
    type: 'module',
    module,
    settings,
    contextAware: contextAwareOf(value['contextAwareResources'] ?? [], what),
    hostCapabilities: capabilitiesOf(value['hostCapabilities'] ?? value['host_capabilities'], what),
    deadlineMs: timeoutOf(value, what) ?? otherwiseMs,
  };
}

function contextAwareOf(value: unknown, what: string): KindName[] {
  if (!Array.isArray(value)) throw unusable(what, 'contextAwareResources is not a list');
  return value.map((each: unknown) => {
    const { apiVersion, kind } = isObject(each) ? each : {};
    if (typeof apiVersion === 'string' && typeof kind === 'string') return { apiVersion, kind };
    throw unusable(what, 'contextAwareResources has an entry without apiVersion and kind');
  });
}

/** Files of older releases do not contain capabilities, which means all of them. */
function capabilitiesOf(value: unknown, what: string): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value) || !value.every((each) => typeof each === 'string')) {
    throw unusable(what, 'hostCapabilities is not a list of capabilities');
  }
  // Throws an error that says which capability is wrong.
  new HostCapabilities(value);
  return value;
}

function timeoutOf(value: Record<string, unknown>, what: string): number | undefined {
  const seconds = value['timeoutEvalSeconds'] ?? undefined;
  if (seconds === undefined) return undefined;
  if (typeof seconds === 'number' && seconds > 0 && seconds <= 300) return seconds * 1000;
  throw unusable(what, 'timeoutEvalSeconds is not a number of seconds up to 300');
}

function textOf(value: Record<string, unknown>, key: string, what: string): string | undefined {
  const text = value[key] ?? undefined;
  if (text === undefined || (typeof text === 'string' && text !== '')) return text;
  throw unusable(what, `${key} is not a string`);
}

function note(
  value: Record<string, unknown>,
  known: readonly string[],
  what: string,
  unknown: string[],
): void {
  unknown.push(...Object.keys(value).flatMap((key) => (known.includes(key) ? [] : [`${what}: ${key}`])));
}

function unusable(what: string, why: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what: `${what} cannot be served`, why });
}
