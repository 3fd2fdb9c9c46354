/** Policies of expressions in a table: settings, a request, and the verdict. */
import { evaluate } from '../../guards/policy-audit/engine/cel/evaluate.fixture.ts';
import type { CelOptions } from '../../guards/policy-audit/engine/cel/open.ts';
import type { JsonObject, PolicyRequest, Verdict } from '../../guards/policy-audit/engine/evaluator.ts';
import { requestFor } from '../../guards/policy-audit/engine/requests.fixture.ts';
import { deepEqual } from '../../lib/json/json.ts';
import { messageOf } from '../../lib/errors/errors.ts';

export interface PolicyCase {
  readonly settings: JsonObject;
  readonly object: JsonObject | null;
  readonly request?: Partial<PolicyRequest>;
  readonly options?: CelOptions;
  /** These fields of the verdict, or the beginning of the error, also of invalid settings. */
  readonly expected: Partial<Verdict> | string;
}

export const allowed: Partial<Verdict> = { allowed: true };
export const denied = (message: string, more: Partial<Verdict> = {}): Partial<Verdict> => ({
  allowed: false,
  message,
  ...more,
});

/** The error in a case, evaluated with these options if it has none. */
export const judgePolicy =
  (defaults: CelOptions) =>
  async ({ settings, object, request = {}, options, expected }: PolicyCase): Promise<string | undefined> => {
    const found = await verdictOf(settings, requestFor(object, request), { ...defaults, ...options });
    if (typeof expected === 'string')
      return typeof found === 'string' && found.startsWith(expected) ? undefined : reported(settings, found);
    const wrong =
      typeof found === 'string' ||
      Object.entries(expected).some(([name, value]) => !deepEqual(found[name as keyof Verdict], value));
    return wrong ? reported(settings, found) : undefined;
  };

async function verdictOf(
  settings: JsonObject,
  request: PolicyRequest,
  options: CelOptions,
): Promise<Verdict | string> {
  try {
    return await evaluate(settings, request, options);
  } catch (error) {
    return messageOf(error);
  }
}

const reported = (settings: JsonObject, found: Verdict | string): string =>
  `${JSON.stringify(settings)}: ${JSON.stringify(found)}`;

export const deployment = (replicas: number, more: JsonObject = {}): JsonObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web', namespace: 'shop', labels: { app: 'web' } },
  spec: { replicas, ...more },
});

export const pod = (spec: JsonObject, metadata: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'web', namespace: 'shop', ...metadata },
  spec,
});
