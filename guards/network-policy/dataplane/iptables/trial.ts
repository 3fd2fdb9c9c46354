/** Tries rules where they are harmless: in an unreachable chain. */
import type { KeptNamespace } from '../namespace.ts';
import type { Family } from '../../engine/rules.ts';
import { runProgram } from './run-program.ts';
import type { Iptables } from './variant.ts';

const chain = 'RAMPART-TRIAL';

export class Trial {
  readonly #iptables: Iptables;
  readonly #namespace: KeptNamespace;
  readonly #signal: AbortSignal | undefined;

  constructor(iptables: Iptables, namespace: KeptNamespace, signal: AbortSignal | undefined) {
    this.#iptables = iptables;
    this.#namespace = namespace;
    this.#signal = signal;
  }

  /** Tries rules, and leaves nothing behind. @returns why they were refused; undefined if they were not */
  async rules(family: Family, lines: readonly string[]): Promise<string | undefined> {
    const made = [`:${chain} - [0:0]`, ...lines.map((line) => `-A ${chain} ${line}`)];
    const refused = await this.#restore(family, made);
    // The chain is deleted in a second transaction: of a legacy transaction, the kernel checks only the resulting table.
    if (refused === undefined) await this.#restore(family, [`:${chain} - [0:0]`, `-X ${chain}`]);
    return refused;
  }

  /**
   * Creates a set for `work`, and deletes it afterwards.
   *
   * @returns the reason for a failure, or the result of `work`
   */
  async withSet(
    family: Family,
    work: (name: string) => Promise<readonly string[]>,
  ): Promise<readonly string[]> {
    const name = family === 4 ? chain : `inet6:${chain}`;
    const type = ['hash:net', 'family', family === 4 ? 'inet' : 'inet6', '-exist'];
    const refused = await this.run('ipset', ['create', name, ...type]);
    if (refused !== undefined) return [`sets of type hash:net (module ip_set_hash_net): ${refused}`];
    try {
      return await work(name);
    } finally {
      await this.run('ipset', ['destroy', name]);
    }
  }

  /** @returns the program's error message; undefined if it succeeded */
  async run(program: string, args: readonly string[], input = ''): Promise<string | undefined> {
    const [namespace, signal] = [this.#namespace, this.#signal];
    const { code, complaint } = await runProgram({ program, args, input, namespace, signal });
    if (code === 0) return undefined;
    return `${program}: ${complaint.trim().replaceAll(/\s+/g, ' ').slice(0, 200) || `exit code ${code}`}`;
  }

  async #restore(family: Family, lines: readonly string[]): Promise<string | undefined> {
    const input = ['*filter', ...lines, 'COMMIT', ''].join('\n');
    return await this.run(this.#iptables.restore[family], ['--noflush', '--wait'], input);
  }
}
