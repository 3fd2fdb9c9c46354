/**
 * Tests of policies as plain YAML: an object, settings, and what is expected.
 *
 *     policy: ./no-root.wasm          # or manifests, or a URL
 *     settings: {names: [root]}
 *     cases:
 *       - name: root is refused
 *         object: {apiVersion: v1, kind: Pod, metadata: {name: root}}
 *         expected: {allowed: false, message: root is denied}
 */
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import { isObject } from '../../../lib/json/json.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { parseManifestValues } from '../../../lib/manifests/document.ts';
import { describeProblem } from '../../../lib/manifests/problem.ts';
import { EvaluationError, type JsonObject, type PolicyRequest, type Verdict } from '../engine/evaluator.ts';
import { openEvaluator, type OpenEvaluatorOptions } from '../policies/open-evaluator.ts';
import type { PolicyProgram } from '../engine/program.ts';
import { kindNameOf } from './kind-names.ts';
import { readPolicies } from './policy-source.ts';
import { creationOf } from './subjects.ts';

export interface Expected {
  readonly allowed?: boolean;
  readonly message?: string;
  readonly messageContains?: string;
  readonly code?: number;
  /** The entire object as the policy should return it. */
  readonly mutated?: JsonObject;
  readonly warnings?: readonly string[];
  /** Expects an evaluation without a verdict, with this text in the reason. */
  readonly error?: string;
  /** The policy's verdict on the settings. */
  readonly settingsValid?: boolean;
}

export interface TestCase {
  readonly file: string;
  readonly line: number;
  readonly name: string;
  readonly program: PolicyProgram;
  readonly request: PolicyRequest | undefined;
  readonly expected: Expected;
}

export interface TestResult {
  readonly test: TestCase;
  /** Undefined if the result was as expected. */
  readonly problem: string | undefined;
}

const knownOfExpected = [
  'allowed',
  'message',
  'messageContains',
  'code',
  'mutated',
  'warnings',
  'error',
  'settingsValid',
];
const knownOfCase = [
  'name',
  'policy',
  'settings',
  'object',
  'objectFile',
  'oldObject',
  'operation',
  'userInfo',
  'namespace',
  'request',
  'expected',
];

/**
 * The cases of a file; empty if it has none.
 *
 * @param policy - For cases that do not name a policy: the name for `readPolicies`.
 * @throws {RampartError} `INPUT`
 */
export function readTestCases(file: string, policy: string | undefined): TestCase[] {
  const { values, problems } = parseManifestValues(readFileSync(file, 'utf8'), file);
  const [problem] = problems;
  if (problem !== undefined) throw new RampartError(errorCodes.INPUT, { what: describeProblem(problem) });
  return values.flatMap(({ value, lineOf }) => {
    if (!isObject(value)) return [];
    if (Array.isArray(value['cases'])) {
      return value['cases'].map((one: unknown, index) =>
        caseOf(isObject(one) ? { ...shared(value), ...one } : one, {
          file,
          line: lineOf(`cases[${index}]`),
          policy,
        }),
      );
    }
    return 'expected' in value ? [caseOf(value, { file, line: lineOf('expected'), policy })] : [];
  });
}

export async function runTestCase(test: TestCase, options: OpenEvaluatorOptions): Promise<TestResult> {
  return { test, problem: await problemOf(test, options) };
}

/** How the result differs from the expectation; undefined if it does not. */
async function problemOf(test: TestCase, options: OpenEvaluatorOptions): Promise<string | undefined> {
  try {
    await using evaluator = await openEvaluator(test.program, options);
    const settings = await evaluator.validateSettings();
    const { settingsValid } = test.expected;
    if (settingsValid !== undefined && settings.valid !== settingsValid) {
      return `settings are ${settings.valid ? 'valid' : `invalid (${settings.message ?? ''})`}`;
    }
    if (!settings.valid && settingsValid === undefined) {
      return `settings are invalid: ${settings.message ?? 'no reason'}`;
    }
    if (test.request === undefined || !settings.valid) return undefined;
    const verdict = await evaluator.evaluate(test.request, options.signal && { signal: options.signal });
    return difference(verdict, test.expected);
  } catch (error) {
    options.signal?.throwIfAborted();
    const { message } = error as Error;
    const { error: wanted } = test.expected;
    const isWanted = error instanceof EvaluationError && wanted !== undefined && message.includes(wanted);
    return isWanted ? undefined : `no verdict: ${message}`;
  }
}

