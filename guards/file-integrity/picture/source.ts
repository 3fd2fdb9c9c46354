import type { Picture, PictureItem, PictureSource } from '../../../guard/picture.ts';
import { counted, someOf } from '../../../lib/output/words.ts';
import { bothGroups, type FileIntegrityNodeStatus, names } from '../api.ts';
import { describeAuthor } from '../cluster/report-entries.ts';
import { acceptWords } from '../status/finding-line-kind.ts';

type Reported = NonNullable<FileIntegrityNodeStatus['findings']>[number];

/** A changed path, with the nodes on which it has changed. */
interface ChangedPath {
  readonly path: string;
  readonly nodes: Set<string>;
  /** The FileIntegrity in which the change can be accepted, as `namespace/name`. */
  readonly fileIntegrity: string;
  finding: Reported;
}

/** Limit of paths: if there are more, they are too small to see. */
const MAX_PATHS = 300;

export const fileIntegrityPicture: PictureSource = {
  async read({ list, orForbidden }) {
    const paths = new Map<string, ChangedPath>();
    let [omitted, nodes, unread] = [0, 0, 0];
    const take = (status: FileIntegrityNodeStatus): void => {
      nodes++;
      omitted += status.omittedFindings ?? 0;
      unread += status.unread?.count ?? 0;
      for (const finding of status.findings ?? []) add(paths, status, finding);
    };
    const readable = await orForbidden('fileintegritynodestatuses', async () => {
      for (const { nodeStatuses } of bothGroups) await list(nodeStatuses, take);
      return true;
    });
    const all = [...paths.values()].toSorted((a, b) => rank(a) - rank(b) || (a.path < b.path ? -1 : 1));
    const shown = all.slice(0, MAX_PATHS);
    const left = all.length - shown.length;
    const notes = [
      readable === true && nodes === 0 && 'No node has been compared with a baseline yet.',
      nodes > 0 && all.length === 0 && omitted === 0 && `Nothing has changed on ${counted(nodes, 'node')}.`,
      left > 0 && `${counted(left, 'changed path')} more: those of packages are left out first.`,
      omitted > 0 && `${counted(omitted, 'change')} more in the logs of the nodes.`,
      unread > 0 && `${counted(unread, 'file')} could not be read: whether they have changed is not known.`,
    ].filter((note) => note !== false);
    return { ...picture, items: shown.map(itemOf), notes };
  },
};

const picture = {
  ...{ form: 'tree', title: 'What has changed since the baseline', axes: ['path'], unit: 'nodes' },
  legend: [
    { tone: 'bad', words: 'changed or removed' },
    { tone: 'warn', words: 'added' },
    { tone: 'none', words: 'by an update of a package' },
  ],
} as const satisfies Partial<Picture>;

function add(
  paths: Map<string, ChangedPath>,
  { metadata, nodeName }: FileIntegrityNodeStatus,
  finding: Reported,
): void {
  const known = paths.get(finding.path);
  const owner =
    metadata.ownerReferences?.find(({ kind }) => kind === 'FileIntegrity')?.name ??
    metadata.labels?.[names.ownerLabel] ??
    '';
  if (known === undefined) {
    const fileIntegrity = `${metadata.namespace ?? ''}/${owner}`;
    paths.set(finding.path, { path: finding.path, nodes: new Set([nodeName]), fileIntegrity, finding });
    return;
  }
  known.nodes.add(nodeName);
  // Show an unexplained finding rather than an explained one: it matters more.
  if (known.finding.explained !== undefined && finding.explained === undefined) known.finding = finding;
}

function rank({ finding: { explained, change } }: ChangedPath): number {
  return explained !== undefined ? 2 : change === 'added' ? 1 : 0;
}

const words = { added: 'was added', removed: 'was removed', changed: 'has changed' } as const;

function itemOf({ path, nodes, fileIntegrity, finding }: ChangedPath): PictureItem {
  const { change, attributes, author, explained } = finding;
  const what = attributes.length === 0 ? '' : ` (${attributes.join(', ')})`;
  const by = author === undefined ? '' : `, by ${describeAuthor(author)}`;
  const why = explained === undefined ? '' : `: ${explained}`;
  const [node = ''] = nodes;
  return {
    at: ['/', ...path.split('/').filter((part) => part !== '')],
    value: nodes.size,
    tone: explained !== undefined ? 'none' : change === 'added' ? 'warn' : 'bad',
    mark: nodes.size > 1 ? `${change}, ${nodes.size} nodes` : change,
    text: `${path} ${words[change]}${what} on ${someOf([...nodes], 3)}${by}${why}.`,
    next: acceptWords({ fileIntegrity, node: { name: node }, path }),
  };
}
