export interface LeaseView {
  readonly name: string;
  /** Empty if it is free. */
  readonly holder: string;
  /** By this machine's clock: negative if the holder's clock is ahead; `null` if the lease has no time. */
  readonly renewedSecondsAgo: number | null;
  readonly isRenewed: boolean;
}

/** Who holds a lock, in `-o json`. */
export interface HolderReport {
  /**
   * `held`; `stale`: its holder has not renewed it in time; `free`: without a holder; `unknown`: it may not
   * be read.
   */
  readonly state: 'held' | 'stale' | 'free' | 'unknown';
  readonly holder: string | null;
  /** By this machine's clock: negative if the holder's clock is ahead; `null` if unknown. */
  readonly renewedSecondsAgo: number | null;
}

const nobody: HolderReport = { state: 'free', holder: null, renewedSecondsAgo: null };

/** Who holds the lock with this name; unknown if locks may not be read, or the name is undefined. */
export function holderOf(leases: readonly LeaseView[] | undefined, name: string | undefined): HolderReport {
  if (leases === undefined || name === undefined) return { ...nobody, state: 'unknown' };
  const lease = leases.find((one) => one.name === name);
  if (lease === undefined) return nobody;
  const { holder, isRenewed, renewedSecondsAgo } = lease;
  if (holder === '') return { ...nobody, renewedSecondsAgo };
  return { state: isRenewed ? 'held' : 'stale', holder, renewedSecondsAgo };
}

/** The holder for people: without the random part after the name of the node or host. */
export function holderName({ holder }: HolderReport): string {
  return nodeOfHolder(holder ?? '');
}

/** The node, if the holder of a lock is an agent. */
export function nodeOfHolder(identity: string): string {
  return identity.replace(/_[0-9a-f-]{36}$/, '');
}
