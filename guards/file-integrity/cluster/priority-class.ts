/**
 * A priorityClassName that no PriorityClass has is taken away, with an event: it does nothing here, and who has mistyped it
 * is to know.
 */
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { priorityClasses } from '../../../lib/kube/object/object.ts';
import { type ClusterContext, fieldManager, type Found, tell } from './context.ts';

/** Kubernetes makes them itself, and they cannot be deleted. */
const always: ReadonlySet<string> = new Set(['system-cluster-critical', 'system-node-critical']);

export class PriorityClassNames {
  readonly #context: ClusterContext;
  /** By uid of the FileIntegrity: the name that was looked up. */
  readonly #checked = new Map<string, string>();

  constructor(context: ClusterContext) {
    this.#context = context;
  }

  forget(uid: string): void {
    this.#checked.delete(uid);
  }

  /** Asks once for each name. @throws when the FileIntegrity cannot be changed. */
  async check(found: Found, signal: AbortSignal): Promise<void> {
    const { client, logger } = this.#context;
    const { integrity, group } = found;
    const { namespace, name = '', uid = '', resourceVersion } = integrity.metadata;
    const className = integrity.spec.priorityClassName ?? '';
    if (className === '' || always.has(className) || this.#checked.get(uid) === className) return;
    try {
      await client.get(priorityClasses, { name: className }, { signal });
    } catch (error) {
      signal.throwIfAborted();
      if (isNotFound(error)) {
        await client.patch(
          group.types.integrities,
          { namespace, name },
          { type: 'merge', body: { metadata: { resourceVersion }, spec: { priorityClassName: null } } },
          { fieldManager, signal },
        );
        const note = `there is no PriorityClass ${JSON.stringify(className)}: spec.priorityClassName is cleared; the FileIntegrity works without it`;
        tell(this.#context, found, { type: 'Warning', reason: 'FileIntegrityStatus', note }, 'Validate');
        return;
      }
      // The right may be missing after an upgrade. Nothing depends on the class.
      logger.warn({ err: error, className }, 'cannot check whether a PriorityClass exists');
    }
    this.#checked.set(uid, className);
  }
}
