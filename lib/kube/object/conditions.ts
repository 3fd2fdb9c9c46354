/** Conditions of a status: `metav1.Condition`, as KEP-1623 standardises it. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { visibleText } from '../../output/printable.ts';
import { type Clock, systemClock } from '../../time/clock.ts';
import { apiTime } from './api-time.ts';

type ConditionStatus = 'True' | 'False' | 'Unknown';

export interface Condition {
  /** `Ready`, or with a domain: `example.com/Ready`. One of each type in a list. */
  readonly type: string;
  readonly status: ConditionStatus;
  /** For programs: CamelCase, never empty. */
  readonly reason: string;
  /** For people; may be empty. */
  readonly message: string;
  /** When `status` last changed. RFC 3339, whole seconds. */
  readonly lastTransitionTime: string;
  /** `metadata.generation` of the spec that this is about. */
  readonly observedGeneration?: number;
}

/** A condition as a controller states it, without the time of its change. */
export interface ConditionChange {
  readonly type: string;
  readonly status: ConditionStatus;
  readonly reason: string;
  readonly message?: string;
  /** `metadata.generation` of the object that was read. */
  readonly observedGeneration: number | undefined;
}

// The limits and patterns of metav1.Condition (apimachinery, pkg/apis/meta/v1/types.go).
const MAX_TYPE = 316;
const MAX_REASON = 1024;
const MAX_MESSAGE = 32_768;
const typePattern =
  /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const reasonPattern = /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/;

/**
 * The list with the condition set. `lastTransitionTime` changes only with `status`; a condition keeps its place, a
 * new one comes last. If nothing changes, the same list is returned: then there is nothing to write.
 *
 * A message that is too long for the API is cut, and its invisible characters are escaped: it may contain names that a workload chose.
 *
 * @throws {RampartError} `INPUT` for a type or a reason that the API would refuse.
 *
 * @example
 * const conditions = setCondition(status.conditions, {
 *   type: 'Ready', status: 'True', reason: 'Watching', observedGeneration: metadata.generation,
 * });
 * if (conditions !== status.conditions) await client.patch(...);
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  change: ConditionChange,
  clock: Pick<Clock, 'wallMs'> = systemClock,
): readonly Condition[] {
  check(change);
  const list = conditions ?? [];
  const old = findCondition(list, change.type);
  const { type, status, reason, observedGeneration } = change;
  const message = cut(visibleText(change.message ?? ''), MAX_MESSAGE);
  if (
    old?.status === status &&
    old.reason === reason &&
    old.message === message &&
    old.observedGeneration === observedGeneration
  ) {
    return list;
  }
  const lastTransitionTime = old?.status === status ? old.lastTransitionTime : apiTime(clock.wallMs());
  const next: Condition = {
    type,
    status,
    reason,
    message,
    lastTransitionTime,
    ...(observedGeneration !== undefined && { observedGeneration }),
  };
  return old === undefined ? [...list, next] : list.map((one) => (one === old ? next : one));
}

/** The list without the conditions of a type; the same list if it has none. */
export function removeCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): readonly Condition[] {
  const list = conditions ?? [];
  return findCondition(list, type) === undefined ? list : list.filter((one) => one.type !== type);
}

export function findCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((one) => one.type === type);
}

/** @param generation - The condition must be about this generation or a later one; one without `observedGeneration` counts for all. */
export function isConditionTrue(
  conditions: readonly Condition[] | undefined,
  type: string,
  generation?: number,
): boolean {
  const found = findCondition(conditions, type);
  return found?.status === 'True' && (found.observedGeneration ?? Infinity) >= (generation ?? 0);
}

function check({ type, reason, observedGeneration = 0 }: ConditionChange): void {
  const fault = (why: string): RampartError =>
    new RampartError(errorCodes.INPUT, { what: `condition "${type}" with the reason "${reason}"`, why });
  if (type.length > MAX_TYPE || !typePattern.test(type)) {
    throw fault(`its type must be a qualified name of at most ${MAX_TYPE} characters`);
  }
  if (reason.length > MAX_REASON || !reasonPattern.test(reason)) {
    throw fault(`its reason must be CamelCase, of 1 to ${MAX_REASON} characters`);
  }
  if (!Number.isSafeInteger(observedGeneration) || observedGeneration < 0) {
    throw fault(`its observedGeneration is ${observedGeneration}`);
  }
}

/** Counts code points, as the API does, so that no character is cut in two. */
function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const points = Array.from(text);
  return points.length <= length ? text : `${points.slice(0, length - 1).join('')}…`;
}
