/** Reports the parts of policies that cannot be expressed: a line and an event each time they change. */
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { networkPolicies } from '../api.ts';
import type { NodeRules, PolicyProblem } from '../engine/rules.ts';
import type { FollowedObjects } from './followed-objects.ts';

export class ToldProblems {
  readonly #logger: Logger;
  readonly #recorder: Pick<EventRecorder, 'record'>;
  readonly #policies: FollowedObjects['policies'];
  /** By policy. */
  readonly #told = new Map<string, string>();

  constructor(
    logger: Logger,
    recorder: Pick<EventRecorder, 'record'>,
    policies: FollowedObjects['policies'],
  ) {
    this.#logger = logger;
    this.#recorder = recorder;
    this.#policies = policies;
  }

  /** Those of policies that pods of this node need. */
  tell(problems: readonly PolicyProblem[], rules: NodeRules): void {
    if (problems.length === 0 && this.#told.size === 0) return;
    const needed = new Set([...rules.policies.values()].map(({ policy }) => policy));
    for (const [key, of] of Map.groupBy(problems, (one) => one.policy)) {
      if (!needed.has(key)) continue;
      const note = of.map(({ field, message }) => `${field}: ${message}`).join('\n');
      const policy = this.#policies.get(key);
      if (policy === undefined || this.#told.get(key) === note) continue;
      this.#told.set(key, note);
      this.#logger.warn({ policy: key }, `cannot be expressed, and allows nothing: ${note}`);
      this.#recorder.record({
        regarding: referenceTo(networkPolicies, policy),
        type: 'Warning',
        reason: 'NotExpressed',
        action: 'Program',
        note,
      });
    }
    for (const key of this.#told.keys()) {
      if (!problems.some(({ policy }) => policy === key)) this.#told.delete(key);
    }
  }
}
