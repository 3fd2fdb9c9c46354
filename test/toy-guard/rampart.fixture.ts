/** The `rampart` command with the toy guard beside the product's. */
import { guards } from '../../apps/guards.ts';
import { runProgram } from '../../apps/program.ts';
import { doorWatch } from './guard.fixture.ts';

await runProgram([...guards, doorWatch]);
