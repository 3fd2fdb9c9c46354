/** Whose hand changed a file: that of the node's package manager, or another one. */
import type { ChangeAuthor } from './finding.ts';

/** `unseen`: it has changed, and who did it is not known. */
export type Hand = 'packages' | 'others' | 'unseen';

/**
 * A running program keeps its path when a new version takes its place, as when dpkg updates itself. proc_pid_exe(5): the kernel
 * shows that so.
 */
const replaced = ' (deleted)';

/** Programs that unpack packages: they write the files themselves, maintainer scripts are other processes. */
const unpackers: ReadonlySet<string> = new Set(['/usr/bin/dpkg', `/usr/bin/dpkg${replaced}`]);
/** Part of dpkg: writes the database of diversions. */
const diverter = '/usr/bin/dpkg-divert';

/**
 * dpkg of the node itself: root, in no container, in the node's own mount namespace. A path proves nothing elsewhere: containers and
 * other mount namespaces have programs of the same name.
 */
export function isPackageManager(author: ChangeAuthor): boolean {
  return isOnNode(author) && unpackers.has(author.binary);
}

export function isDiverter(author: ChangeAuthor): boolean {
  return isOnNode(author) && author.binary === diverter;
}

function isOnNode({ relation, mounts, uid }: ChangeAuthor): boolean {
  return relation === 'host' && mounts === undefined && uid === 0;
}

/** Combines two changes of a file: `others` wins over `unseen`, and that over `packages`. Undefined is neutral. */
export function bothHands(one: Hand | undefined, other: Hand | undefined): Hand | undefined {
  if (one === 'others' || other === 'others') return 'others';
  if (one === 'unseen' || other === 'unseen') return 'unseen';
  return one ?? other;
}
