/**
 * Reads and writes reports in the API. Every write and every deletion names the version that it is based on, so
 * that no change by another client is overwritten.
 */
import {
  isAlreadyExists,
  isConflict,
  isForbidden,
  isNotFound,
  orUndefined,
} from '../../../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { namespaces, objectKey, type ResourceType } from '../../../lib/kube/object/object.ts';
import { isPartName } from './part-name.ts';
import { type AuditReport, ourReports, type ReportTypes, reportTypes, runLabel } from './report.ts';

const PAGE_SIZE = 500;
/** A write that meets conflicts is attempted at most this many times. */
export const MAX_ATTEMPTS = 5;

/** In all methods, `namespace` is '' for cluster-scoped objects. */
export class ReportApi {
  readonly #client: KubeClient;
  readonly #types: ReportTypes;
  /** Number of calls that have changed something. */
  writes = 0;
  deletions = 0;

  constructor(client: KubeClient, types: ReportTypes) {
    this.#client = client;
    this.#types = types;
  }

  /**
   * Undefined if the report does not exist.
   *
   * @throws {KubeError}
   */
  read(namespace: string, name: string, signal: AbortSignal): Promise<AuditReport | undefined> {
    return orUndefined(this.#client.get(this.#type(namespace), target(namespace, name), { signal }));
  }

  /**
   * @param version - The version to replace; undefined: the report is created.
   * @returns the new version.
   * @throws {KubeError}
   */
  async write(report: AuditReport, version: string | undefined, signal: AbortSignal): Promise<string> {
    const { metadata } = report;
    const type = this.#type(metadata.namespace ?? '');
    const written =
      version === undefined
        ? await this.#client.create(type, report, { signal, metadataOnly: true })
        : await this.#client.update(
            type,
            { ...report, metadata: { ...metadata, resourceVersion: version } },
            { signal, metadataOnly: true },
          );
    this.writes++;
    return written.metadata.resourceVersion ?? '';
  }

  /** Succeeds if the report is already gone. @throws {KubeError} a conflict, if the report has changed. */
  async delete(
    namespace: string,
    name: string,
    preconditions: { readonly resourceVersion: string; readonly uid?: string | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    await this.#delete(this.#type(namespace), namespace, name, preconditions, signal);
  }

  async #delete(
    type: ResourceType,
    namespace: string,
    name: string,
    { resourceVersion, uid }: { readonly resourceVersion: string; readonly uid?: string | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await this.#client.delete(type, target(namespace, name), {
        preconditions: { resourceVersion, ...(uid !== undefined && { uid }) },
        signal,
      });
      this.deletions++;
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  #isOtherKindGone = false;

  /**
   * Removes reports of this audit that are of the other kind: they were written before the current kind was
   * chosen. Reports of other programs are kept. A kind that is not served or may not be read counts as empty. Once
   * the reports are gone, this is not repeated.
   *
   * @throws {KubeError}
   */
  async removeOtherKind(isAudited: (namespace: string) => boolean, signal: AbortSignal): Promise<void> {
    if (this.#isOtherKindGone) return;
    const other = Object.values(reportTypes).find(
      ({ cluster }) => cluster.group !== this.#types.cluster.group,
    );
    for (const type of [other?.namespaced, other?.cluster]) {
      let token: string | undefined;
      do {
        let page;
        try {
          const query = { labelSelector: ourReports, limit: PAGE_SIZE, continue: token, signal };
          page = type && (await this.#client.list<AuditReport>(type, {}, query));
        } catch (error) {
          if (!isNotFound(error) && !isForbidden(error)) throw error;
        }
        for (const report of page?.items ?? []) {
          const { namespace = '', name = '', uid, resourceVersion = '' } = report.metadata;
          if (type === undefined || !isOurs(report) || !isAudited(namespace)) continue;
          await this.#delete(type, namespace, name, { resourceVersion, uid }, signal);
        }
        token = page?.metadata.continue;
      } while (token !== undefined && token !== '');
    }
    this.#isOtherKindGone = true;
  }

  /** Whether a write failed because the namespace is being deleted or is gone, so that nothing can be created in it. */
  async isGoing(
    error: unknown,
    namespace: string,
    isCreated: boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (namespace === '' || !isCreated || !(isForbidden(error) || isNotFound(error))) return false;
    const found = await orUndefined(this.#client.get(namespaces, { name: namespace }, { signal }));
    return found === undefined || found.metadata.deletionTimestamp !== undefined;
  }

  #type(namespace: string): ReportTypes['cluster'] {
    return namespace === '' ? this.#types.cluster : this.#types.namespaced;
  }
}

/** Whether an audit of Rampart has written the report: another product may use the same label. */
function isOurs(report: AuditReport): boolean {
  const { metadata, scope } = report;
  if (metadata.labels?.[runLabel] === undefined) return false;
  return scope === undefined ? isPartName(objectKey(report)) : scope.uid === metadata.name;
}

/** Whether the write failed because another client wrote first. */
export function isBehind(error: unknown): boolean {
  return isConflict(error) || isAlreadyExists(error) || isNotFound(error);
}

function target(namespace: string, name: string): { readonly name: string; readonly namespace?: string } {
  return namespace === '' ? { name } : { namespace, name };
}