function difference(verdict: Verdict, expected: Expected): string | undefined {
  const { allowed, message, code, mutated, warnings } = verdict;
  const said = `${allowed ? 'allowed' : 'refused'}${message === undefined ? '' : `: ${message}`}`;
  if (expected.error !== undefined) return `${said}, but an error was expected`;
  if (expected.allowed !== undefined && allowed !== expected.allowed) return said;
  const isOther = expected.message !== undefined && message !== expected.message;
  const { messageContains: part } = expected;
  if (isOther || (part !== undefined && message?.includes(part) !== true))
    return `message ${JSON.stringify(message)}`;
  if (expected.code !== undefined && code !== expected.code) return `code ${code}`;
  if (expected.mutated !== undefined && !isDeepStrictEqual(mutated, expected.mutated)) {
    return `mutated ${JSON.stringify(mutated)}`;
  }
  if (expected.warnings !== undefined && !isDeepStrictEqual(warnings ?? [], expected.warnings)) {
    return `warnings ${JSON.stringify(warnings ?? [])}`;
  }
  return undefined;
}

/** The fields common to all cases of a file. */
function shared(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== 'cases'));
}

function caseOf(
  value: unknown,
  { file, line, policy }: Pick<TestCase, 'file' | 'line'> & { readonly policy: string | undefined },
): TestCase {
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.INPUT, { what: `${file}:${line}: the test`, why });
  if (!isObject(value)) throw refuse('is not a mapping');
  for (const key of Object.keys(value)) {
    if (!knownOfCase.includes(key))
      throw refuse(`has the unknown key ${JSON.stringify(key)} (known: ${knownOfCase.join(', ')})`);
  }
  const { expected, settings } = value;
  if (!isObject(expected)) throw refuse('has no "expected"');
  for (const key of Object.keys(expected)) {
    if (!knownOfExpected.includes(key))
      throw refuse(`expects the unknown ${JSON.stringify(key)} (known: ${knownOfExpected.join(', ')})`);
  }
  if (Object.keys(expected).length === 0) throw refuse('expects nothing');
  if (settings !== undefined && !isObject(settings)) throw refuse('has settings that are not a mapping');
  const named = typeof value['policy'] === 'string' ? pathFrom(value['policy'], file) : policy;
  if (named === undefined) throw refuse('names no policy');
  const [found, second] = readPolicies(named, settings);
  if (found === undefined || second !== undefined)
    throw refuse(`can test only one policy, but ${named} does not contain exactly one`);
  const { name } = value;
  return {
    file,
    line,
    name: typeof name === 'string' ? name : `line ${line}`,
    program: found.program,
    request: requestOf(value, file, refuse),
    expected,
  };
}

function requestOf(
  value: Record<string, unknown>,
  file: string,
  refuse: (why: string) => RampartError,
): PolicyRequest | undefined {
  const { request, objectFile, oldObject, operation = 'CREATE', userInfo = {}, namespace } = value;
  if (request !== undefined) {
    if (!isObject(request)) throw refuse('has a request that is not a mapping');
    return request as unknown as PolicyRequest;
  }
  const object =
    typeof objectFile === 'string'
      ? objectOfFile(resolve(dirname(file), objectFile), refuse)
      : value['object'];
  const either = object ?? oldObject;
  if (either === undefined) return undefined;
  if (!isObject(either)) throw refuse('has an object that is not a mapping');
  const { apiVersion = 'v1', kind = '', metadata } = either;
  const kindName = kindNameOf(
    String(apiVersion),
    String(kind),
    isObject(metadata) && 'namespace' in metadata,
  );
  const { object: _, ...base } = creationOf(either, kindName);
  return {
    ...base,
    operation: operation as PolicyRequest['operation'],
    userInfo: userInfo as JsonObject,
    ...(typeof namespace === 'string' && { namespace }),
    object: (object as JsonObject | undefined) ?? null,
    oldObject: (oldObject as JsonObject | undefined) ?? null,
    dryRun: false,
  };
}

function objectOfFile(path: string, refuse: (why: string) => RampartError): unknown {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw refuse(`has an objectFile that cannot be read: ${(error as Error).message}`);
  }
  return parseManifestValues(text, path).values[0]?.value;
}

/** Resolves the path of a policy relative to the file. Other names, such as URLs, are unchanged. */
function pathFrom(policy: string, file: string): string {
  return /^\.{0,2}\//.test(policy) ? resolve(dirname(file), policy) : policy;
}
