/**
 * Parses the answers of policies into verdicts. A guest may return anything, so each field is checked; nothing malformed counts as
 * allowed.
 */
import { isDeepStrictEqual } from 'node:util';

import { isObject } from '../../../../lib/json/json.ts';
import { parseJsonKeys } from '../../../../lib/json/escaped-keys.ts';
import { applyJsonPatch } from '../../../../lib/json/json-patch.ts';
import {
  EvaluationError,
  type JsonObject,
  type PolicyRequest,
  type SettingsVerdict,
  type Verdict,
} from '../evaluator.ts';
import type { WasmRuntime } from './metadata.ts';

/** Errors show at most this many characters of an answer. */
const shown = 200;
/** Upstream's message. */
const mutatedNothing =
  'Incoming object is null, which happens only with DELETE operations, but the policy is attempting a mutation. This is not allowed';

/** @throws {EvaluationError} `answer` if it is not a verdict. */
export function verdictOf(runtime: WasmRuntime, text: string, request: PolicyRequest): Verdict {
  const answer = parsed(text);
  if (runtime === 'opa') return ofReview(firstResult(answer), request);
  if (runtime === 'gatekeeper') return ofViolations(firstResult(answer));
  return ofKubewarden(answer, request);
}

/** @throws {EvaluationError} `answer` */
export function settingsVerdictOf(text: string): SettingsVerdict {
  const answer = recordOf(parsed(text));
  const valid = answer['valid'];
  if (typeof valid !== 'boolean') throw garbage('`valid` is not a boolean', text);
  return { valid, ...field('message', optionalText(answer, 'message')) };
}

function ofKubewarden(answer: unknown, request: PolicyRequest): Verdict {
  const fields = recordOf(answer);
  const allowed = fields['accepted'];
  if (typeof allowed !== 'boolean') throw garbage('`accepted` is not a boolean', answer);
  const mutated = fields['mutated_object'] ?? undefined;
  if (mutated !== undefined && (request.object ?? undefined) === undefined) {
    return { allowed: false, message: mutatedNothing };
  }
  return {
    allowed,
    ...field('message', optionalText(fields, 'message')),
    ...field('code', optionalCode(fields)),
    ...field('mutated', mutated === undefined ? undefined : changed(recordOf(mutated), request)),
    ...field('warnings', optionalTexts(fields, 'warnings')),
    ...field('auditAnnotations', optionalMap(fields, 'audit_annotations')),
  };
}

/** The first result of a Rego entrypoint. */
function firstResult(answer: unknown): unknown {
  const first: unknown = Array.isArray(answer) ? answer[0] : undefined;
  if (first === undefined) throw garbage('the entrypoint is undefined', answer);
  return recordOf(first)['result'];
}

/** Policies for Open Policy Agent return an AdmissionReview. */
function ofReview(result: unknown, request: PolicyRequest): Verdict {
  const response = recordOf(recordOf(result)['response']);
  const allowed = response['allowed'];
  if (typeof allowed !== 'boolean') throw garbage('`response.allowed` is not a boolean', result);
  const status = recordOf(response['status'] ?? {});
  return {
    allowed,
    ...field('message', optionalText(status, 'message')),
    ...field('code', optionalCode(status)),
    ...field('reason', optionalText(status, 'reason')),
    ...field('mutated', patched(response['patch'] ?? undefined, request)),
    ...field('warnings', optionalTexts(response, 'warnings')),
    ...field('auditAnnotations', optionalMap(response, 'auditAnnotations')),
  };
}

/** Policies for Gatekeeper return a list of violations, each with a message. */
function ofViolations(result: unknown): Verdict {
  if (!Array.isArray(result)) throw garbage('a Gatekeeper policy must return a list of violations', result);
  const messages = result.map((violation) => optionalText(recordOf(violation), 'msg'));
  if (messages.length === 0) return { allowed: true };
  return { allowed: false, message: messages.filter((message) => message !== undefined).join(', ') };
}

function patched(patch: unknown, request: PolicyRequest): JsonObject | undefined {
  if (patch === undefined) return undefined;
  const { object } = request;
  if (typeof patch !== 'string' || object === undefined || object === null) {
    throw garbage('`response.patch` is not a JSON patch in base64 for an existing object', patch);
  }
  try {
    const operations = parsed(Buffer.from(patch, 'base64').toString('utf8'));
    return changed(applyJsonPatch(object, operations), request);
  } catch (error) {
    if (error instanceof EvaluationError) throw error;
    throw garbage(`\`response.patch\` cannot be applied: ${(error as Error).message}`, patch);
  }
}

function changed(mutated: JsonObject, { object }: PolicyRequest): JsonObject | undefined {
  return isDeepStrictEqual(mutated, object) ? undefined : mutated;
}

function parsed(text: string): unknown {
  if (text === '') throw new EvaluationError('answer', 'the policy returned nothing');
  try {
    return parseJsonKeys(text);
  } catch (error) {
    throw garbage(`it is not JSON (${(error as Error).message})`, text);
  }
}

function recordOf(value: unknown): Record<string, unknown> {
  if (isObject(value)) return value;
  throw garbage('an object is required', value);
}

function optionalText(fields: Record<string, unknown>, name: string): string | undefined {
  const value = fields[name] ?? undefined;
  if (value === undefined || typeof value === 'string') return value;
  throw garbage(`\`${name}\` is not a string`, value);
}

/** Languages without optional fields write 0 for a missing value. */
function optionalCode(fields: Record<string, unknown>): number | undefined {
  const code = fields['code'] ?? 0;
  if (code === 0) return undefined;
  if (typeof code === 'number' && Number.isInteger(code) && code > 0 && code <= 65_535) return code;
  throw garbage('`code` is not an HTTP status code', code);
}

function optionalTexts(fields: Record<string, unknown>, name: string): string[] | undefined {
  const value = fields[name] ?? undefined;
  if (value === undefined || (Array.isArray(value) && value.every((item) => typeof item === 'string')))
    return value;
  throw garbage(`\`${name}\` is not a list of strings`, value);
}

function optionalMap(fields: Record<string, unknown>, name: string): Record<string, string> | undefined {
  const value = fields[name] ?? undefined;
  if (value === undefined) return undefined;
  const record = recordOf(value);
  if (Object.values(record).every((item) => typeof item === 'string'))
    return record as Record<string, string>;
  throw garbage(`\`${name}\` is not a map of strings`, value);
}

function field<Name extends string, T>(name: Name, value: T | undefined): { [Key in Name]?: T } {
  return (value === undefined ? {} : { [name]: value }) as { [Key in Name]?: T };
}

function garbage(why: string, value: unknown): EvaluationError {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing');
  const said = text.length > shown ? `${text.slice(0, shown)}...` : text;
  return new EvaluationError('answer', `the policy's response is malformed: ${why}: ${said}`);
}
