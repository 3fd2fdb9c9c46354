/** A process that changes programs at random until it is killed: `node churn.fixture.ts DIRECTORY SEED`. */
import { createLogger } from '../../../lib/telemetry/log.ts';
import { Random } from '../../../lib/testing/depth.fixture.ts';
import type { DesiredProgram } from './desired.ts';
import { openProgramHost } from './host.ts';
import { desired, NAME, tc, u64, xdp } from './lab.fixture.ts';

/** Those that are there all the time. */
export function staying(): readonly DesiredProgram[] {
  return [desired('stays-xdp', xdp('in0', 50)), desired('stays-tc', tc('in0', 'ingress', 50))];
}

/**
 * Some of a few others, in some order, with some values; sometimes enough that the chain continues in a
 * second program.
 */
export function changing(random: Random): readonly DesiredProgram[] {
  const many = random.chance(0.2)
    ? Array.from({ length: 20 }, (_, at) => desired(`m${at}`, xdp('in0', 5 * at)))
    : [];
  const few = Array.from({ length: random.below(5) }, (_, at) => {
    const priority = random.below(100);
    const attach = random.chance(0.5) ? xdp('in0', priority) : tc('in0', 'ingress', priority);
    return desired(`c${at}`, attach, { globals: { step: u64(random.below(3)) } });
  });
  return [...many, ...few];
}

if (process.argv[1] === import.meta.filename) {
  const [, , directory = '', seed = '0'] = process.argv;
  const random = new Random(Number(seed));
  const logger = createLogger({ level: 'silent' });
  const host = await openProgramHost({
    bpffs: `${directory}/bpffs`,
    name: NAME,
    stateDirectory: `${directory}/state`,
    hostRoot: '/',
    logger,
  });
  for (;;) {
    const outcomes = await host.apply([...staying(), ...changing(random)]);
    for (const outcome of outcomes.values())
      if (outcome.state !== 'loaded') throw new Error(JSON.stringify(outcome));
    process.stdout.write('applied\n');
    await new Promise(setImmediate);
  }
}
