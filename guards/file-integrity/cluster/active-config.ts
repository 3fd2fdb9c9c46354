/** Writes the active configuration, which agents use: the converted form of the one that a FileIntegrity names. */
import { isAlreadyExists, isForbidden } from '../../../lib/kube/client/client-errors.ts';
import { type ConfigMap, configMaps } from '../../../lib/kube/object/object.ts';
import { names } from '../api.ts';
import { activeConfigName, labelValue } from '../results/object-names.ts';
import { type ClusterContext, fieldManager, type Found, ownerOf } from './context.ts';
import {
  type ConfSource,
  confSourceOf,
  defaultConf,
  type EffectiveConf,
  effectiveConf,
  userText,
} from './effective-conf.ts';
import type { Configured } from './integrity-status.ts';
import { isRefusal } from './refusal.ts';
import type { UserConfigs } from './user-configs.ts';

const MAX_WARNINGS = 10;

interface Converted {
  readonly where: string;
  readonly text: string;
  readonly provider: string;
  readonly conf: EffectiveConf;
}

export class ActiveConfigs {
  readonly #context: ClusterContext;
  readonly #users: UserConfigs;
  readonly #inTheWay: UserConfigs;
  /** The last conversion, keyed by FileIntegrity: it is needed again for each result of each node. */
  readonly #converted = new Map<string, Converted>();

  /** @param inTheWay watches other ConfigMaps that occupy the name of an active one, until they are deleted */
  constructor(context: ClusterContext, users: UserConfigs, inTheWay: UserConfigs) {
    this.#context = context;
    this.#users = users;
    this.#inTheWay = inTheWay;
  }

  async forget(key: string, signal: AbortSignal): Promise<void> {
    this.#converted.delete(key);
    await this.#users.read(key, undefined, signal);
    await this.#inTheWay.read(key, undefined, signal);
  }

  /** Writes the active ConfigMap if it differs. If the new configuration cannot be used, the previous one stays in use. */
  async configure(key: string, found: Found, signal: AbortSignal): Promise<Configured> {
    const source = confSourceOf(found.integrity);
    const conf = await this.#read(key, found, source, signal);
    const { namespace, name } = placeOf(found);
    const before = this.#context.caches.active.get(`${namespace}/${name}`);
    const rest = before === undefined ? '' : ' Until then the previous configuration stays in use.';
    if (conf.kind === 'error' && conf.reason === 'ConfigMapMissing') {
      return await this.#substitute(key, found, conf.message, before, signal);
    }
    if (conf.kind === 'error') {
      return { isUsable: false, reason: conf.reason, message: `${conf.message}${rest}` };
    }
    try {
      const taken = await this.#write(key, found, conf.text, before, signal);
      if (taken !== undefined) return taken;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const message = `${error.message}. The agents read the converted configuration from there.${rest}`;
      return { isUsable: false, reason: 'ConfigMapUnwritable', message };
    }
    await this.#inTheWay.read(key, undefined, signal);
    const warnings = conf.warnings.slice(0, MAX_WARNINGS);
    const more = conf.warnings.length - warnings.length;
    const lines = [
      `${describe(source)} is used.`,
      ...warnings,
      ...(more > 0 ? [`... and ${more} more warnings`] : []),
    ];
    return {
      isUsable: true,
      reason: source === undefined ? 'Default' : 'Converted',
      message: lines.join('\n'),
      text: conf.text,
    };
  }

