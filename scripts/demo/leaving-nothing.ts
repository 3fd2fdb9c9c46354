/** A part of the demo that starts processes: at its end, all of them have to be gone, which is checked. */
import { paint } from '../../lib/output/table.ts';
import { Checks } from './checks.ts';
import type { PartOptions, Shown } from './shown.ts';
import { Traces } from './traces.ts';

/** The parameters of a part. */
export interface Play {
  /** Gets what ends what it starts. */
  readonly stack: AsyncDisposableStack;
  /** Told of everything before it ends. */
  readonly traces: Traces;
  readonly checks: Checks;
}

/** Plays the part, cleans up, looks for what is left, and says what was as expected. @throws what `play` throws, after that. */
export async function leavingNothing(
  { screen, signal }: PartOptions,
  play: (given: Play) => Promise<void>,
): Promise<Shown> {
  const checks = new Checks();
  const traces = new Traces();
  try {
    await using stack = new AsyncDisposableStack();
    await play({ stack, traces, checks });
    await screen.during('cleaning up', stack.disposeAsync());
    signal.throwIfAborted();
  } catch (error) {
    const left = await traces.remains();
    if (left.length > 0) screen.line(`Left on this machine: ${left.join(', ')}`);
    throw error;
  }
  const left = await screen.during('looking for what is left', traces.remains());
  checks.add('left on the machine', 'nothing', left.join(', ') || 'nothing');
  screen.step(
    left.length === 0
      ? `Cleaned up. Looked for, and gone: ${traces.description}.`
      : `Not all of it is gone: ${left.join(', ')}.`,
  );
  screen.line(`\n${checks.table(screen)}\n`);
  const { total, failed } = checks.shown;
  const summary =
    failed === 0 ? `All ${total} are as expected.` : `${failed} of ${total} are not as expected.`;
  screen.line(paint(failed === 0 ? 'green' : 'red', summary, screen.colour));
  return { total, failed };
}
