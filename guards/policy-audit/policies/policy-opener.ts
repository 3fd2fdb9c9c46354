/** Opens the current version of policies, or the one that was evaluated last. */
import { messageOf } from '../../../lib/errors/errors.ts';
import type { ResourceType } from '../../../lib/kube/object/object.ts';
import { forTenant } from '../../../lib/oci/tenant-error.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import { ModuleError } from '../modules/module-error.ts';
import { FetchedModules, type KeptPolicies } from './kept-policies.ts';
import { OpenPolicy, type Runtimes } from './open-policy.ts';
import type { PoliciesInUse } from './policies-in-use.ts';
import type { Policy } from './policy.ts';
import { readKubewardenPolicy } from './read-policy.ts';

interface PolicyOpenerOptions {
  readonly runtimes: Runtimes;
  readonly kept?: KeptPolicies | undefined;
  /** Receives the policies that could be opened. */
  readonly inUse: PoliciesInUse;
  readonly logger: Logger;
}

export class PolicyOpener {
  readonly #options: PolicyOpenerOptions;
  /** Keyed by the policy's ID: the logged reason why its module could not be fetched. */
  readonly #logged = new Map<string, string>();

  constructor(options: PolicyOpenerOptions) {
    this.#options = options;
  }

  /** @returns why the policy cannot be opened; undefined if it was opened */
  async open(
    policy: Policy,
    object: AnyKubewardenPolicy | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { runtimes, kept, inUse } = this.#options;
    const fetched = new FetchedModules();
    try {
      const through = kept && ((from: Parameters<FetchedModules['through']>[0]) => fetched.through(from));
      inUse.use(await OpenPolicy.open(policy, runtimes, signal, through));
    } catch (error) {
      signal.throwIfAborted();
      if (policy.origin.namespace === undefined) return messageOf(error);
      const reported = forTenant(error);
      if (reported !== error) this.#log(policy, error);
      const isAboutModule = reported !== error && error instanceof ModuleError;
      return isAboutModule ? `${error.module}: ${messageOf(reported)}` : messageOf(reported);
    }
    if (object !== undefined) await kept?.keep(policy.id, object, fetched);
    return undefined;
  }

  /** Opens the version that was last evaluated, from the disk. */
  async useKept(type: ResourceType, policy: Policy, signal: AbortSignal): Promise<void> {
    const { id, origin, version } = policy;
    const { runtimes, kept, inUse, logger } = this.#options;
    const object = kept?.object(id);
    if (kept === undefined || object?.metadata.uid !== origin.uid) return;
    try {
      const read = readKubewardenPolicy({ ...object, kind: type.kind });
      // If the policy is unchanged, its results stay valid.
      const former = read.version === version ? policy : read;
      const opened = await OpenPolicy.open(former, runtimes, signal, kept.through(id));
      if (inUse.get(id) !== undefined) {
        await opened[Symbol.asyncDispose]();
        return;
      }
      inUse.use(opened);
      const how = former.version === version ? 'its module as it was last fetched' : 'its previous version';
      logger.warn({ policy: id }, `a policy cannot be opened: ${how} is used`);
    } catch (err) {
      signal.throwIfAborted();
      logger.warn({ err, policy: id }, 'cannot open the previous version of a policy');
    }
  }

  /** Call this when the policy can be opened, or has been deleted. */
  forget(id: string): void {
    this.#logged.delete(id);
  }

  /** Logs details that the condition does not contain. Only once, because opening is retried. */
  #log({ id }: Policy, error: unknown): void {
    if (this.#logged.get(id) === messageOf(error)) return;
    this.#logged.set(id, messageOf(error));
    this.#options.logger.warn({ err: error, policy: id }, 'cannot fetch the module of a policy; retrying');
  }
}
