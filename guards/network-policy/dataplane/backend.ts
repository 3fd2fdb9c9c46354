/** Chooses the dataplane of a node, and removes the rules that another one has left. */
import { KeptNamespace } from './namespace.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { NodeRules, RulesChange } from '../engine/rules.ts';
import type { Dataplane, DataplaneOptions, Programmed } from './dataplane.ts';
import type { Variant } from './iptables/variant.ts';

export type BackendChoice = 'auto' | 'nftables' | 'iptables';

export interface OpenedBackend {
  /** `nftables`, `iptables (nft)` or `iptables (legacy)`. */
  readonly name: string;
  readonly dataplane: Dataplane;
}

/**
 * Opens the requested dataplane. `auto` means nftables, or iptables if nftables does not work. The rules left by
 * another dataplane are removed after the first successful sync; until then, a packet must pass both.
 *
 * Works in the network namespace that the calling thread has now.
 *
 * @throws {RampartError} `UNSUPPORTED`, which names what is missing; `PRIVILEGE`.
 */
export async function openBackend(
  choice: BackendChoice,
  options: Partial<DataplaneOptions>,
  logger: Pick<Logger, 'info' | 'warn'>,
  signal?: AbortSignal,
): Promise<OpenedBackend> {
  const namespace = new KeptNamespace();
  try {
    const opened = await open(choice, options, namespace, logger, signal);
    return { name: opened.name, dataplane: new Replacing(opened, namespace, logger) };
  } catch (error) {
    namespace[Symbol.dispose]();
    throw error;
  }
}

interface Opened extends OpenedBackend {
  /** Undefined for nftables. */
  readonly variant: Variant | undefined;
}

async function open(
  choice: BackendChoice,
  options: Partial<DataplaneOptions>,
  namespace: KeptNamespace,
  logger: Pick<Logger, 'info' | 'warn'>,
  signal: AbortSignal | undefined,
): Promise<Opened> {
  if (choice === 'nftables') return await openNftables(options, namespace);
  if (choice === 'iptables') return await openIptables(options, namespace, logger, signal);
  try {
    return await openNftables(options, namespace);
  } catch (notNftables) {
    if (!(notNftables instanceof RampartError)) throw notNftables;
    try {
      const opened = await openIptables(options, namespace, logger, signal);
      logger.warn(`network policies are programmed by iptables: ${notNftables.message}`);
      return opened;
    } catch (notIptables) {
      if (!(notIptables instanceof RampartError)) throw notIptables;
      const { PRIVILEGE, UNSUPPORTED } = errorCodes;
      const code = [notNftables, notIptables].every((each) => each.code === PRIVILEGE)
        ? PRIVILEGE
        : UNSUPPORTED;
      throw new RampartError(code, {
        what: 'neither nftables nor iptables can be programmed here',
        why: `${notNftables.message}; ${notIptables.message}`,
        next: 'See `rampart doctor`',
      });
    }
  }
}

async function openNftables(options: Partial<DataplaneOptions>, namespace: KeptNamespace): Promise<Opened> {
  const { openNftablesDataplane } = await import('./nftables/dataplane.ts');
  const { tryNftables } = await import('./nftables/trial.ts');
  return namespace.run(() => {
    tryNftables();
    return { name: 'nftables', variant: undefined, dataplane: openNftablesDataplane(options) };
  });
}

async function openIptables(
  options: Partial<DataplaneOptions>,
  namespace: KeptNamespace,
  logger: Pick<Logger, 'warn'>,
  signal: AbortSignal | undefined,
): Promise<Opened> {
  const { examineIptables, requireIptables } = await import('./iptables/needs.ts');
  const { openIptablesDataplane } = await import('./iptables/dataplane.ts');
  const needs = await examineIptables(namespace, signal);
  const { variant } = requireIptables(needs);
  const { withoutHopLimit } = needs;
  if (withoutHopLimit !== undefined) logger.warn(withoutHopLimit);
  const matchesHopLimit = withoutHopLimit === undefined;
  const dataplane = namespace.run(() => openIptablesDataplane({ ...options, variant, matchesHopLimit }));
  return { name: `iptables (${variant})`, variant, dataplane };
}

/** A dataplane that removes the rules of other backends once its own are in effect. */
class Replacing implements Dataplane {
  readonly #own: Dataplane;
  readonly #namespace: KeptNamespace;
  readonly #variant: Variant | undefined;
  readonly #logger: Pick<Logger, 'info' | 'warn'>;
  #isAlone = false;
  #reported: string | undefined;

