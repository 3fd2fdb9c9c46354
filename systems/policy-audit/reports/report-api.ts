/**
 * Reports in the API, read and written as they are. Every write and every deletion says which state it is for, so that nothing of
 * others is overwritten unseen.
 *
 * @module
 */
import { isAlreadyExists, isConflict, isForbidden, isNotFound } from '../../../shared/kube/client-errors.ts';
import type { KubeClient } from '../../../shared/kube/client.ts';
import { namespaces } from '../../../shared/kube/object.ts';
import type { AuditReport, ReportTypes } from './report.ts';

/** How often a write is tried that others come before. */
export const MAX_ATTEMPTS = 5;

/** `namespace` is '' for what is in none. */
export class ReportApi {
  readonly #client: KubeClient;
  readonly #types: ReportTypes;
  /** Calls that have changed something. */
  writes = 0;
  deletions = 0;

  constructor(client: KubeClient, types: ReportTypes) {
    this.#client = client;
    this.#types = types;
  }

  /** Undefined where there is none. @throws {KubeError} */
  async read(namespace: string, name: string, signal: AbortSignal): Promise<AuditReport | undefined> {
    try {
      return await this.#client.get(this.#type(namespace), target(namespace, name), { signal });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /**
   * @param version the one that it replaces; undefined: it is made.
   * @returns its version.
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

  /** One that is gone already is fine. @throws {KubeError} a conflict, where it is another by now. */
  async delete(
    namespace: string,
    name: string,
    preconditions: { readonly resourceVersion: string; readonly uid?: string | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    const { resourceVersion, uid } = preconditions;
    try {
      await this.#client.delete(this.#type(namespace), target(namespace, name), {
        preconditions: { resourceVersion, ...(uid !== undefined && { uid }) },
        signal,
      });
      this.deletions++;
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  /** Nothing is created in a namespace that is being deleted, or that is gone. */
  async isGoing(
    error: unknown,
    namespace: string,
    isCreated: boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (namespace === '' || !isCreated || !(isForbidden(error) || isNotFound(error))) return false;
    try {
      const { metadata } = await this.#client.get(namespaces, { name: namespace }, { signal });
      return metadata.deletionTimestamp !== undefined;
    } catch (missing) {
      if (isNotFound(missing)) return true;
      throw missing;
    }
  }

  #type(namespace: string): ReportTypes['cluster'] {
    return namespace === '' ? this.#types.cluster : this.#types.namespaced;
  }
}

/** Whether somebody else has come before a write. */
export function isBehind(error: unknown): boolean {
  return isConflict(error) || isAlreadyExists(error) || isNotFound(error);
}

function target(namespace: string, name: string): { readonly name: string; readonly namespace?: string } {
  return namespace === '' ? { name } : { namespace, name };
}
