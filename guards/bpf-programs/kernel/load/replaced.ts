/** The programs that a new version replaces, and the map contents that are lost with them. */
import { join } from 'node:path';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { RampartError } from '../../../../lib/errors/errors.ts';
import type { DesiredProgram } from '../desired.ts';
import { mapInfo } from '../info.ts';
import { openPin } from '../pins/pin.ts';
import type { Pins } from '../pins/pins.ts';
import { entriesOf } from '../running/map-entries.ts';
import type { KeptMap, ProgramRecord } from '../records.ts';
import { isUnchanged, type MapSources, nameOf, variableSections } from './existing-maps.ts';
import { loadKeyOf } from './load-key.ts';
import { shapeDifferences } from './map-shape.ts';

/**
 * The maps that are available to programs which are loaded together.
 *
 * @param unit - These programs.
 * @param all - Records of all programs in the kernel.
 * @param staying - Ids of programs that stay.
 */
export function mapSources(
  unit: readonly DesiredProgram[],
  all: readonly ProgramRecord[],
  staying: ReadonlySet<string>,
): Omit<MapSources, 'owner' | 'sameLoad'> & { readonly others: readonly ProgramRecord[] } {
  const [first] = unit;
  const ids = new Set(unit.map(({ id }) => id));
  const keys = new Set(unit.map(loadKeyOf));
  /** Whether it is an unwanted program of the same application, so that the unit replaces it. */
  const isLeft = ({ id, owner, namespace }: ProgramRecord): boolean =>
    first?.mapGroup !== undefined &&
    owner === first.owner &&
    namespace === first.namespace &&
    !staying.has(id);
  const before = all
    .filter((record) => !keys.has(record.loadKey) && (ids.has(record.id) || isLeft(record)))
    .toSorted((a, b) => b.programId - a.programId);
  const others = all.filter((record) => !before.includes(record) && !ids.has(record.id));
  const held = new Set(others.flatMap(({ maps }) => maps.map(({ id }) => id)));
  const isOfOthers = ({ sharedWith }: ProgramRecord, { id, byName, shared }: KeptMap): boolean =>
    held.has(id) && (byName === true || (shared ?? sharedWith !== undefined));
  return {
    before,
    others,
    scope: others.filter(({ namespace }) => namespace === first?.namespace),
    ofOthers: new Set(
      before.flatMap((record) => record.maps.filter((map) => isOfOthers(record, map)).map(({ id }) => id)),
    ),
  };
}

/** Beyond this number of entries, a map is only reported to have more. */
const MAX_COUNTED = 1000;

/**
 * Contents of replaced programs' maps that no new map has.
 *
 * @param others - Programs that stay, and so keep their maps.
 * @returns complete sentences.
 */
export function lostContents(
  pins: Pins,
  before: readonly ProgramRecord[],
  now: readonly ProgramRecord[],
  others: readonly ProgramRecord[],
): readonly string[] {
  const stays = new Set([...now, ...others].flatMap(({ maps }) => maps.map(({ id }) => id)));
  const lost = new Map<number, string>();
  for (const record of before) {
    for (const kept of record.maps) {
      if (stays.has(kept.id) || lost.has(kept.id)) continue;
      using map = openPin(join(pins.program(record), 'maps', kept.pin));
      if (map === undefined) continue;
      const what = contents(kept, map);
      if (what !== undefined) lost.set(kept.id, sentence(pins, kept, map, what, now));
    }
  }
  return [...lost.values()];
}

/** What the map holds, such as `1 entry`; empty if unknown, undefined if nothing would be lost. */
function contents(kept: KeptMap, map: Descriptor): string | undefined {
  const info = mapInfo(map.fd);
  try {
    if (kept.internal) {
      const [entry] = entriesOf(map.fd, info);
      const [value] = entry?.values ?? [];
      const isLost = variableSections.test(nameOf(kept)) && value !== undefined && !isUnchanged(kept, value);
      return isLost ? '' : undefined;
    }
    let count = 0;
    for (const { values } of entriesOf(map.fd, info)) {
      // The entries of an array always exist: only those that are not zero count.
      if (values.some((value) => value.some((byte) => byte !== 0))) count++;
      if (count > MAX_COUNTED) return `more than ${MAX_COUNTED} entries`;
    }
    return count === 0 ? undefined : `${count} ${count === 1 ? 'entry' : 'entries'}`;
  } catch (error) {
    if (!(error instanceof RampartError)) throw error;
    return '';
  }
}

function sentence(
  pins: Pins,
  kept: KeptMap,
  map: Descriptor,
  what: string,
  now: readonly ProgramRecord[],
): string {
  const name = nameOf(kept);
  const next = now
    .flatMap((record) => record.maps.map((one) => ({ record, one })))
    .find(({ one }) => nameOf(one) === name);
  if (kept.internal)
    return next === undefined
      ? `The global variables in ${name} are gone: the new version has none there.`
      : `The global variables in ${name} have their first values again: their places or first values have changed.`;
  if (next === undefined)
    return `The map ${name} is gone${what && `, with ${what}`}: the new version has none of that name.`;
  const without =
    what === '' ? 'without what was in the one before' : `without the ${what} of the one before`;
  return `The map ${name} is a new one, ${without}: ${reason(pins, next.record, next.one, map)}.`;
}

function reason(pins: Pins, record: ProgramRecord, next: KeptMap, before: Descriptor): string {
  using its = openPin(join(pins.program(record), 'maps', next.pin));
  const differences = its === undefined ? [] : shapeDifferences(mapInfo(its.fd), mapInfo(before.fd));
  const changes = differences.map((text) => text.replace(' here, ', ' now, ').replace(' there', ' before'));
  if (changes.length > 0) return `its shape has changed (${changes.join('; ')})`;
  return next.shared === true
    ? 'it is that of the program whose maps are shared'
    : 'it is one that several programs have';
}
