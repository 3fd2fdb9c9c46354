export interface LeaseView {
  readonly name: string;
  /** Empty if it is free. */
  readonly holder: string;
  /** Measured with this machine's clock: negative if the holder's is ahead; `null` if the lease does not say. */
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
  /** Measured with this machine's clock: negative if the holder's is ahead. */
  readonly renewedSecondsAgo: number | null;
}

const nobody: HolderReport = { state: 'free', holder: null, renewedSecondsAgo: null };

/** Who holds the lock of this name; unknown if locks may not be read, or if it is unknown which lock it is. */
export function holderOf(leases: readonly LeaseView[] | undefined, name: string | undefined): HolderReport {
  if (leases === undefined || name === undefined) return { ...nobody, state: 'unknown' };
  const lease = leases.find((one) => one.name === name);
  if (lease === undefined) return nobody;
  const { holder, isRenewed, renewedSecondsAgo } = lease;
  if (holder === '') return { ...nobody, renewedSecondsAgo };
  return { state: isRenewed ? 'held' : 'stale', holder, renewedSecondsAgo };
}

/** Holders are named by their node or host and a random part, which is useless to people. */
export function holderName({ holder }: HolderReport): string {
  return nodeOfHolder(holder ?? '');
}

/** The node of an agent that holds a lock. */
export function nodeOfHolder(identity: string): string {
  return identity.replace(/_[0-9a-f-]{36}$/, '');
}
