/** The status of a State object: the outcomes of a v0.6 application on one node, derived from those of its links. */
import { createHash } from 'node:crypto';

import { type ApplicationSpec, tcActions, xdpActions } from '../application-schema.ts';
import type { Attach, InterfaceHook } from '../kernel/desired.ts';
import type { ApplicationStatus, LinkStatus, LoadStatus, StateLink, StateProgram } from '../state-schema.ts';
import { fieldOf } from './application.ts';
import type { Parent } from './parent.ts';
import { actionsOf } from './proceed-on.ts';
import type { Reported } from './reported.ts';

export interface StateCondition {
  readonly type: 'Error' | 'Pending' | 'Success' | 'UnloadError';
  readonly message: string;
}

export type State = Pick<ApplicationStatus, 'appLoadStatus' | 'failures' | 'node' | 'programs'> & {
  readonly condition: StateCondition;
};

/** At most this many are named; the others are counted. */
const MAX_NAMED = 20;

/** @param reported - The outcomes of its programs and links on this node. */
export function stateOf(parent: Parent, reported: readonly Reported[], node: string): State {
  const { programs } = parent.object.spec as unknown as ApplicationSpec;
  return {
    node,
    appLoadStatus: loadStatus(reported),
    condition: conditionOf(reported),
    failures: reported.filter(({ trouble }) => trouble !== undefined).map(failureCode),
    programs: programs.flatMap((program, index): StateProgram[] => {
      const field = fieldOf(program);
      if (field === undefined) return [];
      const own = reported.filter(({ wanted }) => wanted.member.program === index);
      const { function: kernelFunction } = program[field] ?? {};
      const programId = own.find((one) => one.programId !== undefined)?.programId;
      const links = own.flatMap((one) => linkOf(one, parent.uid));
      return [
        {
          ...{ name: program.name, type: program.type },
          ...(programId !== undefined && { programId }),
          programLinkStatus: linksStatus(own),
          [field]: { ...(kernelFunction !== undefined && { function: kernelFunction }), links },
        },
      ];
    }),
  };
}

function loadStatus(reported: readonly Reported[]): LoadStatus {
  const is = (type: string): boolean => reported.some(({ condition }) => condition.type === type);
  if (is('NotSelected')) return 'NotSelected';
  // The programs of an application are loaded all together or not at all.
  if (reported.some(({ trouble }) => trouble === 'load')) return 'LoadError';
  return is('None') ? 'NotLoaded' : 'LoadSuccess';
}

function conditionOf(reported: readonly Reported[]): StateCondition {
  const failed = reported.filter(({ trouble }) => trouble !== undefined);
  if (failed.length > 0) return { type: 'Error', message: named(failed) };
  const waiting = reported.filter(({ condition }) => condition.type === 'None');
  if (waiting.length > 0) {
    const text = named(waiting.filter(({ condition }) => condition.message !== ''));
    return { type: 'Pending', message: text === '' ? 'Not loaded yet.' : text };
  }
  return { type: 'Success', message: named(reported) };
}

/** Each message once: an image that cannot be pulled is the same failure for all programs. */
function named(reported: readonly Reported[]): string {
  const texts = [...new Set(reported.map(({ condition }) => condition.message))];
  const more = texts.length - MAX_NAMED;
  return [...texts.slice(0, MAX_NAMED), ...(more > 0 ? [`and ${more} more`] : [])].join('\n');
}

function linksStatus(own: readonly Reported[]): StateProgram['programLinkStatus'] {
  const troubles = own.map(({ trouble }) => trouble);
  if (troubles.includes('place')) return 'UpdateAttachInfoError';
  if (troubles.some((trouble) => trouble !== undefined)) return 'Error';
  return own.some(({ condition }) => condition.type === 'None') ? 'Pending' : 'Success';
}

function linkOf(reported: Reported, uid: string): StateLink[] {
  const { goal } = reported.wanted;
  if (reported.condition.type === 'NotSelected' || !('attach' in goal) || goal.attach.type === 'nowhere')
    return [];
  const linkStatus = linkStatusOf(reported);
  const uuid = linkUuid(reported, uid);
  return [
    {
      ...placeOf(goal.attach),
      ...{ shouldAttach: true, uuid, linkStatus },
      // A number of 31 bits, because bpfman has a number here.
      ...(linkStatus === 'Attached' && { linkId: Number.parseInt(uuid.slice(0, 8), 16) >>> 1 }),
    },
  ];
}

function linkStatusOf({ condition, isKept, trouble }: Reported): LinkStatus {
  if (condition.type === 'Loaded' || isKept) return 'Attached';
  return trouble === 'attach' ? 'AttachError' : 'NotAttached';
}

/**
 * A code for the outcome of one program or link, so that a change of any of them can be seen: the condition has each text only once, and
 * only the first few.
 */
export function failureCode({
  wanted,
  condition: { type, message },
}: Pick<Reported, 'condition' | 'wanted'>): string {
  return createHash('sha256').update(`${wanted.id} ${type} ${message}`).digest('hex').slice(0, 16);
}

/** A UUID that stays the same after a restart, unlike upstream's, which is random. @param uid - The application's uid. */
export function linkUuid({ wanted }: Pick<Reported, 'wanted'>, uid: string): string {
  const digits = createHash('sha256').update(`${uid} ${wanted.id}`).digest('hex');
  // Version 8 of RFC 9562: its digits may be chosen freely.
  const parts = [
    digits.slice(0, 8),
    digits.slice(8, 12),
    `8${digits.slice(13, 16)}`,
    `8${digits.slice(17, 20)}`,
  ];
  return [...parts, digits.slice(20, 32)].join('-');
}

function placeOf(attach: Exclude<Attach, { type: 'nowhere' }>): Record<string, unknown> {
  switch (attach.type) {
    case 'xdp':
      return {
        ...{ ...hookOf(attach.hook), priority: attach.order.priority },
        proceedOn: actionsOf(attach.order.proceedOn, xdpActions),
      };
    case 'tc':
      return {
        ...{ ...hookOf(attach.hook), direction: capital(attach.direction), priority: attach.order.priority },
        proceedOn: actionsOf(attach.order.proceedOn, tcActions),
      };
    case 'tcx':
      return { ...hookOf(attach.hook), direction: capital(attach.direction), priority: attach.priority };
    case 'kprobe':
      return { function: attach.functionName, offset: Number(attach.offset) };
    case 'kretprobe':
      return { function: attach.functionName };
    case 'fentry':
    case 'fexit':
      return {};
    case 'tracepoint':
      return { name: attach.tracepoint };
    case 'uprobe':
    case 'uretprobe': {
      const { target, functionName, offset, pid, container } = attach;
      return {
        ...{ target, offset: Number(offset) },
        ...(functionName !== undefined && { function: functionName }),
        ...(pid !== undefined && { pid }),
        ...(container !== undefined && { containerPid: container.pid }),
      };
    }
  }
}

function hookOf({ interface: interfaceName, container, namespacePath }: InterfaceHook): object {
  if (container !== undefined) return { interfaceName, netnsPath: `/proc/${container.pid}/ns/net` };
  // Without the path at which the agent sees the node's root.
  const netnsPath = namespacePath?.slice(namespacePath.lastIndexOf('/run/netns/'));
  return { interfaceName, ...(netnsPath !== undefined && { netnsPath }) };
}

const capital = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1);
