/** Derives the configuration for agents from the one that a FileIntegrity names. */
import type { ConfigMap } from '../../../lib/kube/object/object.ts';
import { RampartError } from '../../../lib/errors/errors.ts';
import { noEnvironment } from '../aide-conf/conf.ts';
import { convertAideConf } from '../aide-conf/convert.ts';
import { defaultAideConf } from '../aide-conf/default-conf.ts';
import { readAideConf } from '../aide-conf/evaluate.ts';
import { parseAideConf } from '../aide-conf/parse.ts';
import { describeProblem, ProblemList, sourceOf } from '../aide-conf/source.ts';
import { allStatements, type Condition } from '../aide-conf/syntax.ts';
import { names, type FileIntegrity, type FileIntegritySpec } from '../api.ts';
import { activeConfigName } from '../results/object-names.ts';
import { Selection } from '../aide-conf/selection.ts';

/** The ConfigMap and key of a user's configuration. */
export interface ConfSource {
  readonly namespace: string;
  readonly name: string;
  readonly key: string;
}

export type EffectiveConf =
  | { readonly kind: 'conf'; readonly text: string; readonly warnings: readonly string[] }
  | {
      readonly kind: 'error';
      /** Shown in conditions and metrics. */
      readonly reason: 'ConfigMapMissing' | 'ConfigMapUnreadable' | 'KeyMissing' | 'ConfigurationInvalid';
      /** The error, where it is, and the remedy. */
      readonly message: string;
    };

type Refusal = Extract<EffectiveConf, { kind: 'error' }>;

/** Limit of the active ConfigMap (Kubernetes, MaxSecretSize). */
const MAX_TEXT_BYTES = 1_048_576;

/** Undefined for the default configuration, also if only a namespace is given, as in FIO. */
export function confSourceOf({ metadata, spec }: FileIntegrity): ConfSource | undefined {
  const { name = '', namespace = '', key = '' } = spec.config;
  if (name === '') return undefined;
  return {
    name,
    namespace: namespace === '' ? (metadata.namespace ?? '') : namespace,
    key: key === '' ? names.confKey : key,
  };
}

/** @param configMap undefined if it does not exist */
export function userText(
  { metadata }: FileIntegrity,
  { namespace, name, key }: ConfSource,
  configMap: Pick<ConfigMap, 'data' | 'binaryData'> | undefined,
): string | Refusal {
  const where = `ConfigMap ${namespace}/${name}`;
  const missing = (reason: Refusal['reason'], what: string, next: string): Refusal => ({
    kind: 'error',
    reason,
    message: `${what}. ${next}.`,
  });
  if (namespace === metadata.namespace && name === activeConfigName(metadata.name ?? '')) {
    const what = `${where} holds the converted configuration`;
    return missing('ConfigurationInvalid', what, 'Use another ConfigMap in spec.config');
  }
  if (configMap === undefined) {
    const next = 'Create it, or correct spec.config.name and spec.config.namespace';
    return missing('ConfigMapMissing', `${where} does not exist`, next);
  }
  const text = configMap.data?.[key];
  if (text === undefined && configMap.binaryData?.[key] !== undefined) {
    const next = 'Convert it to UTF-8';
    return missing('KeyMissing', `the key ${key} of ${where} is binary data`, next);
  }
  if (text === undefined || text.trim() === '') {
    const keys = Object.keys(configMap.data ?? {});
    const found = keys.length === 0 ? 'It has no keys' : `It has ${keys.slice(0, 10).join(', ')}`;
    const what = `the key ${key} of ${where} is ${text === undefined ? 'missing' : 'empty'}`;
    return missing('KeyMissing', what, `${found}: write the configuration there, or correct spec.config.key`);
  }
  return text;
}

/**
 * The configuration for agents. If its meaning does not depend on the node, it is not only converted but also
 * evaluated, so that an undefined group is reported once here and not by each node.
 *
 * @param where the name in messages, such as `openshift-file-integrity/example, aide.conf`
 */
export function effectiveConf(
  where: string,
  text: string,
  provider: FileIntegritySpec['provider'],
): EffectiveConf {
  try {
    const { text: converted, source, warnings } = convertAideConf(where, text);
    const bytes = Buffer.byteLength(converted);
    if (bytes > MAX_TEXT_BYTES) {
      const message = `${where}: the converted configuration has ${bytes} bytes; the limit is ${MAX_TEXT_BYTES}. Move parts of it into files on the nodes, and @@include them.`;
      return { kind: 'error', reason: 'ConfigurationInvalid', message };
    }
    // The provider `aide` is not evaluated: AIDE accepts expressions that our engine does not.
    if (provider === 'native' && isOfItself(where, converted)) {
      void new Selection(readAideConf(where, source, noEnvironment));
    }
    return { kind: 'conf', text: converted, warnings: warnings.map(describeProblem) };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const message = error instanceof RampartError ? error.message : `${where}: ${error.message}`;
    return { kind: 'error', reason: 'ConfigurationInvalid', message };
  }
}

export const defaultConf: string = defaultAideConf;

/** Whether the meaning of the configuration does not depend on the node. */
function isOfItself(where: string, text: string): boolean {
  const statements = parseAideConf(sourceOf(where, text), new ProblemList());
  for (const statement of allStatements(statements)) {
    if (statement.kind === 'include') return false;
    if (statement.kind === 'if' && asksNode(statement.condition)) return false;
  }
  return true;
}

function asksNode(condition: Condition): boolean {
  if (condition.test === 'not') return asksNode(condition.condition);
  return condition.test === 'hostname' || condition.test === 'exists';
}
