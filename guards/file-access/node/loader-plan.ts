/** The plan of a sensor: all files to watch on one kernel, whichever node found them, and the changes between two plans. */
import { type FileIdentity, fileKey, sameFile } from '../../../lib/sensor/access.ts';
import type { AlertContext } from '../alert/alert.ts';
import { type ProcessFilter, sameFilter } from '../process-filter.ts';
import type { AlertedFile } from '../alert/alerted-file.ts';
import type { DirectoryFiles } from '../../../lib/sensor/paths/directory-state.ts';

/** One file to watch, and the contents of its alerts: one trap on one file of one container. */
export interface PlannedAlert {
  /** The name of the KiveData; for one of its moved files, that of {@link movedName}. */
  readonly name: string;
  readonly identity: FileIdentity;
  /** The directory whose files are watched; `identity` is then that of the directory. */
  readonly directory?: DirectoryFiles | undefined;
  readonly context: AlertContext;
  /** See `callbackSecretOf`. */
  readonly callbackSecret: string | undefined;
  /** See accessFilter; default: all. */
  readonly filter?: number | undefined;
  /** Default: all processes raise alerts. */
  readonly processes?: ProcessFilter | undefined;
}

/** The planned alerts, keyed by name. Several may watch the same file; each raises its own alert. */
export type LoaderPlan = ReadonlyMap<string, PlannedAlert>;

/** The name of the planned alert for a moved file of a KiveData. */
function movedName(dataName: string, file: FileIdentity): string {
  return `${dataName}/${fileKey(file)}`;
}

/** The name of the KiveData that a planned alert belongs to. */
export function dataNameOf({ name }: PlannedAlert): string {
  const at = name.indexOf('/');
  return at < 0 ? name : name.slice(0, at);
}

/** Whether it is for a moved file that is watched in addition to the KiveData's current file. */
export function isBeside({ name }: PlannedAlert): boolean {
  return name.includes('/');
}

/**
 * The plan for these files.
 *
 * @param files - With unique names.
 * @param before - The current plan: unchanged parts are reused, which saves memory.
 */
export function loaderPlan(
  files: Iterable<AlertedFile>,
  before: LoaderPlan = new Map(),
): Map<string, PlannedAlert> {
  const plan = new Map<string, PlannedAlert>();
  const unknownGeneration: PlannedAlert[] = [];
  const put = (planned: PlannedAlert): void => {
    plan.set(planned.name, planned);
    if (planned.identity.generation === 0) unknownGeneration.push(planned);
  };
  for (const { name, identity, directory, moved, context, ...how } of files) {
    const isMoved = moved.some((file) => sameFile(file, identity));
    put({
      name,
      identity,
      ...(directory && { directory }),
      context: isMoved ? { ...context, moved: true } : context,
      ...how,
    });
    for (const file of moved) {
      if (sameFile(file, identity)) continue;
      put({
        name: movedName(name, file),
        identity: file,
        context: { ...context, moved: true },
        ...how,
      });
    }
  }
  if (unknownGeneration.length > 0) adoptGenerations(plan, unknownGeneration);
  for (const [name, planned] of plan) {
    const kept = before.get(name);
    if (kept !== undefined && sameFile(kept.identity, planned.identity) && saysSame(kept, planned)) {
      plan.set(name, kept);
    }
  }
  return plan;
}

/**
 * The kernel's map has one entry for an inode number and device: a file of unknown generation is given the generation
 * that another one has.
 */
function adoptGenerations(plan: Map<string, PlannedAlert>, unknown: readonly PlannedAlert[]): void {
  const known = new Map<string, FileIdentity>();
  for (const { identity } of plan.values()) {
    if (identity.generation !== 0) known.set(`${identity.inode}:${identity.device}`, identity);
  }
  for (const planned of unknown) {
    const identity = known.get(`${planned.identity.inode}:${planned.identity.device}`);
    if (identity !== undefined) plan.set(planned.name, { ...planned, identity });
  }
}

/**
 * The steps from one plan to the next. Add what is new before removing what is old, so that no file is unwatched in
 * between: first `replace`, `add`, the new files of `move`, then the old files of `move`, then `remove`.
 */
export interface PlanChanges {
  /**
   * The file stays: its KiveData has other contents, or another KiveData takes over from one that is removed. Each
   * access is reported by exactly one of the two.
   */
  readonly replace: readonly PlanStep[];
  /** The KiveData stays, its file is another one. */
  readonly move: readonly PlanStep[];
  readonly add: readonly PlannedAlert[];
  readonly remove: readonly PlannedAlert[];
}

export interface PlanStep {
  readonly from: PlannedAlert;
  readonly to: PlannedAlert;
}

/** The difference of two plans. */
export function planChanges(before: LoaderPlan, after: LoaderPlan): PlanChanges {
  const [replace, move]: [PlanStep[], PlanStep[]] = [[], []];
  /** Alerts that no longer watch their file, keyed by that file. */
  const gone = new Map<string, PlannedAlert[]>();
  for (const [name, from] of before) {
    const to = after.get(name);
    if (to === from) continue;
    if (to !== undefined && sameFile(to.identity, from.identity)) {
      if (!saysSame(to, from)) replace.push({ from, to });
      continue;
    }
    const place = fileKey(from.identity);
    const others = gone.get(place);
    if (others === undefined) gone.set(place, [from]);
    else others.push(from);
  }
  const came: PlannedAlert[] = [];
  for (const [name, to] of after) {
    const was = before.get(name);
    if (was !== undefined && (was === to || sameFile(was.identity, to.identity))) continue;
    const from = gone.size === 0 ? undefined : gone.get(fileKey(to.identity))?.pop();
    if (from === undefined) came.push(to);
    else replace.push({ from, to });
  }
  const left = new Map<string, PlannedAlert>();
  for (const all of gone.values()) for (const from of all) left.set(from.name, from);
  const add: PlannedAlert[] = [];
  for (const to of came) {
    const from = left.get(to.name);
    if (from === undefined) add.push(to);
    else move.push({ from, to });
    left.delete(to.name);
  }
  return { replace, move, add, remove: [...left.values()] };
}

function saysSame(a: PlannedAlert, b: PlannedAlert): boolean {
  return (
    a.filter === b.filter &&
    a.callbackSecret === b.callbackSecret &&
    sameFilter(a.processes, b.processes) &&
    a.directory === b.directory &&
    sameContext(a.context, b.context)
  );
}

function sameContext(a: AlertContext, b: AlertContext): boolean {
  return (
    a.alertVersion === b.alertVersion &&
    a.policyName === b.policyName &&
    a.policyNamespace === b.policyNamespace &&
    a.kernelId === b.kernelId &&
    a.path === b.path &&
    a.callback === b.callback &&
    a.moved === b.moved &&
    a.nodeName === b.nodeName &&
    a.pod.name === b.pod.name &&
    a.pod.namespace === b.pod.namespace &&
    a.pod.ip === b.pod.ip &&
    a.pod.container.id === b.pod.container.id &&
    a.pod.container.name === b.pod.container.name &&
    sameTexts(a.customMetadata, b.customMetadata)
  );
}

function sameTexts(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  if (a === b) return true;
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key])
  );
}
