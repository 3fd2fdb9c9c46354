/**
 * The chains according to the objects in the API: which programs are on which interface, in which order. The objects do not say how often
 * the programs run.
 */
import type { Picture, PictureItem } from '../../../guard/picture.ts';
import { counted, someOf } from '../../../lib/output/words.ts';
import type { ParentKind, ParentObject } from '../api.ts';
import { nodeOf } from '../engine/parent-condition.ts';
import type { ApplicationStatus } from '../state-schema.ts';
import type { ProgramView } from '../status/section.ts';

/** Limit of chains in the picture: with more it would not be readable. */
const MAX_CHAINS = 12;

interface Member {
  /** Such as `eth0 · xdp`. */
  readonly hook: string;
  readonly node: string;
  readonly interface: string;
  readonly owner: string;
  readonly priority: number;
  readonly proceedOn: string;
  /** Why it does not run; empty if it does. */
  readonly problem: string;
}

export function apiChains(all: readonly ProgramView[]): Pick<Picture, 'items' | 'notes'> {
  const members = all.flatMap((program) => (program.kind.api === 'v0.5' ? placed(program) : linked(program)));
  const byPlace = [...Map.groupBy(members, ({ node, hook }) => JSON.stringify([node, hook])).values()].map(
    (chain) => chain.toSorted((a, b) => a.priority - b.priority || (a.owner < b.owner ? -1 : 1)),
  );
  // Nodes with the same chains are shown once: in a cluster, most are the same.
  const alike = [...Map.groupBy(byPlace, (chain) => JSON.stringify(chain.map(withoutNode))).values()];
  const shown = alike.toSorted((a, b) => trouble(b[0]) - trouble(a[0])).slice(0, MAX_CHAINS);
  const left = alike.length - shown.length;
  return {
    items: shown.flatMap((chains) => {
      const nodes = chains.map(([first]) => first?.node ?? '');
      return (chains[0] ?? []).map((member) => itemOf(member, nodes));
    }),
    notes: left > 0 ? [`${counted(left, 'chain')} left out: those in which all programs run.`] : [],
  };
}

function withoutNode({ node: _node, ...member }: Member): object {
  return member;
}

function trouble(chain: readonly Member[] = []): number {
  return chain.filter(({ problem }) => problem !== '').length;
}

function itemOf(
  { hook, interface: name, owner, priority, proceedOn, problem }: Member,
  nodes: readonly string[],
) {
  const on = nodes.length > 3 ? counted(nodes.length, 'node') : nodes.join(', ');
  const state = problem === '' ? 'It runs' : `It does not run: ${problem.replace(/\.$/, '')}`;
  const after = proceedOn === '' || proceedOn === 'next' ? '' : ` The next one runs after ${proceedOn}.`;
  return {
    at: [`${hook} · on ${on}`, `${priority} ${owner}`],
    value: 0,
    tone: problem === '' ? 'ok' : 'bad',
    mark: problem === '' ? '' : 'not running',
    proceedOn,
    text: `${owner} on ${hook}, priority ${priority}, on ${someOf(nodes, 3)}. ${state}.${after}`,
    nextOnNode: ['bpf', 'chain', name],
  } satisfies PictureItem;
}

/** The fields of a hook that both APIs have. */
interface Hook {
  readonly interfaceName?: string | undefined;
  readonly priority?: number;
  readonly direction?: string;
  readonly proceedOn?: readonly string[] | undefined;
}

function onHook(
  type: 'tc' | 'tcx' | 'xdp',
  { interfaceName: name, priority, direction, proceedOn = [] }: Hook,
  of: Pick<Member, 'node' | 'owner' | 'problem'>,
): Member[] {
  if (name === undefined || priority === undefined) return [];
  const hook = [name, type, direction?.toLowerCase()].filter((part) => part !== undefined).join(' · ');
  return [
    {
      ...{ ...of, hook, priority, interface: name },
      proceedOn: type === 'tcx' ? 'next' : proceedOn.join(', '),
    },
  ];
}

/** v0.5: one object for each place; the parent has the priority. */
function placed({ kind, parent, objects }: ProgramView): Member[] {
  const { proceedon: proceedOn, ...hook } = parent.spec as Hook & { readonly proceedon?: readonly string[] };
  const type = kind.single;
  if (type !== 'xdp' && type !== 'tc' && type !== 'tcx') return [];
  return objects.flatMap((object) => {
    const annotations = Object.entries(object.metadata.annotations ?? {});
    const interfaceName = annotations.find(([key]) => key.endsWith('controller/interface'))?.[1];
    const [condition] = object.status?.conditions ?? [];
    return onHook(
      type,
      { ...hook, interfaceName, proceedOn },
      {
        ...{ node: nodeOf(object), owner: ownerOf(kind, parent) },
        problem: condition?.type === 'Loaded' ? '' : (condition?.message ?? 'the agent has not said so'),
      },
    );
  });
}

/** v0.6: one object for each node, which has the links. */
function linked({ kind, parent, objects }: ProgramView): Member[] {
  return objects.flatMap((object) => {
    const { programs = [], conditions } = (object.status ?? {}) as Partial<ApplicationStatus>;
    return programs.flatMap(({ name: program, ...places }): Member[] =>
      (['xdp', 'tc', 'tcx'] as const).flatMap((type) =>
        (places[type]?.links ?? []).flatMap((link) =>
          onHook(type, link as typeof link & Hook, {
            ...{ node: nodeOf(object), owner: `${ownerOf(kind, parent)} ${program}` },
            problem: link.linkStatus === 'Attached' ? '' : (conditions?.[0]?.message ?? link.linkStatus),
          }),
        ),
      ),
    );
  });
}

function ownerOf({ kind }: ParentKind, { metadata }: ParentObject): string {
  return `${kind}/${metadata.namespace === undefined ? '' : `${metadata.namespace}/`}${metadata.name ?? ''}`;
}
