/**
 * The cluster data of policies in Rego: documents that are loaded before the policies run, since these cannot
 * query the cluster. They see all objects of the kinds that they were granted.
 */
import { messageOf } from '../../../../lib/errors/errors.ts';
import { EvaluationError, type HostCalls, type JsonObject } from '../evaluator.ts';
import type { KindName } from '../host-calls/cluster-reader.ts';
import { ownBinding } from '../host-calls/host-calls.ts';
import type { WasmRuntime } from './metadata.ts';
import { settingsText } from './request-text.ts';

export interface RegoDataOptions {
  readonly runtime: WasmRuntime;
  readonly settings: JsonObject;
  readonly resources: readonly KindName[];
  readonly hostCalls: HostCalls;
}

interface Listed {
  readonly kind: KindName;
  readonly plural: string;
  readonly answer: Uint8Array;
}

/** A document of one policy; its version counts its changes. */
export interface RegoDocument {
  readonly version: number;
  readonly text: string;
}

/** Returns the current state of the cluster. @throws {EvaluationError} if it cannot be queried. */
export type CurrentData = (signal: AbortSignal) => Promise<RegoDocument>;

export function currentData(options: RegoDataOptions): CurrentData {
  const plurals = new Map<KindName, string>();
  let lastDocument: (RegoDocument & { readonly listed: readonly Listed[] }) | undefined;

  function textOf(listed: readonly Listed[]): string {
    if (options.runtime === 'opa') {
      return settingsText({ ...options.settings, kubernetes: byPlural(listed) });
    }
    return JSON.stringify({ inventory: inventoryOf(listed) });
  }

  async function pluralOf(kind: KindName, signal: AbortSignal): Promise<string> {
    let plural = plurals.get(kind);
    if (plural === undefined) {
      const answer = await ask(ownBinding, 'get_resource_plural_name', kind, signal);
      plurals.set(kind, (plural = String(JSON.parse(Buffer.from(answer).toString('utf8')))));
    }
    return plural;
  }

  async function ask(
    binding: string,
    operation: string,
    { apiVersion, kind }: KindName,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const payload = Buffer.from(JSON.stringify({ api_version: apiVersion, kind }));
    try {
      return await options.hostCalls.call({ binding, namespace: 'kubernetes', operation }, payload, signal);
    } catch (error) {
      const what = `the policy needs all objects ${apiVersion}/${kind}`;
      throw new EvaluationError('answer', `${what}: ${messageOf(error)}`, { cause: error });
    }
  }

  return async (signal) => {
    const listed: Listed[] = [];
    for (const kind of options.resources) {
      listed.push({
        kind,
        plural: options.runtime === 'opa' ? await pluralOf(kind, signal) : '',
        answer: await ask('kubewarden', 'list_resources_all', kind, signal),
      });
    }
    const last = lastDocument;
    const isSame = last?.listed.every(
      ({ answer }, at) => Buffer.compare(answer, listed[at]?.answer ?? answer) === 0,
    );
    if (last !== undefined && isSame === true) return last;
    lastDocument = { version: (last?.version ?? 0) + 1, text: textOf(listed), listed };
    return lastDocument;
  };
}

interface Item extends JsonObject {
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

function itemsOf({ answer }: Listed): readonly Item[] {
  return (JSON.parse(Buffer.from(answer).toString('utf8')) as { readonly items: readonly Item[] }).items;
}

/** Branches are created on access, and have no prototype, since an object may have any name. */
interface Tree {
  [name: string]: unknown;
}

function within(tree: Tree, path: readonly string[]): Tree {
  let at = tree;
  for (const name of path) at = (at[name] ??= Object.create(null)) as Tree;
  return at;
}

/** The layout of kube-mgmt: `kubernetes.<plural>.<namespace>.<name>`, or `kubernetes.<plural>.<name>`. */
function byPlural(listed: readonly Listed[]): Tree {
  const tree = Object.create(null) as Tree;
  for (const resource of listed) {
    for (const item of itemsOf(resource)) {
      const { name, namespace } = item.metadata;
      within(tree, namespace === undefined ? [resource.plural] : [resource.plural, namespace])[name] = item;
    }
  }
  return tree;
}

/** The layout of Gatekeeper: `cluster.<apiVersion>.<kind>.<name>`, `namespace.<namespace>.<apiVersion>.<kind>.<name>`. */
function inventoryOf(listed: readonly Listed[]): Tree {
  const tree = Object.create(null) as Tree;
  within(tree, ['cluster']);
  within(tree, ['namespace']);
  for (const resource of listed) {
    const { apiVersion, kind } = resource.kind;
    for (const item of itemsOf(resource)) {
      const { name, namespace } = item.metadata;
      const scope = namespace === undefined ? ['cluster'] : ['namespace', namespace];
      within(tree, [...scope, apiVersion, kind])[name] = item;
    }
  }
  return tree;
}
