/** Asks a yes-or-no question on the terminal. */
import { createInterface } from 'node:readline/promises';

/**
 * Asks on stderr.
 *
 * @param question without the choices
 * @returns undefined if stdin is not a terminal: the question was not asked
 * @throws the reason of the signal
 */
export async function confirmed(question: string, signal: AbortSignal): Promise<boolean | undefined> {
  const { stdin: input, stderr: output } = process;
  if (!input.isTTY) return undefined;
  using asking = new DisposableStack();
  const lines = asking.adopt(createInterface({ input, output }), (one) => one.close());
  const answer = await lines.question(`${question} [y/N] `, { signal });
  return /^y(?:es)?$/i.test(answer.trim());
}
