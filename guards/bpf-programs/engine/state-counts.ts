/** Counts the programs and links in a State object. */
import { isLinkType } from '../application-schema.ts';
import type { NodeObject } from '../api.ts';
import type { ApplicationStatus, StateProgram } from '../state-schema.ts';

export interface StateCounts {
  /** Whether the application selects the node. */
  readonly isSelected: boolean;
  /** The number of programs in the kernel. */
  readonly loaded: number;
  /** How many of these have no link. */
  readonly unlinked: number;
  /** The number of programs without a link that are not in the kernel. */
  readonly notLoaded: number;
  /** The number of links that are attached. */
  readonly attached: number;
  readonly notAttached: number;
}

export function countsOf({ status = {} }: NodeObject): StateCounts {
  const { appLoadStatus, programs = [] } = status as Partial<ApplicationStatus>;
  const isSelected = appLoadStatus !== 'NotSelected';
  const links = programs.flatMap(linksIn);
  const attached = links.filter(({ linkStatus }) => linkStatus === 'Attached').length;
  const unlinked = programs.filter((program) => linksIn(program).length === 0);
  const isLoaded = ({ programId }: StateProgram): boolean => programId !== undefined;
  const loadedAlone = unlinked.filter(isLoaded).length;
  return {
    isSelected,
    loaded: programs.filter(isLoaded).length,
    unlinked: loadedAlone,
    notLoaded: isSelected ? unlinked.length - loadedAlone : 0,
    attached,
    notAttached: links.length - attached,
  };
}

/** The links of a program, which are in the field of its type. */
export function linksIn(program: StateProgram): NonNullable<StateProgram['xdp']>['links'] {
  return Object.keys(program).flatMap((key) => (isLinkType(key) ? (program[key]?.links ?? []) : []));
}
