/** A map that a command works on, found through a program or in the whole kernel. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { Btf } from '../btf/btf.ts';
import { btfById, type MapInfo, mapInfo, programInfo } from '../info.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { openPin } from '../pins/pin.ts';
import type { ProgramRecord } from '../records.ts';
import type { Kept } from './kept.ts';
import { idsOf, openById } from './kernel-ids.ts';

/** How a map is named on the command line. */
export interface MapName {
  /**
   * The kernel's ID of a program, the program's owner, or its id in Rampart's records. With `id`, `name` or `pinned`, the map is searched
   * in the whole kernel.
   */
  readonly program: string;
  /** The name in C; after `id` the kernel's ID of the map, after `pinned` a path. */
  readonly map: string;
}

/** The caller disposes of it. */
export interface OpenMap extends Disposable {
  readonly fd: number;
  readonly info: MapInfo;
  /** The name in C, if known; otherwise the kernel's name, which is cut to 15 characters. */
  readonly name: string;
  /** Whether a program of Rampart uses it. */
  readonly isOwn: boolean;
  /** Types of its keys and values. */
  readonly types: Btf | undefined;
}

/** @throws {RampartError} `NOT_FOUND`; `INPUT` if several maps have the name. */
export function openMap(kept: Kept, { program, map }: MapName): OpenMap {
  if (program === 'id')
    return opened(kept, openById('map', Number(map) || 0), `there is no map with ID ${map}`);
  if (program === 'pinned') return opened(kept, openPin(map), `no map is pinned at ${map}`);
  if (program === 'name') return openNamed(kept, map);
  const record = [...kept.programs.values()].find(
    ({ id, owner, programId }) => id === program || owner === program || String(programId) === program,
  );
  if (record === undefined) throw notFound(`there is no program ${program}`, 'rampart bpf list shows them');
  const named = mapOf(record, map);
  const found = named && openPin(join(kept.pins.program(record), 'maps', named.pin));
  if (named === undefined || found === undefined) {
    const names = record.maps.map(({ name }) => name).join(', ');
    throw notFound(`${record.owner} has no map ${map}`, `It has: ${names || 'none'}`);
  }
  return described(kept, found, named.name);
}

function mapOf({ maps }: ProgramRecord, wanted: string): ProgramRecord['maps'][number] | undefined {
  return maps.find(
    ({ name, pin }) => name === wanted || pin === wanted || name.endsWith(`.${wanted.replace(/^\./, '')}`),
  );
}

function openNamed(kept: Kept, name: string): OpenMap {
  const found: number[] = [];
  for (const id of idsOf('map')) {
    using map = openById('map', id);
    if (map !== undefined && mapInfo(map.fd).name === name.slice(0, 15)) found.push(id);
  }
  if (found.length > 1) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${found.length} maps are named ${name}`,
      next: `Use one of their IDs: id ${found.join(', id ')}`,
    });
  }
  return opened(
    kept,
    found[0] === undefined ? undefined : openById('map', found[0]),
    `no map is named ${name}`,
  );
}

function opened(kept: Kept, map: Descriptor | undefined, missing: string): OpenMap {
  if (map === undefined) throw notFound(missing, 'rampart bpf map list --all shows all maps of the kernel');
  return described(kept, map, undefined);
}

function described(kept: Kept, map: Descriptor, name: string | undefined): OpenMap {
  try {
    const info = mapInfo(map.fd);
    const own = ownMaps(kept).get(info.id);
    return {
      ...{ fd: map.fd, info, name: name ?? own?.name ?? info.name, isOwn: own !== undefined },
      types: info.btfId === 0 ? undefined : new Btf(btfById(info.btfId)),
      [Symbol.dispose]: () => map[Symbol.dispose](),
    };
  } catch (error) {
    map[Symbol.dispose]();
    throw error;
  }
}

export interface OwnMap {
  /** The name in C. */
  readonly name: string;
  /** The Kubernetes objects whose programs use the map. */
  readonly owners: readonly string[];
  /** The pods in which these programs are attached, with the container; each only once. */
  readonly places: readonly PodPlace[];
}

/** Where a program is attached in pods. */
export interface PodPlace {
  /** `NAMESPACE/NAME` */
  readonly pod: string;
  /** Undefined if it is attached for all containers of the pod. */
  readonly container: string | undefined;
}

/** Maps of Rampart's programs, keyed by the kernel's ID. */
export function ownMaps({ programs }: Pick<Kept, 'programs'>): ReadonlyMap<number, OwnMap> {
  const found = new Map<number, OwnMap>();
  for (const { owner, maps, pod, container } of programs.values()) {
    const place = pod === undefined ? undefined : { pod, container };
    for (const { id, name } of maps) {
      const { owners = [], places = [] } = found.get(id) ?? {};
      const isNew = place && !places.some((one) => one.pod === pod && one.container === container);
      found.set(id, {
        name,
        owners: owners.includes(owner) ? owners : [...owners, owner],
        places: isNew ? [...places, place] : places,
      });
    }
  }
  return found;
}

/** Programs in the kernel that use a map, keyed by the ID of the map. */
export function programsOfMaps(): ReadonlyMap<
  number,
  readonly { readonly id: number; readonly name: string; readonly btfId: number }[]
> {
  const found = new Map<number, { id: number; name: string; btfId: number }[]>();
  for (const programId of idsOf('program')) {
    using program = openById('program', programId);
    if (program === undefined) continue;
    const { id, name, btfId, mapIds } = programInfo(program.fd);
    for (const mapId of mapIds) found.set(mapId, [...(found.get(mapId) ?? []), { id, name, btfId }]);
  }
  return found;
}

/** What procfs reports about a map, beyond {@link mapInfo}. */
export function mapState(fd: number): { readonly memoryBytes: number; readonly isFrozen: boolean } {
  const text = readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1');
  const field = (name: string): number => Number(new RegExp(`^${name}:\\s*(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  return { memoryBytes: field('memlock'), isFrozen: field('frozen') === 1 };
}

export function notFound(what: string, next: string): RampartError {
  return new RampartError(errorCodes.NOT_FOUND, { what, next });
}