  constructor(
    { dataplane, variant }: Opened,
    namespace: KeptNamespace,
    logger: Pick<Logger, 'info' | 'warn'>,
  ) {
    this.#own = dataplane;
    this.#namespace = namespace;
    this.#variant = variant;
    this.#logger = logger;
  }

  async sync(rules: NodeRules, signal?: AbortSignal): Promise<Programmed> {
    const programmed = await this.#own.sync(rules, signal);
    await this.#removeOthers(signal);
    return programmed;
  }

  apply(rules: NodeRules, change: RulesChange, signal?: AbortSignal): Promise<Programmed> {
    return this.#own.apply(rules, change, signal);
  }

  /** Asks all backends: rules of one that was used earlier may still be in the kernel. */
  async isEnforcing(signal?: AbortSignal): Promise<boolean> {
    if (await this.#own.isEnforcing(signal)) return true;
    try {
      return await this.#areOthersEnforcing(signal);
    } catch (error) {
      signal?.throwIfAborted();
      // A backend that is not installed, or not permitted, cannot have left anything.
      if (error instanceof RampartError) return false;
      throw error;
    }
  }

  async #areOthersEnforcing(signal: AbortSignal | undefined): Promise<boolean> {
    if (this.#variant !== undefined) {
      const { openNftablesDataplane } = await import('./nftables/dataplane.ts');
      using other = this.#namespace.run(() => openNftablesDataplane());
      if (await other.isEnforcing(signal)) return true;
    }
    const { isIptablesEnforcing } = await import('./iptables/leftovers.ts');
    return await isIptablesEnforcing(this.#namespace, this.#variant, signal);
  }

  async idle(signal?: AbortSignal): Promise<void> {
    await this.#own.idle(signal);
    await this.#removeOthers(signal);
  }

  verify(signal?: AbortSignal): ReturnType<Dataplane['verify']> {
    return this.#own.verify(signal);
  }

  isUndisturbed(): boolean {
    return this.#own.isUndisturbed();
  }

  disturbed(signal: AbortSignal): Promise<boolean> {
    return this.#own.disturbed(signal);
  }

  counters(signal?: AbortSignal): ReturnType<Dataplane['counters']> {
    return this.#own.counters(signal);
  }

  async remove(signal?: AbortSignal): Promise<readonly string[]> {
    const removed = await this.#own.remove(signal);
    return [...removed, ...(await this.#removeOthers(signal))];
  }

  ownerOfLog(...logged: Parameters<Dataplane['ownerOfLog']>): ReturnType<Dataplane['ownerOfLog']> {
    return this.#own.ownerOfLog(...logged);
  }

  /**
   * Done only once, since only Rampart writes these rules. If it fails, the rules of both backends apply, which allows
   * too little rather than too much.
   */
  async #removeOthers(signal: AbortSignal | undefined): Promise<readonly string[]> {
    if (this.#isAlone) return [];
    let isAlone = true;
    const removed: string[] = [];
    for (const work of [() => this.#removeNftables(signal), () => this.#removeIptables(signal)]) {
      try {
        removed.push(...(await work()));
      } catch (error) {
        signal?.throwIfAborted();
        // A backend that is not installed cannot have left anything.
        if (!(error instanceof RampartError) || error.code === errorCodes.UNSUPPORTED) continue;
        isAlone = false;
        if (this.#reported !== error.message) {
          this.#logger.warn(`cannot remove rules that another backend may have left: ${error.message}`);
        }
        this.#reported = error.message;
      }
    }
    this.#isAlone = isAlone;
    if (removed.length > 0) {
      this.#logger.info({ removed: removed.length }, 'removed rules of another backend');
    }
    return removed;
  }

  async #removeNftables(signal: AbortSignal | undefined): Promise<readonly string[]> {
    if (this.#variant === undefined) return [];
    const { openNftablesDataplane } = await import('./nftables/dataplane.ts');
    using other = this.#namespace.run(() => openNftablesDataplane());
    return await other.remove(signal);
  }

  async #removeIptables(signal: AbortSignal | undefined): Promise<readonly string[]> {
    const { removeIptablesLeftovers } = await import('./iptables/leftovers.ts');
    return await removeIptablesLeftovers(this.#namespace, this.#variant, signal);
  }

  [Symbol.dispose](): void {
    this.#own[Symbol.dispose]();
    this.#namespace[Symbol.dispose]();
  }
}
