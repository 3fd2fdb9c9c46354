/** kubectl, as a person would use it. */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { type Answer, answerOf, inNetworkOf } from './commands.ts';
import type { Screen } from './screen.ts';

const WAIT_MS = 30_000;
/** Each asks with a process, which takes a tenth of a second of CPU time. */
const PACE_MS = 250;

/** Why it cannot be run on this machine; undefined when it can. */
export function kubectlObstacle(): string | undefined {
  const path = (process.env['PATH'] ?? '').split(delimiter);
  return path.some((directory) => existsSync(join(directory, 'kubectl')))
    ? undefined
    : 'missing packages: apt-get install kubernetes-client';
}

export interface KubectlOptions {
  readonly kubeconfig: string;
  /** Where it is run, and where it keeps what it caches. */
  readonly directory: string;
  /** Runs it in the network of this process. Default: in this one's. */
  readonly networkOf?: number;
  readonly signal: AbortSignal;
}

export class Kubectl {
  readonly #options: KubectlOptions;

  constructor(options: KubectlOptions) {
    this.#options = options;
  }

  /** Runs it to its end, whatever it answers. */
  async ask(...words: readonly string[]): Promise<Answer> {
    const { kubeconfig: KUBECONFIG, directory, networkOf, signal } = this.#options;
    const env = { PATH: process.env['PATH'], HOME: directory, KUBECONFIG };
    return answerOf(inNetworkOf(networkOf, ['kubectl', ...words]), { cwd: directory, env, signal });
  }

  /**
   * Its output.
   *
   * @throws for another exit code than 0.
   */
  async run(...words: readonly string[]): Promise<string> {
    const { exitCode, said } = await this.ask(...words);
    if (exitCode !== 0) throw new Error(`kubectl ${words.join(' ')} ended with ${exitCode}: ${said}`);
    return said;
  }

  /** Asks until it answers so; the last answer where it does not in time. */
  async until(words: readonly string[], holds: (answer: string) => boolean): Promise<string> {
    const endsAtMs = performance.now() + WAIT_MS;
    for (;;) {
      const answer = await this.run(...words);
      if (holds(answer) || performance.now() > endsAtMs) return answer;
      await sleep(PACE_MS, undefined, { signal: this.#options.signal });
    }
  }
}

/** Runs kubectl as shown. */
export async function shownKubectl(
  { screen, kubectl }: { readonly screen: Screen; readonly kubectl: Kubectl },
  ...words: readonly string[]
): Promise<string> {
  screen.command(`kubectl ${words.join(' ')}`);
  const { said } = await screen.during('kubectl', kubectl.ask(...words));
  screen.answer(said);
  return said;
}
