/** Shows problems as lines below the object that they are about. */
import { agoText } from '../lib/output/ago.ts';
import { printable } from '../lib/output/printable.ts';
import { someOf } from '../lib/output/words.ts';
import type { Problem } from './guarded.ts';

/** At most this many lines for one object; the others are counted. */
const MANY = 20;
const NAMED_NODES = 3;

/** `node n1: the agent no longer renews its lease, although ... (47 s ago). Start it ...`. One line for nodes with the same problem. */
export function problemTexts(problems: readonly Problem[], nowMs: number): string[] {
  const groups = Map.groupBy(problems, ({ node, field, why, next }) =>
    // Nodes with the same problem share a line: the action differs only in the node's name.
    JSON.stringify([node !== null, field, why, node === null ? next : next.replaceAll(node, '')]),
  );
  const texts = [...groups.values()].map((group) => textOf(group, nowMs));
  const shown = texts.slice(0, MANY);
  const more = texts.length - shown.length;
  return more === 0 ? shown : [...shown, `and ${more} more problems`];
}

function textOf(group: readonly Problem[], nowMs: number): string {
  const [first] = group;
  if (first === undefined) return '';
  const { field, why, next } = first;
  const nodes = group.flatMap(({ node }) => node ?? []);
  const named = `${nodes.length === 1 ? 'node' : 'nodes'} ${someOf(nodes, NAMED_NODES)}`;
  const where = [...(nodes.length === 0 ? [] : [named]), ...(field === null ? [] : [field])];
  const since = group.flatMap((one) => one.since ?? []).toSorted()[0];
  const age = since === undefined ? '' : ` (${agoText(nowMs - Date.parse(since))})`;
  const place = where.length === 0 ? '' : `${where.join(', ')}: `;
  return printable(`${place}${why.replace(/\s*\n\s*/g, ' ')}${age}. ${next}.`);
}
