/** Parses the output of iptables-save and `ipset save`. */
import { parseAddress } from '../../engine/addresses.ts';
import { type BuiltinChain, builtinChains, isOurChain, isOurSet, topChains, type TopChain } from './names.ts';
import type { FamilyRules, IpSet, Lines, Top } from './rules.ts';

const tops = new Set<string>(Object.values(topChains));
const podJump = / -m comment --comment "?rule to jump traffic .* -j KUBE-POD-FW-/;

/** Reported if a rule of somebody else precedes ours: then ours are not where they should be. */
export const behindOthers = 'after a rule of another program';

/** Ours in the table `filter`. */
export function parseRules(listing: string): FamilyRules {
  const chains = new Map<string, string[]>();
  const hooks = new Map<BuiltinChain, string[]>();
  const others = new Set<string>();
  const filter = /^\*filter\n([^]*?)^COMMIT$/m.exec(listing)?.[1] ?? '';
  for (const line of filter.split('\n')) {
    const [, declared] = /^:(\S+) /.exec(line) ?? [];
    if (declared !== undefined && isOurChain(declared)) chains.set(declared, []);
    const [, chain, rule] = /^-A (\S+) (.*)$/.exec(line) ?? [];
    if (chain === undefined || rule === undefined) continue;
    const own = chains.get(chain);
    if (own !== undefined) own.push(rule);
    else if (isBuiltin(chain)) {
      if (!rule.endsWith(` -j ${topChains[chain]}`) && rule !== `-j ${topChains[chain]}`) others.add(chain);
      else {
        const found = hooks.get(chain) ?? [];
        if (others.has(chain)) found.push(behindOthers);
        found.push(rule);
        hooks.set(chain, found);
      }
    }
  }
  const foundTops = new Map<TopChain, Top>();
  for (const [name, lines] of chains) {
    if (!tops.has(name)) continue;
    foundTops.set(name as TopChain, split(lines));
    chains.delete(name);
  }
  return { hooks, tops: foundTops, chains };
}

function isBuiltin(chain: string): chain is BuiltinChain {
  return (builtinChains as readonly string[]).includes(chain);
}

/** If a pod's rule comes after another one, it is part of the tail, which then differs from any of ours. */
function split(lines: Lines): Top {
  const first = lines.findIndex((line) => !podJump.test(line));
  return first < 0 ? { pods: lines, tail: [] } : { pods: lines.slice(0, first), tail: lines.slice(first) };
}

/** The sets that rules match. */
export function setsLookedInto({ tops: all, chains }: FamilyRules): Set<string> {
  const names = new Set<string>();
  for (const lines of [...chains.values(), ...[...all.values()].map(({ tail }) => tail ?? [])]) {
    for (const line of lines) {
      for (const [, name = ''] of line.matchAll(/ --match-set (\S+) /g)) names.add(name);
    }
  }
  return names;
}

/** Options that our sets do not have and that change the behaviour of a set. */
const oddOptions = / (?:timeout|counters|comment|skbinfo|forceadd|netmask|bitmask|markmask|nomatch)\b/;

export function parseSets(listing: string): Map<string, IpSet> {
  const sets = new Map<string, IpSet & { readonly members: Set<string> }>();
  for (const line of listing.split('\n')) {
    const [verb, name, rest] = splitWords(line);
    if (!isOurSet(name)) continue;
    if (verb === 'create') {
      const [type = ''] = rest.split(' ', 1);
      sets.set(name, {
        name,
        type: type as IpSet['type'],
        family: rest.includes(' family inet6 ') ? 6 : 4,
        members: new Set(),
        isOdd: oddOptions.test(rest),
        room: Number(/ maxelem (\d+)/.exec(rest)?.[1] ?? 0),
      });
    } else if (verb === 'add') {
      // An odd one may have more words.
      sets.get(name)?.members.add(canonicalMember(rest.split(' ', 1)[0] ?? ''));
    }
  }
  return sets;
}

/** Of a set: its own default, and more where it needs more. */
export function mostMembers(count: number): number {
  let most = 65_536;
  while (most < count) most *= 2;
  return most;
}

function splitWords(line: string): [string, string, string] {
  const first = line.indexOf(' ');
  const second = line.indexOf(' ', first + 1);
  return second < 0
    ? [line.slice(0, first), line.slice(first + 1), '']
    : [line.slice(0, first), line.slice(first + 1, second), line.slice(second + 1)];
}

/** The C library formats the end of some IPv6 addresses as IPv4. */
function canonicalMember(text: string): string {
  const [, address = '', rest = ''] = /^([\da-f:]+:[\d.]+\.\d+)(.*)$/i.exec(text) ?? [];
  const parsed = address === '' ? undefined : parseAddress(address);
  return parsed === undefined ? text : `${parsed.text}${rest}`;
}