  /**
   * Uses the default or the previous configuration, as FIO does, so that nodes are checked while the ConfigMap does not
   * exist yet, or was deleted by mistake.
   */
  async #substitute(
    key: string,
    found: Found,
    why: string,
    before: ConfigMap | undefined,
    signal: AbortSignal,
  ): Promise<Configured> {
    const conf = effectiveConf(describe(undefined), defaultConf, found.integrity.spec.provider);
    if (conf.kind === 'error') throw new Error(conf.message);
    const used = before?.data?.[names.confKey];
    const isDefault = used === undefined || used === conf.text;
    if (isDefault) {
      const taken = await this.#write(key, found, conf.text, before, signal);
      if (taken !== undefined) return taken;
    }
    const meanwhile = isDefault
      ? 'the default configuration is used'
      : 'the previous configuration stays in use';
    const message = `${why} Until then ${meanwhile}.`;
    const text = isDefault ? conf.text : used;
    return { isUsable: true, isSubstitute: true, reason: 'ConfigMapMissing', message, text };
  }

  async #read(
    key: string,
    { integrity }: Found,
    source: ConfSource | undefined,
    signal: AbortSignal,
  ): Promise<EffectiveConf> {
    let text: ReturnType<typeof userText> = defaultConf;
    try {
      const configMap = await this.#users.read(key, source, signal);
      if (source !== undefined) text = userText(integrity, source, configMap);
    } catch (error) {
      if (!isForbidden(error)) throw error;
      const next = 'Allow the operator to get, list and watch it.';
      return { kind: 'error', reason: 'ConfigMapUnreadable', message: `${error.message}. ${next}` };
    }
    if (typeof text !== 'string') return text;
    const { provider } = integrity.spec;
    const where = describe(source);
    const known = this.#converted.get(key);
    if (known?.text === text && known.provider === provider && known.where === where) return known.conf;
    const conf = effectiveConf(where, text, provider);
    this.#converted.set(key, { where, text, provider, conf });
    return conf;
  }

  /** @returns an error if an object that is not ours has the ConfigMap's name */
  async #write(
    key: string,
    found: Found,
    text: string,
    before: ConfigMap | undefined,
    signal: AbortSignal,
  ): Promise<Configured | undefined> {
    const { client, logger } = this.#context;
    const place = placeOf(found);
    const owner = ownerOf(found.group.types, found.integrity);
    const wanted: ConfigMap = {
      metadata: {
        ...place,
        labels: {
          [names.aideConfLabel]: '',
          [names.ownerLabel]: labelValue(found.integrity.metadata.name ?? ''),
        },
        ownerReferences: [owner],
      },
      data: { [names.confKey]: text },
    };
    if (before !== undefined) return await this.#update(before, wanted, signal);
    try {
      await client.create(configMaps, wanted, { fieldManager, signal });
      logger.info({ fileIntegrity: place }, 'created the active configuration');
      return undefined;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      const live = await this.#inTheWay.read(key, place, signal);
      // The ConfigMap is ours but not yet in the cache, or it was deleted meanwhile: the retry handles both.
      if (live === undefined || live.metadata.labels?.[names.aideConfLabel] !== undefined) throw error;
      // The ConfigMap is ours, but its label was removed.
      if ((live.metadata.ownerReferences ?? []).some(({ uid }) => uid === owner.uid))
        return await this.#update(live, wanted, signal);
      const message = `ConfigMap ${place.namespace}/${place.name} exists but does not belong to this guard, which needs the name for the converted configuration. Rename it or the FileIntegrity.`;
      return { isUsable: false, reason: 'NameTaken', message };
    }
  }

  async #update(
    { metadata: before, data }: ConfigMap,
    wanted: ConfigMap,
    signal: AbortSignal,
  ): Promise<undefined> {
    const { client, counts, logger } = this.#context;
    const { namespace, name, labels, ownerReferences } = wanted.metadata;
    const owners = before.ownerReferences ?? [];
    const isOurs = owners.length === 1 && owners[0]?.uid === ownerReferences?.[0]?.uid;
    const isLabelled = [names.aideConfLabel, names.ownerLabel].every(
      (label) => before.labels?.[label] === labels?.[label],
    );
    const isSame = data?.[names.confKey] === wanted.data?.[names.confKey];
    if (isOurs && isLabelled && isSame) return;
    const { resourceVersion } = before;
    const metadata = { ...wanted.metadata, ...(resourceVersion && { resourceVersion }) };
    await client.update(configMaps, { ...wanted, metadata }, { fieldManager, signal });
    // Agents notice it by the digest, and make new baselines.
    if (!isSame) counts.reinit('config', '');
    logger.info({ fileIntegrity: { namespace, name }, isSame }, 'updated the active configuration');
  }
}

function placeOf({ integrity: { metadata } }: Found): { readonly namespace: string; readonly name: string } {
  return { namespace: metadata.namespace ?? '', name: activeConfigName(metadata.name ?? '') };
}

function describe(source: ConfSource | undefined): string {
  return source === undefined
    ? 'the default configuration'
    : `ConfigMap ${source.namespace}/${source.name}, ${source.key}`;
}
